"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "82feeb32f99fb2e0836ff3b461bb6c70e6a80aabc923bdf97c0245f0be38ff15"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "4fddd40cb9cfe7e1391477045ca166de02299ab76c9d441a4c78468b0c2ed401"
"""That of the publisher."""
