"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "25c0ddeb9e7500d3e46caae4b5612817b7ec7ad1bc700f65f7128dbee1c55aec"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "08ec2dee3f7baea16a2be0fa55ec369ff08410118d8a976ea7158faabb4833ac"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "9368a03ebad264050e725b7f7ab0e0cc1cd225805bf67982732b9a3c7305543f"
"""That of the autoscaler."""
