"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "e4ee7bb29861b8ea07ae8f54e7ea1976fbaafd761c6d481d5df97a18d78b8e6f"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b8ed21f8d90ca45d9c83a356b6e8ac0e141384d6afd0b550df111f52aab84ed6"
"""That of the publisher."""
