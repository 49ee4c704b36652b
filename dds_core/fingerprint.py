"""Which code decides. A log says under which fingerprint it was written, so that a replay can tell "other code" from
"other decision". A test computes it anew from the sources of the rules and says what to put here."""

from __future__ import annotations

FINGERPRINT = "f831de2ae6392492c9340d7670b8b5753e4523516d64c1608e584f00cfe5a23f"

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
    "remembered.py",
    "rows.py",
    "rules/__init__.py",
    "rules/claims.py",
    "rules/coverage.py",
    "rules/detach.py",
    "rules/devices.py",
    "rules/failures.py",
    "rules/handover.py",
    "rules/labels.py",
    "rules/marks.py",
    "rules/moves.py",
    "rules/nodes.py",
    "rules/orders.py",
    "rules/vain.py",
    "rules/work.py",
    "table.py",
    "tables.py",
)
"""The sources that the fingerprint of the scaler covers, below `dds_core/`."""

PUBLISHER_FINGERPRINT = "840455122a4d2d8de593e88010c17d09df9be54214dba7533bef38a4fe68fba7"
"""The same for the publisher."""

PUBLISHER_RULES = (
    "deadline.py",
    "matching/quantities.py",
    "policy.py",
    "publishing/agenda.py",
    "publishing/describe.py",
    "publishing/fold/__init__.py",
    "publishing/fold/common.py",
    "publishing/fold/decisions.py",
    "publishing/fold/fabric.py",
    "publishing/fold/objects.py",
    "publishing/fold/ourselves.py",
    "publishing/model.py",
    "publishing/picture.py",
    "publishing/policy.py",
    "publishing/rows.py",
    "publishing/rules/__init__.py",
    "publishing/rules/labels.py",
    "publishing/rules/layout.py",
    "publishing/rules/need.py",
    "publishing/rules/pools.py",
    "publishing/rules/work.py",
    "remembered.py",
    "rows.py",
    "table.py",
)
"""The sources that it covers."""
