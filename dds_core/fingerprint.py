"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "c1482960b81345b3311643e6976d9d0aaf626bfad8b5832cf8bf65359fa4f81a"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "11aa76caa0f41674760daec002e221c02fe9b854751fdf0f56237cc258650fce"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "e4ff81d3e6a381d805439f27ae9941ba056dd43cf1bf37335acd83c1115b13a4"
"""That of the autoscaler."""
