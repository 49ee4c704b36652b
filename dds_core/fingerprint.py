"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "4c9663e20ce9feaeda66888217a5b781918bf3d965942caa523a9cd4b927b95d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "669b49914982443fc6d10b445e54348945f3dbd42322f8e9505d5adea1b5ac61"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "bf29ead5b7cae07a39e56a7ea3aa95bcf1e0db0471fad9db01ce955782d76ed2"
"""That of the autoscaler."""
