"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "7458047a807ceb9b64da73e033914f8d33eff889e39c032f6c7d57ac3c428580"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "da0e55044939607bbc9fb09f538108de0b258181c214ce002117e6965ff11048"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "1c3c751b6a3bdb32b2fbceff737a1a58409cd999c911691156c958fe995230fb"
"""That of the autoscaler."""
