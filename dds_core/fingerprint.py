"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8d299f8583631ca61ae5358e488d52272ee0e54f11f8be4efd665d154213677c"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1046e2be04130569a9a9992d9d5e0d96bc17d1e74b686ad1edc014e7d37d08e9"
"""That of the publisher."""
