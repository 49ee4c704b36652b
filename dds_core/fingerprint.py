"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". A test computes it anew from the sources of the rules and says what to put here."""

from __future__ import annotations

FINGERPRINT = "faeebef0bc726b318d53bb98ef3ff6aa8d3f5c56fff208f4fd3f18a2b00f83c8"

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
    "matching/likely.py",
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
