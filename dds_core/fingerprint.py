"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d0d36d56a6165481e41e872e22ae7c771cc74d44ef7d4605c331b62a1aedad14"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "cf1bb460d3662ef6d06bb981c8eafc0b7aa7992b0208be0219d0638bf20d65df"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "36423bad31fc1c6f9a8fa46009bfb591cbebd3d87a385cf61eefb0c9729bf8c7"
"""That of the autoscaler."""
