"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1cb1020d9f3037c8331bca858ed594b15a2cddb74c3639d4b3ba99b95aa1ed2a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "0228a4bb5cfe88b73f2f4d4c81f1dc15b9924dba481e430b93f9cef93bdd9ccf"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "48a7ec90196bace5907266dce3d4370990104eae6df33b0beeafa2ea4b35516c"
"""That of the autoscaler."""
