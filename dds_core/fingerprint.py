"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "16682f9ab201cbea6ecf4c72aad9b358c6c5feb03be5bb4ee331de8f5eef6e6e"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c6ef9a86ccbafe9e46aee22b92ab3d3c3f614771b2435398e0519ff07c6d0ea8"
"""That of the publisher."""
