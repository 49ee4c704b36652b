"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "f40073468aeed45de10e1b603efae64f76bd3cfc120c5ad77196f5a5fa20dfcd"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "529556454d8de3908febd973f27586388de9d6ce36e98fb99a92dafcfa79af4f"
"""That of the publisher."""
