"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "718de91869c357cbb183a738d1f41173dc7998689494a5703df74f72dddba919"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1c91551e4684dc988947f0cc88bc85f5ba14708f15bfe7b4d8e3221ce3a06217"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "02401dbd0d5fddfbd2fb7558b456a0d4c93944a54ca59d30225c88c1e24ff4dd"
"""That of the autoscaler."""
