"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "c972acd2237e052a07184ec6759855a2c3bfe2f061068eb9155c777ec9b9cea7"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "e0c692d69f95eddcc1367d77f373c5087cdf9e6bde16dd2a2a4697694a78bf47"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "425927677219e1be4046ea52006b257b007f3a1a4f4d31a4d3c908804cd378e2"
"""That of the autoscaler."""
