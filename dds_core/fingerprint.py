"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "98ffe235724b5f5b8c23f67f63592c8fca7d70ef4cbed0153dfed98e412c338a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c6ef9a86ccbafe9e46aee22b92ab3d3c3f614771b2435398e0519ff07c6d0ea8"
"""That of the publisher."""
