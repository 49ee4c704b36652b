"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "5a366b415771692ee6ce3a6efdf2d3e1bac8764983493b32311e55234cafedbc"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "00e067504c5874fd48ce25f0250dc575d8784c6750f0ca09a0a6782cea4264b4"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "b680c2d0972a5551104742036b5f311d970badb65180f116dfbdebb7def35101"
"""That of the autoscaler."""
