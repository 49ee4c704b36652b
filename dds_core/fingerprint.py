"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "79a2ed9cb3b45b6cfc12d57cbe190d32cadf9ed2c04a1b94c8d59e9bc49966aa"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a61c2e0dd4f3356abedb74af87c1b00a3b52ac22367a6bc7b6fb27a004ef9390"
"""That of the publisher."""
