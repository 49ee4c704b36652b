"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "105e74422378ff4980ab3d6619de18b921052e79a988829021295cb41b583ea4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "65e752735d4abb4bf00a459f902102bc3579c0299afe2561aeed74b5f22d66b7"
"""That of the publisher."""
