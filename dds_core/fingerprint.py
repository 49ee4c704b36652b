"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8a27bed927eb8fe48db31e7d26eecacd096d21ab3010495eb5548feb765fd80e"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "2d63d750fbec57f9c55614fc189f12e2b7ff71a57f5592c174763b99f9f64969"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "dc85ee0e7ed5f2e6c779ad54e30cafe798db8453a1dec30301890bf6d4c2daef"
"""That of the autoscaler."""
