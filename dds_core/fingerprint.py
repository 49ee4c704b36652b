"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "bcc6be3b276eecc0bc9abd77b4c968020eede1a20505dae41219c24eed4bc6d6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "991fdb2fb855f0b37cf1dea1d982f82b6d7168f378ea17eb0ac26c1cafc392ce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "bc8e1c446e94e4fc162dd123e6bae83cf8b6389a491ce47781312605826bed4b"
"""That of the autoscaler."""
