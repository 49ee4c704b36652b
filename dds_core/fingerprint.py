"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "4bf91a75c5ca0790e0196ad4f7ee21d1e4fee6ebcd74d5e173ced33841409266"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "11aa76caa0f41674760daec002e221c02fe9b854751fdf0f56237cc258650fce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "15a15f2c509ad4f972a067b68c8f40dbd01a68a47c39bac0d6fd148499157dc8"
"""That of the autoscaler."""
