"""What a failed attempt says: the words of kube-scheduler's conditions and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dds_lab.actors.scheduler.feasibility import Refusal

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(eq=False)
class Diagnosis:
    """Why no node takes a pod: each node's refusal, or what was found before any node was looked at. Nothing is added to it once
    anything else is asked."""

    nodes: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    before: Refusal | None = None

    @cached_property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose hints may bring the pod back."""
        found = {one.plugin for one in self.refusals.values()}
        return frozenset(found | {self.before.plugin} if self.before is not None else found)

    @cached_property
    def curable(self) -> tuple[str, ...]:
        """The nodes where removing pods could help."""
        return tuple(name for name, one in self.refusals.items() if one.curable)

    def message(self, afterwards: str = "") -> str:
        """The message of the condition; `afterwards` is what the attempts to make room said."""
        return f"{self._reasons} {afterwards}" if afterwards else self._reasons

    @cached_property
    def _reasons(self) -> str:
        if self.before is not None:
            return f"0/{self.nodes} nodes are available: {', '.join(self.before.reasons)}."
        return counted(self.nodes, [reason for one in self.refusals.values() for reason in one.reasons])

    def preemption(self, tried: Mapping[str, tuple[str, ...]]) -> str:
        """What preemption says when it found no one to evict; `tried` has the outcome for nodes where it was worth a look."""
        if not tried:
            return self._hopeless
        others = [NOT_HELPFUL] * (self.nodes - len(tried))
        return counted(self.nodes, [*(reason for one in tried.values() for reason in one), *others])

    @cached_property
    def _hopeless(self) -> str:
        return counted(self.nodes, [NOT_HELPFUL] * self.nodes)


def counted(nodes: int, reasons: Iterable[str]) -> str:
    """How many nodes for which reason, in the order of the words."""
    parts = sorted(f"{number} {reason}" for reason, number in Counter(reasons).items())
    text = f"0/{nodes} nodes are available"
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."
