"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5f4cb1e11ca660fdd2f898fb438a19bfb09d766c7dddc66ef16d052dc2248103"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "f62a0968e8d41092eca4ca5319b4099379381781a026bd949a5e2a1d59ef7109"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "000ecfff9516aadc449fec900b89c8e83287887aa7bf5545cf6d8fda4cebb858"
"""That of the autoscaler."""
