"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "17d8f7bfae9b985e93ed53c35823d816be4c9354ed9025014f190b2ccd387299"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "875c5231228579334f6f80b0df9e769f783364028889c5785f5ab358cef739ff"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "b2dad5dde4667c2ce0228df2b0e174e5d54fb63101a34e36cfa0b085db0fc767"
"""That of the autoscaler."""
