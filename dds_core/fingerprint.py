"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "27217c23786d9deb221f9f0db03015beb9f415dff3c25574a17b2468ee1c713a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "808ff82cfec7b26cd15e8d7d760485d5b0de433b9565470a308b7ed393b6d6bc"
"""That of the publisher."""
