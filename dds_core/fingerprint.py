"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "da670dc1a2800683e254c12566f3de4fbaeb42f61fa59b1c0624e039c872f1fa"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "2d63d750fbec57f9c55614fc189f12e2b7ff71a57f5592c174763b99f9f64969"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "dc85ee0e7ed5f2e6c779ad54e30cafe798db8453a1dec30301890bf6d4c2daef"
"""That of the autoscaler."""
