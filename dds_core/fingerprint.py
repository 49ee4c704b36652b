"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "86380957a97e7ef197bc56ce2613990b7a797dd9f1f21d302064d81f1d4bae7b"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "62318a99ac368b81d2b35726c1036ad2d4b54e2a14d430521946985c0c14dc36"
"""That of the publisher."""
