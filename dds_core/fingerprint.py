"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "da42ca8e3f9012862820a51dd51619b749c640e76a2d3927af7c9919287caf95"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "45a49c5b929867139a0ed2c6950de6f11926de0f4ebe30dbc666a1c9d861f89e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "2a6e8fd54b3c2f15c0a9403060daabd01d18070d5b2dd801c148671ff81219f7"
"""That of the autoscaler."""
