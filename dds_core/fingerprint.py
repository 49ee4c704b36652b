"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "8d95b7cb2fc3727ee0b057a006974b4d097355afbcc799cc4c7f64f0e9600a11"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b22bb653035b1b8a9bb00ea793b98199511d2ccc63b304ba26aafc2d59fe9573"
"""That of the publisher."""
