"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8a3883bbfb2cc049748f44c5707733d27e953ae245ed7b8af7118f4917bf268f"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "991fdb2fb855f0b37cf1dea1d982f82b6d7168f378ea17eb0ac26c1cafc392ce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "bc8e1c446e94e4fc162dd123e6bae83cf8b6389a491ce47781312605826bed4b"
"""That of the autoscaler."""
