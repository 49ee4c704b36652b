"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5efc043206ca9ba1f63b377d1b9f750bccf4171e4100bd0fbfa7ddf9aa5ff3c1"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "398f97c33a5703cbf15420c5cd35b42f6ffa1dedc538be01a29ee1c45f434b86"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "f6402979f68c382e5e8d4a251db5b59ca1dec91506be7b66b8031dacbc437fcb"
"""That of the autoscaler."""
