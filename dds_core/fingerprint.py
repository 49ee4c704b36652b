"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "a8a1cea26cff7bbf671101c2b7bf7e3bd8b86b9763e907cfbee12b721bb06a01"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a471da83efaa63cc77257fbe7512a6ae7cabb3820e9dabd45924056807744e87"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "22cab6272319db8a6f8382d7304a096a31070959dcaaec4cb3ee965c875cb0a9"
"""That of the autoscaler."""
