"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "7bc54d8bef7f5ec0d729967cb8ae30d5bc1eaea352a90577593ecfae78c9ef38"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "0b5da113e83278b0f10c2333544e73237c2f8ca03b06b76cbd0aa9f4abf2b803"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "cd23de094f20c5b0930516996ef11b713a830987676733144005d538fc33f138"
"""That of the autoscaler."""
