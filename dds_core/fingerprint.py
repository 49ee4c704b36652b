"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "c8cf9d6429469b98cfcfcdbd43a2a96962e49d60b9693f1db5714b72ab9f4f75"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a61c2e0dd4f3356abedb74af87c1b00a3b52ac22367a6bc7b6fb27a004ef9390"
"""That of the publisher."""
