"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ce455d5d83fde27df0bc495a8b4582b31eeff210ebccce3efdee6267b76edcf4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b656eb2883737db047da173ba72fd94c6e1447b1bb55ce26b4af2127af9e04bf"
"""That of the publisher."""
