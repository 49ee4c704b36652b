"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "3616828d361a058cf0b0ef5f9c73059104e31e92a9a8271989b32a36761c3cfd"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b22bb653035b1b8a9bb00ea793b98199511d2ccc63b304ba26aafc2d59fe9573"
"""That of the publisher."""
