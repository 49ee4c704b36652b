"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d0b809f15cfd7c22e94bf7fa317239fc897bed847d63a690badb77bff3df7fea"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "03f5eb59f0947fa39485a3fa83e9e36fefe11ce70bf5b25313e43190dda2495b"
"""That of the autoscaler."""
