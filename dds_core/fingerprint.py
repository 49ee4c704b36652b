"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". A test computes it anew from the sources of the rules and says what to put here."""

from __future__ import annotations

FINGERPRINT = "to-be-computed"

RULES = (
    "deadlines.py",
    "decide/__init__.py",
    "decide/claims.py",
    "decide/coverage.py",
    "decide/detach.py",
    "decide/devices.py",
    "decide/failures.py",
    "decide/handover.py",
    "decide/labels.py",
    "decide/nodes.py",
    "decide/orders.py",
    "decide/work.py",
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
    "table.py",
    "tables.py",
)
"""The sources that the fingerprint covers, below `dds_core/`."""
