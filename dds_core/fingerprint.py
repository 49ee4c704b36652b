"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". A test computes it anew from the sources of the rules and says what to put here."""

from __future__ import annotations

FINGERPRINT = "42939c6a7c5c6adbf86e21bca4b9562abdfc163f7400916c00f026b88aff63d3"

RULES = (
    "agenda.py",
    "fold/__init__.py",
    "fold/common.py",
    "fold/intents.py",
    "fold/lives.py",
    "fold/objects.py",
    "fold/ourselves.py",
    "fold/restart.py",
    "indexes.py",
    "lifecycle.py",
    "matching.py",
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
"""The sources that the fingerprint covers, below `dds_core/`."""
