"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "dd50d4a34f52d00ca2f1ab9efa40f28be94f32aa76fa6b097099ea673803ef7c"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "75bd12f86876773b28f8a71f6842d10bd73e3704bff312cbb1a777f5ea480004"
"""That of the publisher."""
