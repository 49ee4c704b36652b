"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f2e1ac6746dfe4ed0219263a0d1e75d9cdf1780ccd2d5bd5020b11d1f8e133a3"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "e437403e2a441a325e8fa9aabb286623ce493471ab6e4d6ef79db9c32859ba25"
"""That of the publisher."""
