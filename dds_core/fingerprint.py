"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5dc2f808ee72e24fef5b88dd8e520d045598f1a2b2f08bf3f88a8557eb57c862"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "95d9495aef873181ef4649634934ec7256bb240d7278612ca6441872bcffe8ab"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "8b0907417a3917a283f502e7c639c0c6713d2febc2fb586c43af57b7b7a48879"
"""That of the autoscaler."""
