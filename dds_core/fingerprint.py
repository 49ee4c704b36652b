"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "68a276fe9ff5af1ed4ab9e3a640c0f50d32a3a68698fdbb5020b2ad1a0fe80a2"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "dbc66791938550f28106303af3169b94a7aa73708b8448193b7ec6b757c477cc"
"""That of the publisher."""
