"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "168afc1893cf5e3ad2c5a0c3230d0a78b73b6f88f0dbed3163f71b298882e83d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "742f518c1a34d40f842714f065b8700d35e968d60284df45f131bd7b1f70827c"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "a5ca6b76598d9efec54edd7a669f159dc87ffd8901cc41e24bcbc067126816c0"
"""That of the autoscaler."""
