"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ba2e7373ca6aa3177efabd1f3ce2331de7f9014f9d90f547d90c7d287a8d98bb"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "5651548714eb57a2e6a977ba0d063f519d9e59435d900076066a13e23a34205f"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "28c583505c2208ee7e240105a1d45f5aa7f4b53ea4af23a31e69b6ae5ece7ef5"
"""That of the autoscaler."""
