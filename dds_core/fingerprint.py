"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f6dd76222b22f57589a72b653a671d4896c80d62dc89dfd3da139bb2915abd1f"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "e437403e2a441a325e8fa9aabb286623ce493471ab6e4d6ef79db9c32859ba25"
"""That of the publisher."""
