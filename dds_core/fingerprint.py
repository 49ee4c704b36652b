"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "dbc4ee7c08fc978ef1de8100affb03501b7bf1718c9db6323274bf89200431a4"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "1149a5ae3d0e1db81b492ce85253e5d6b69d6fc5a23a2f44503b7805c2596445"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "82d2c53ce96be919f40c6e62907d00a09b48a8682b93210d35f1c9a9d9ea8622"
"""That of the autoscaler."""
