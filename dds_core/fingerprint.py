"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "e17beefde724936e0f22020af8287159fca58a525d2e81c557d880a8b5cf107d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c04d5081ffd12d3d8d9e454ed336b861433b81461c987ea1406587d00ab1241b"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "dfbfc37a5062f8e41b4362534f685a74191e2247b598c5a1c4e66c55907a4a20"
"""That of the autoscaler."""
