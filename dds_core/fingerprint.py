"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "e80f457da2d3664bccfaa2a9d3735884237470d40418e8ba0e4c00272ca60965"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "742f518c1a34d40f842714f065b8700d35e968d60284df45f131bd7b1f70827c"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "a5ca6b76598d9efec54edd7a669f159dc87ffd8901cc41e24bcbc067126816c0"
"""That of the autoscaler."""
