"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "7e04d2243b6f0c649d2462b6195e0d1db6c3c00e42e13e9fb985e09f5185714a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1421517a67ec3a8642efeffb1cb9ab2ce32b8bc0ab65842f4fcf193ba9c39203"
"""That of the publisher."""
