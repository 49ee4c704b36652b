"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "36da4b60970bc82a9e7e6b91e3616475566aa8e91f25a044ea2ed96d41f22303"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "8be9142f1290abb6f7ac2b3a5b509da562f50b27697d8faa96338502ebe0e8b7"
"""That of the publisher."""
