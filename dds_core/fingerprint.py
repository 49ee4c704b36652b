"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ea969e6b77c9920ae1c7e7799b4001ad2ffed5ff4dc5dafe40562c4bfcbc5b63"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "40f03ae4b685fdcd4976a865f1c89b378d3af13f518bd9dc6b17d3f5c8e79451"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "7267b4ca41525a6c3a5ea905bb5649f253a0a1d31c91c9da46e0c7c94784e3ae"
"""That of the autoscaler."""
