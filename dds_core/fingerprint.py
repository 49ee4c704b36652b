"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "105e74422378ff4980ab3d6619de18b921052e79a988829021295cb41b583ea4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1421517a67ec3a8642efeffb1cb9ab2ce32b8bc0ab65842f4fcf193ba9c39203"
"""That of the publisher."""
