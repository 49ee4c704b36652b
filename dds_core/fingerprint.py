"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "fe5c78e4aaa11f521751665f43ad197bb0f4ffb57930be46a2f4972c4ccfb6fc"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "cf1bb460d3662ef6d06bb981c8eafc0b7aa7992b0208be0219d0638bf20d65df"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "7c3b2b1a077cffad53e23c89daadf5b4a44ace087a1fd7ea1f30c23c2e23a6cd"
"""That of the autoscaler."""
