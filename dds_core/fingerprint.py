"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "76d9d7a8ce55bc6b3ab535148c5bc4b864805b02f8b2825f3a798c2c714b3594"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "5423969cfeb8cf52e047ba1d963940989be2dbe0bcf9e02488d76110b6879c83"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "30d2ac8fbb6901791c7c067c524f9a715cb88b386b0fb3cc8dfc2a2aa62240cd"
"""That of the autoscaler."""
