"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "1ee355060bdf7c7ac3f1048e522139f55eb2baeb634b5096b262e862903d5979"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "c6604f6f1ef81598d13d7b4c19f12293d0e168f396ebf121b07827eb08b32eb1"
"""That of the publisher."""
