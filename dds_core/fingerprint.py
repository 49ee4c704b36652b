"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "47d5002e3559e64b614a6cc085d38897e4cf39fa6cdc1d2b2e41ebc35ca338af"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "75646ab389a565101614c822b1c27b4f91e9f3f89f46665f2c1c4db7f7d64f89"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "af8154671beaadf02328e2fb088388eb92f476be355905a94bd5de31bcd6e1e1"
"""That of the autoscaler."""
