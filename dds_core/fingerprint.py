"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ded06010305ac43cb7cdf3947b59d457ef098de8e88370f90f73b98431b0fc3b"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "cd189d50c10ae7d423aa50f63d8786df2f7ae8063c0f7a7adf7d70da84c783c5"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "9082abc3794aebcb10e0cd4e5a00a32595ae851f3c5c8d2059caa4dfffb8748b"
"""That of the autoscaler."""
