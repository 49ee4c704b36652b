"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "fe97bd30e80c26c75790b987b4cd267171afd2ad9822b47daa372def4952873c"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "30b6005d514b355c0e5adf6d92a3e45107f17af04adf0057f647787f8d168533"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "f1e1acd59505e5cc0eab6f8501a81a700974b9a51ff3d2689c0cf9458c5e64c1"
"""That of the autoscaler."""
