"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "501b9e7a60d22b4a59ba074be9e6a8c7ec71badcce2cd269e756f4aefa457e3d"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "3133deb3e8fde7f8df4dc09f80f647f75ff8b53994b5fa763da0675a1a5284c1"
"""That of the publisher."""
