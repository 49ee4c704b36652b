"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "15ba34e2d3187e0a6bb806482d89d74a89e34c6005c9bd328b7d9f03deab8170"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "935cacee6fdc3eff8b4fe3e582951180db2856da9eb8bcb5d2853f872416cd7e"
"""That of the autoscaler."""
