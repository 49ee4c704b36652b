"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "89acd5dfa3fbd2592c1a4410b0c6a2a4f84c83574be020c27703e214527e5f36"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a61c2e0dd4f3356abedb74af87c1b00a3b52ac22367a6bc7b6fb27a004ef9390"
"""That of the publisher."""
