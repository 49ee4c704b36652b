"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "2c3e06bb14dd864c65d58d7e9334cf845f5768144b69a6ac7a735bd2973f9e26"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "9e75134c29a530095246c297ce75f8518db38e1c2cf270f7ecb4859b5b090b95"
"""That of the publisher."""
