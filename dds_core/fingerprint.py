"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "eab092441097255c17af7beb00109eefab53315accb8e22ce81182b9993c7313"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "d95ebf40a11306ff9746075d613f71a35b79942218ddf52d00687df572e37a04"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "3cfb2fdb52938b0ec103dbcf4413d53e427c2d90d5ed61c2a62ebd0417035550"
"""That of the autoscaler."""
