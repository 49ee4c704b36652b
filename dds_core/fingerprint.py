"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "68c79361a75e75e9a0da8b75c511b366526496468ad50b4e4d679284a3d5bcaa"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b365be558218a49ef4404bc6876f1a3086a7af3ab7e2bb437c7a1252c2d04c72"
"""That of the publisher."""
