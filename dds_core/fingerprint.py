"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "23526f198a7665ddf0b98a4d2151fb70dca3709bfcd99c7f360db8d3fc31cdd8"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "763a0d673861b7833250bf0fc94e106a49c6d98b021e22b4edb8d121979ab634"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "1d68261f87c2103f2b4da21404f73dff05f072a34a31d6d08cb9a73579cdadfb"
"""That of the autoscaler."""
