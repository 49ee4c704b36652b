"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "9207f2d074da6ae6e2b953cff509d07af640c0e10f56b56351671d6541c80c78"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b656eb2883737db047da173ba72fd94c6e1447b1bb55ce26b4af2127af9e04bf"
"""That of the publisher."""
