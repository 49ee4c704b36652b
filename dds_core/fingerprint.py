"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d7122154785a4e95962c736f2e6e1def4880f8b9ae12c16d9ea40d944f24f809"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1046e2be04130569a9a9992d9d5e0d96bc17d1e74b686ad1edc014e7d37d08e9"
"""That of the publisher."""
