"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "0beb00c99aa026bbcf3e8bd7a2908c1aef556acc8978ee853baa1b2cd29410db"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "8be9142f1290abb6f7ac2b3a5b509da562f50b27697d8faa96338502ebe0e8b7"
"""That of the publisher."""
