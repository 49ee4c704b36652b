"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "163cb488ef111f33353cad913888feb7bb47567999db3a0e7dd841c0259086e0"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "499de2adef547b6cf545e0c0afd4fccd466bdbf8025228b84f223a6d58544929"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "0dbdcb006cb0bf5418449bc58d76db867db258720f989c077c8104b8008139e4"
"""That of the autoscaler."""
