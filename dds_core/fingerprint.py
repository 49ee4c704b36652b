"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "af201d8bd08054da5aedaa851402fe436ab1a8636c854f1d123be9c3566b2be8"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "624c4f466c5688e2e0b0e04ddde4f662cecf0c64708ad3d31e53ec15bdc6cd83"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "9b59da83c5d1178c8d98ea71475f50b555056ad01599fd47700ba43b8a020c5a"
"""That of the autoscaler."""
