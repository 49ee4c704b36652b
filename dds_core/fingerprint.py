"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f2d74a64528cb96e22bf3f53b434934ee4d452190d4cee61bdba0612400f0b1e"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "964b2e61f1d858d89397b729ce9acd3473f2ef27382d227999154a3a674d5f26"
"""That of the publisher."""
