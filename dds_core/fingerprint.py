"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8b092b6ea488aec15efbd5d448493a6a3672b6b6e5265f7b0dfddbf23480e976"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "217e2e15b088c00962d8f18613dac418069d6bc70ac2396526a40952deee511e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "1dc19d65898570f2ec8310ab53f6da03727e60d5cd9805c67f296a37939d046f"
"""That of the autoscaler."""
