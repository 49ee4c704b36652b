"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8469aeeffbaf9672722bc333de6cd23dd723a933d269ebe303f3c64c2d87517c"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "a0a88d755a1ec539bb62f552d9b2d451f9f9971bfb5a0df072cc1b4686ed9aa2"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "04148a3c8f0546d246e48f205dec30549d3fa973d5ba819775cf619e29c4aea0"
"""That of the autoscaler."""
