"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "b6cd6a6359cbcdf9186f7399b9d9b2080e97d2c4053661ff037c740d39771965"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "8a4f886c78b3b54d154d73cf0f746ac3d6d5d4c215c776543c5507ac04baa3af"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "7b8ace76cb405b24034762ae93227bfe65507fac951c8978bc8d59861d9782c9"
"""That of the autoscaler."""
