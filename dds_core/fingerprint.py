"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d94984b31d8437c62a8815edd85b592a5110da0e649bfe956f1bf9976b17cd6a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "95d9495aef873181ef4649634934ec7256bb240d7278612ca6441872bcffe8ab"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "8b0907417a3917a283f502e7c639c0c6713d2febc2fb586c43af57b7b7a48879"
"""That of the autoscaler."""
