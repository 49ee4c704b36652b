"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "4857d76a6b150c6262b91c162184f43cf13527dc6c4c626b8c8269c9da1b6c3e"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "cf0495e66dc0e047f0b0b32a787c402741d20f2e110fe46046d86770f50dec06"
"""That of the publisher."""
