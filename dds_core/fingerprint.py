"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "17f0e41cdb48d68a3933cab10cce03f8e8875cfa7241c19077afa894ba0ffb59"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1154c32ecfc0f4aa82e82f4c4b83df9abe2f333203e3ad685813ea52ff2dbcb0"
"""That of the publisher."""
