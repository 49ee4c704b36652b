"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "b9a173b3424da55bf3692ef34e2401756011bfd58759cec091c4267792f71f02"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "13a2f45cc7b8d84adf6a0b62b743377b967016053177085620ef0d31b2a61e2f"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "c87c0a632c5b0778c5fe9afb9939f9624e659ea4a0992899432c6bd763274df8"
"""That of the autoscaler."""
