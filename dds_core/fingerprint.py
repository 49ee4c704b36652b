"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "9eb5805f23bc2d5bc48864ac3dd539eb4f7e8f6a5603b19a2b07c6216b8a3e65"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a61c2e0dd4f3356abedb74af87c1b00a3b52ac22367a6bc7b6fb27a004ef9390"
"""That of the publisher."""
