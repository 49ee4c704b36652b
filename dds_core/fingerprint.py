"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "3dbe08c903bfa196cbc0d46c55e8433034de76f6ef80c5d5b30c3157d646a1a9"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "217e2e15b088c00962d8f18613dac418069d6bc70ac2396526a40952deee511e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "4ad9a9af122a4b6a6a8cf373489e2cd7bb7a8cd53638d93b3e12d3cd08c1d6fe"
"""That of the autoscaler."""
