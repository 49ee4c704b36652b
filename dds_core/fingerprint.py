"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "2bc3d6f35f340f6314685d30c8294cec0dbeabdc5f3acc96b325064e3eaf7038"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "eca623874289186d85650633b5164a65e16fd5b951e13d154c0026da78de374d"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "e9452d2fe2646cbc8bfe4e18ec028a477136e6cb415125ecc13589067e01a2d5"
"""That of the autoscaler."""
