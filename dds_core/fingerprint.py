"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "73afdcf723e30736f9d41be3ee442a1531ee02ad6ee979619a5b9f148ef0c6de"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "875c5231228579334f6f80b0df9e769f783364028889c5785f5ab358cef739ff"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "b2dad5dde4667c2ce0228df2b0e174e5d54fb63101a34e36cfa0b085db0fc767"
"""That of the autoscaler."""
