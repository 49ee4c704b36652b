"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ecce5ed20a4b74f38f5e8cc5e7ecf8ef5d1f384e2c26fc8ebe0bcd7a076f97b3"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "00e067504c5874fd48ce25f0250dc575d8784c6750f0ca09a0a6782cea4264b4"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "ebbc398c876a299f76c6968bf03ea5a539b75947c09b32bb117dcb251e4f1076"
"""That of the autoscaler."""
