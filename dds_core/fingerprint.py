"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "31eeef4a23478074768923b0a16193aac32c4a55938e5e8102be725af25a222b"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a0a88d755a1ec539bb62f552d9b2d451f9f9971bfb5a0df072cc1b4686ed9aa2"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "bbdfb012e54bba8c88beeb96f2a9365a9027dd242096ac4aa4db83a51e26c454"
"""That of the autoscaler."""
