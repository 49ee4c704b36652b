"""What can go wrong between a client and the manager: which calls it befalls, and how often.

A fault is told in advance (by a scenario or a test) and taken when a call comes. It never touches the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dds_lab.faults.told import Told

Kind = Literal["away", "busy", "cut", "empty", "error", "expired", "huge", "odd", "other_fabric", "slow"]
Odd = Literal["types", "missing", "html", "truncated", "null", "list"]


@dataclass(frozen=True)
class Fault:
    """What befalls calls; no `calls` means all of them, no `nodes` those by way of any machine or none, no `models` those about
    any or none.

    `away`: the manager cannot be reached. `busy`: 503 with Retry-After of `seconds`. `cut`: the call is carried out and the
    connection ends without an answer. `empty`: an answer without a body. `error`: refused with `code`. `expired`: every
    token expires just before the call. `huge`: the answer lists, or counts, 10,000 devices. `odd`: the answer is not of its
    form, as `odd` says; with `field` it is that field that is missing or of another type. `other_fabric`: the answer is that
    of another fabric. `slow`: it takes `seconds` longer.

    `times` 0 means until lifted; `chance` is how likely each call is to be hit.
    """

    kind: Kind
    calls: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    times: int = 0
    chance: float = 1.0
    seconds: float = 1.0
    code: int = 500
    odd: Odd = "types"
    field: str = ""


class Faults(Told[Fault]):
    """The faults that wait for a call."""

    def take(self, call: str, node: str = "", model: str = "") -> tuple[Fault, ...]:
        """All faults that befall a call by way of a node's machine about a model ("" for none)."""
        return self.struck(lambda fault: _befalls(fault, call, node, model))


def _befalls(fault: Fault, call: str, node: str, model: str) -> bool:
    return (
        (not fault.calls or call in fault.calls)
        and (not fault.nodes or node in fault.nodes)
        and (not fault.models or model in fault.models)
    )
