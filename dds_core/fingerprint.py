"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5365c33b09b27b7d359939eb842104a94280dcb3a304697f0cefe56cb90872f6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "875c5231228579334f6f80b0df9e769f783364028889c5785f5ab358cef739ff"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "0273e8546a0fec517c44f760cbe90d3b93642a3d3e6c8e472d9545ffe8eaf4e1"
"""That of the autoscaler."""
