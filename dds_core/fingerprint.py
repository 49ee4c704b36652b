"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f9e93e6c36109d00c8e4aee368e0e39ceb08156a22b078baeb2013ec46b5a3b4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "245dedace2b97f3d969ba605b949827e90a330b37bf2581f88a927c9247d09aa"
"""That of the publisher."""
