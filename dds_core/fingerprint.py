"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "79578785bf92bf32744d1804fdd650eedfa2f04709a72d44260b800c56877407"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "d42c8014d1a8b29eb0f4d83f3bf4813998180a330b36d6dcb6db4ea74c71b80b"
"""That of the publisher."""
