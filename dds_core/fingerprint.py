"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "bc3d27991e8b4c8612666c80e405e96ba911a923a67bdaaea418f32137d83374"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "b365be558218a49ef4404bc6876f1a3086a7af3ab7e2bb437c7a1252c2d04c72"
"""That of the publisher."""
