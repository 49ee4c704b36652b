"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "b4a30af3a32fb4b76e21f0fedc35a82dadfdb71bd5ab7633e4a93af5f31a10a9"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "75646ab389a565101614c822b1c27b4f91e9f3f89f46665f2c1c4db7f7d64f89"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "af8154671beaadf02328e2fb088388eb92f476be355905a94bd5de31bcd6e1e1"
"""That of the autoscaler."""
