"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5365c33b09b27b7d359939eb842104a94280dcb3a304697f0cefe56cb90872f6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "e437403e2a441a325e8fa9aabb286623ce493471ab6e4d6ef79db9c32859ba25"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "d27c42fd0be8a3559a6a53eabd88da34ad9d6ceb6fdcbf1910b893e979c95446"
"""That of the autoscaler."""
