"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1309ca2fa3efa606116657e40edbdbfa81f70b3c13d96b1c1337ef0946690c0c"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c04d5081ffd12d3d8d9e454ed336b861433b81461c987ea1406587d00ab1241b"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "dfbfc37a5062f8e41b4362534f685a74191e2247b598c5a1c4e66c55907a4a20"
"""That of the autoscaler."""
