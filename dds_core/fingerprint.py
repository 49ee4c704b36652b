"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "2d6aa8b1b1888724d261546ee40e0cd137851096fd07b16c8253fa04e92d7469"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "2fcb1ad227ca2d4661d8d9dcc5e251443741060655fdd8079e0c16e253be7ade"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "60ed2579fba6a88f35e6d26ad10ced944b14762d32506a3493046427809cc8bd"
"""That of the autoscaler."""
