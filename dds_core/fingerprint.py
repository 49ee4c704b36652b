"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "68df8d14b85cd7ed967e4aec527a01f801c742d7bab179d5fe88254759833073"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "9278505c1e0be123d1b256507dff430ca2c10763f86388f9c3be2af50843917e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "2d58c18f3b4fd97b8297bd578d63a9762da7c8d4cf8fde6e2858b4c4584d1a97"
"""That of the autoscaler."""
