"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "a69e7da50356e7fcab47b870a7e0ff3b41f297a25431809f219accecf5225e8a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "262265b860f8ed6c3731602c545fe623208e265b1ec915a1166fc3f5d0d9446a"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "756bb11998e592c2b262322071ee778ee229a0f8a9584538cc81347511c73df5"
"""That of the autoscaler."""
