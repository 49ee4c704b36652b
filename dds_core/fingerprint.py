"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1cac4770b4c8312db9e25d29e4c9b295cc033edebee17de5d00365c4d2f01dbf"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "49ddd63504fb54bbf276fa8fa9e3a403caa03415b98e57613bd603d3cdd28f06"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "e271b5598ebf44c2a67718383a2784ed788db4197bdb59e102a9e434f156bdf0"
"""That of the autoscaler."""
