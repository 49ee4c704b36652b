"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "aaa9ad3a210fa3d4d3e3a5b4bdc8f77d4e746d40831f01aeb0f488b1ac2f24d9"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "3133deb3e8fde7f8df4dc09f80f647f75ff8b53994b5fa763da0675a1a5284c1"
"""That of the publisher."""
