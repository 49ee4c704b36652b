"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d402fb143e81d09610a3e7c2d6faf1e95818ce322fbd23c960b7982722a483c6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "cdf222522d22dc2dbb4aed4428046b76e0bb4fa1786ba35116935141396e3bac"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "0cc2f5f02ba054a2cc7b627cb9b4e60b48dcd2e9dd0889328f9fa23b70eb50af"
"""That of the autoscaler."""
