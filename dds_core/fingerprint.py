"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "e84d63c86c3ae5067b390a9dd2577d0d7e6a568a65ae9756c64cbb1dbbe1cf4b"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "03f5eb59f0947fa39485a3fa83e9e36fefe11ce70bf5b25313e43190dda2495b"
"""That of the autoscaler."""
