"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "881f7b12adeccf146e910fda9bb694228e1196b74bc28018b45f935a0da807b0"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b656eb2883737db047da173ba72fd94c6e1447b1bb55ce26b4af2127af9e04bf"
"""That of the publisher."""
