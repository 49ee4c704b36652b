"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1a478f61ac59b1ba2cebd4c4cef95e643dcb3f98cd5fd0c938f150b3f6c17075"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "44ae185b8776aa9ccf1900607bd5650828beb47eafb545c7c24311db54dfef4e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "36e48dba98d51e525eeb11326916c25f5d56adf1dab858fd4764de09211d644e"
"""That of the autoscaler."""
