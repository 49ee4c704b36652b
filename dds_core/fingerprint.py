"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "64531b55dd491d500773ad1a0e5394333473208a9002f766d51fc0c7159ae9d9"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "03aafca2b3bd01e4706abd2bdaf42bf80bd1c76cabc7c4a6f75e21cb998dcfc0"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "d83b0d427d81b659028d56a5e36083292746d316e62fae1c3fd9e4aeb56f5631"
"""That of the autoscaler."""
