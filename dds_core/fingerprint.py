"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "23c0c48bb6d9847ebfc850555a1076f2e9fb0c8bb8bc58c35fc929f3961298ca"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "3a4096b47d2de1a37c4816ad7f42129a79002d7d2ac6d8ad191a6177734161d6"
"""That of the publisher."""
