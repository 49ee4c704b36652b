"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "da3e50aa1b6f0f51c47223502316677cbe9df7034fe8c518af0e7708d302d683"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "2edc796528ae7c96489c0c406d9c4e98b56bf4d9a81bcaf22bffc119c110bf8e"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "7ee34bb8b42aca3e5a49be3fa6f662f8aa69817a52928888fac4ed6d12afcdf8"
"""That of the autoscaler."""
