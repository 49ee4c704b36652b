"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d13b1cb1c21ef87fbc5d270931a52567ff4b3406deefaa80540b1d27265272aa"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "62318a99ac368b81d2b35726c1036ad2d4b54e2a14d430521946985c0c14dc36"
"""That of the publisher."""
