"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "e3146c9e5b48e36d5a36b15b2615571bd73dd9b6121f96997e78207bde9138cb"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b365be558218a49ef4404bc6876f1a3086a7af3ab7e2bb437c7a1252c2d04c72"
"""That of the publisher."""
