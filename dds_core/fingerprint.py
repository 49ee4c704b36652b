"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "b297896c9987f92fc967b30ae2900789bff5a84e8d2f02413c9011e85d051fc1"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "11aa76caa0f41674760daec002e221c02fe9b854751fdf0f56237cc258650fce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "52af0403d11edb8eb89ab49f3482db84072f9c6cf4f997954f2d1b5633e1bb1a"
"""That of the autoscaler."""
