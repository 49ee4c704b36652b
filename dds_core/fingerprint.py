"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "54d686c8064378e093ce72d608d50a31270cccdfba7454ce8d18c8bbb0d9bf9d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "963b1f4d9b77bae1e6530660deac5cf504d0e309077a49857022eca616342aaf"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "35be8df065fab8ba8eb3595083bb1a94ba10bec28c5bf3a774c5c4d9cd61863e"
"""That of the autoscaler."""
