"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1b1faf823e75680e8a8dfd6e7b8a5a69821b0752cf2e6d5671257035ff8ef4e0"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b656eb2883737db047da173ba72fd94c6e1447b1bb55ce26b4af2127af9e04bf"
"""That of the publisher."""
