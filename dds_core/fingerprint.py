"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "582c379666c022a9273e631fe904f9319cae5a9de04788352c1b12c8b27b9c46"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "74409703d45190dd21a91ff42ed0ec706c8529c47cf29bbcf940a91bcae44fc1"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "0e6d31a7cc26486e3a8b0c5d57c4cfa23cb0fc71120a08a6184053bff05822d7"
"""That of the autoscaler."""
