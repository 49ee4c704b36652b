"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "7cc41a28a71b35ecc5dab10bfd9562740e20f24647d36adbfc2f5d28283272c4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "62318a99ac368b81d2b35726c1036ad2d4b54e2a14d430521946985c0c14dc36"
"""That of the publisher."""
