"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "6305535260534fc714448fead6c7df3c9b0b928c8a43098ffb760bb641526ade"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b22bb653035b1b8a9bb00ea793b98199511d2ccc63b304ba26aafc2d59fe9573"
"""That of the publisher."""
