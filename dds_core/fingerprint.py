"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "9afa5d6af8ef4ed13f819159aebf43116a41d39115e75d421b633b8bd3d2d142"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "11aa76caa0f41674760daec002e221c02fe9b854751fdf0f56237cc258650fce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "100cb4fcd2191083301542367431a3794b1b6df76efcd234329a0a197cbb5673"
"""That of the autoscaler."""
