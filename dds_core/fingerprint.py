"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "2045a40e4f73a875255fe46bc509b0eac84af25d33fe8f3cb5ab6ba9af249ddf"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "9278505c1e0be123d1b256507dff430ca2c10763f86388f9c3be2af50843917e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "2d58c18f3b4fd97b8297bd578d63a9762da7c8d4cf8fde6e2858b4c4584d1a97"
"""That of the autoscaler."""
