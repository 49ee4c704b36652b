"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "7598372ce82cf57a520e048dacc2dc5edf548e2a33cea7ea8927053a525e3b90"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "eb1f0b1948e07cfcc6f40530be999ca4126a83d196cd0f8b9476a37dc650e4bb"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "da4a02a7dd420822af74ac2d5659282ca7ab85187ed45ebc990c7c94d8a4f4e8"
"""That of the autoscaler."""
