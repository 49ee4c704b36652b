"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "320da95ea2a2f9b56f57f6558bdee55d709637d39cdf6bd1f84a51bc255684c3"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c6604f6f1ef81598d13d7b4c19f12293d0e168f396ebf121b07827eb08b32eb1"
"""That of the publisher."""
