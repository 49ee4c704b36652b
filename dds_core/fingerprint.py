"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "a55b8935ebaa1f0b8df36bc218bc88add1804de98e39b8035c8669b3c6793b60"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b4c29cf8e3f52dd3f482f17bfde0528704da098baaedc03417d143f00495c92a"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "d359a684d0f547a431308d8330cd9767005bbb248504145373c5532fdb0759ae"
"""That of the autoscaler."""
