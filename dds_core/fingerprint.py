"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5af40633bca9caf66582b249c85e83c152be7a2467013e092d78caee50b707d3"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "8dee878f1d96124cf42f8b8e5295336b66df2baad5d476bb8d083d57f35e90ee"
"""That of the publisher."""
