"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "53a61693e57b0e707734682b1ad4a8109ac964c3b4673c7ae4d1698a7db0b923"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b656eb2883737db047da173ba72fd94c6e1447b1bb55ce26b4af2127af9e04bf"
"""That of the publisher."""
