"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". `make fingerprint` writes this file; comments, docstrings and layout do not count."""

FINGERPRINT = "ffd3766b50299bacec24a28d9f877a5a0d14361016e332d429e4070132a4eadf"
"""That of the scaler."""

PUBLISHER_FINGERPRINT = "afa7826874b7ca1f232c1c900bbf3ea28935df301f9a4ecb1e60c56581ec89eb"
"""That of the publisher."""

AUTOSCALER_FINGERPRINT = "fa9a776a24cd3af39f93e6b5f81ffd1fd4fa457adff89e4af8df3df9433bfe41"
"""That of the autoscaler."""
