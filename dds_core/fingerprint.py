"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "16c97204f0cdf273850d4d03d9aeb8dcdb7f612537fae5f50a5d1d95af7c95d3"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "da50e06374f78cf4971c6f33c5fa278282f346de34286de8d52fd45b9dafd5b4"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "973edb7cd94580d897339738844f52949f028a896766ee5085434c9ff5811cac"
"""That of the autoscaler."""
