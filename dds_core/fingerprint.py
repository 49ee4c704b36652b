"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f1a49403f182c62681008136add97bea7ce1ef21a389be6dc9748da23391c13f"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "56e333a617c9118b42620d3a5b3367563d5cb3fe8829a5c29be927b2f5d04c90"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "03f5eb59f0947fa39485a3fa83e9e36fefe11ce70bf5b25313e43190dda2495b"
"""That of the autoscaler."""
