"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "9c5bbf41386c5dc5b55b41cfd102a787cd8b18df73af94f23a8e56b003df97ba"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "0da6d9d9c2b396f9c725c7a22f00c4a026dee26ad2d9c4752c631bea57a14fba"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "8d1b78123f981c7527b65c7ac16caa1e4459b1d9ea9e2bad54994527970b08c5"
"""That of the autoscaler."""
