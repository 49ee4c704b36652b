"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f3288bc9110d9845744e9009dddaefcb59e543e91d217a67efa9ec44caa109f9"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "9b43722d29f4e7a7310933856f1c98c730deddc3388e338cb441078dc42cb731"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "ff91b7d8aaa255fff492840a879f590d3eed0885086ff6ab38721d3e180a1146"
"""That of the autoscaler."""
