"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "542783a03ac8dd17609212e80cd923bd2681cd82d347209e87e83e01b902bfbb"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "77c77e363a313fbb840e2ae28c604506c802da3d6f7e6335e7717548876ce929"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "3436733d9186f8415a79b47d87df80152debd49fc08a0c9cb06ec62265517dbc"
"""That of the autoscaler."""
