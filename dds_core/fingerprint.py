"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ef61da7ce97e3a3be792d2bec837da58107d4bd7ef72d47ff506cd2a3eb15fa6"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "6547a9f6c52f03393dac85a0b17fc54a3f8e0ba7e9fa9c7f4b45d43d875b8908"
"""That of the publisher."""
