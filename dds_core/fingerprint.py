"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ef7dc6622b96c17b1f5e778a5f76284176226c8626934c71c71a4eb23336090d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b4c29cf8e3f52dd3f482f17bfde0528704da098baaedc03417d143f00495c92a"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "72453d7c338f50381afdfb32235529212b97d94c8fb45231e299629b031320b8"
"""That of the autoscaler."""
