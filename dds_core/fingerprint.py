"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "6b775d6e0d27689e424169be2ded5f565d9c737db60117d0a0fcf0d9511b781f"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "12c42754be678e9cc783a95ba3f1cbdb569927133cb2a00081672e26d80fdc91"
"""That of the autoscaler."""
