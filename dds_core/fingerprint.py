"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". A test computes it anew from the sources of the rules and says what to put here."""

from __future__ import annotations

FINGERPRINT = "f54ed2aa8cdcbf029ec5dba863ce2a46183b95befc4b75afbc3e62a822a323c6"

RULES = (
    "agenda.py",
    "deadline.py",
    "fold/__init__.py",
    "fold/common.py",
    "fold/intents.py",
    "fold/lives.py",
    "fold/objects.py",
    "fold/ourselves.py",
    "fold/restart.py",
    "indexes.py",
    "lifecycle.py",
    "matching/likely.py",
    "own_indexes.py",
    "picture.py",
    "policy.py",
    "pools.py",
    "quantity.py",
    "rows.py",
    "rules/__init__.py",
    "rules/claims.py",
    "rules/coverage.py",
    "rules/detach.py",
    "rules/devices.py",
    "rules/failures.py",
    "rules/handover.py",
    "rules/labels.py",
    "rules/moves.py",
    "rules/nodes.py",
    "rules/orders.py",
    "rules/work.py",
    "table.py",
    "tables.py",
)
"""The sources that the fingerprint of the scaler covers, below `dds_core/`."""

PUBLISHER_FINGERPRINT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The same for the publisher."""

PUBLISHER_RULES: tuple[str, ...] = ()
"""The sources that it covers."""
