"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "aba9e9fc9392ff57b2eb57fb1a01c8af58de1783addff5e85bdea757ef4f8ffb"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c4df0bda69d0b577bf58be24c5c33c8bd1b7d2054cb9a5eea68c82687a208086"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "5b27533db7d9c7b24a8f2b09c7d515feab93fc996db9da5f663dfc1f64d69bd9"
"""That of the autoscaler."""
