"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "9fdc8c8f2adacc23799d9ffa1c74ad008ab4f107f15041c075fce9218ada3667"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "b9958e74331d99fb272bd6c323b324cd8f3cf0cf690c869ee7043b61f8e95c65"
"""That of the autoscaler."""
