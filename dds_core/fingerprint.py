"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "d99a61d73fd6153d4621c9bea20a786e13647056bc88c4a81613ec7d5b0c66a5"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "18b9767227e763126d3e59b545de3595d5492447851d4800ac01195841259f4f"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "0eebcf020c662cf83951c30450a848ea7c286dcbaf79ba95680d1865359eaf4b"
"""That of the autoscaler."""
