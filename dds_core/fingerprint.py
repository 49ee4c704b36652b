"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f0cf4bb65365085d1f3630f8bc5b34a41402191222eaa140d9e947ee4a097ab6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a61c2e0dd4f3356abedb74af87c1b00a3b52ac22367a6bc7b6fb27a004ef9390"
"""That of the publisher."""
