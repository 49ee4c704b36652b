"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "28d9a8dd712920b7c68339cf30d57395f0dda06123aef22cbb10c5931fd0ee77"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "8a4f886c78b3b54d154d73cf0f746ac3d6d5d4c215c776543c5507ac04baa3af"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "cfdb902fb4af96d4a66234db69fc83c215d15aec3aab9f7fd18b7178078e8e61"
"""That of the autoscaler."""
