"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "94cbaa5dfe461935a792c89dfae3214fdc58728233467c0941e49931fca60503"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c6604f6f1ef81598d13d7b4c19f12293d0e168f396ebf121b07827eb08b32eb1"
"""That of the publisher."""
