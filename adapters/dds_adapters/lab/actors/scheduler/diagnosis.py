"""What a failed attempt says: the words of kube-scheduler's conditions and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dds_adapters.lab.actors.scheduler.feasibility import Refusal

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(slots=True)
class Diagnosis:
    """Why no node takes a pod: each node's refusal, or what was found before any node was looked at."""

    nodes: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    before: Refusal | None = None

    def rejectors(self) -> frozenset[str]:
        """The plugins whose hints may bring the pod back."""
        found = {one.plugin for one in self.refusals.values()}
        return frozenset(found | {self.before.plugin} if self.before is not None else found)

    def message(self, afterwards: str = "") -> str:
        """The message of the condition; `afterwards` is what the attempts to make room said."""
        if self.before is not None:
            text = f"0/{self.nodes} nodes are available: {', '.join(self.before.reasons)}."
        else:
            text = counted(self.nodes, [reason for one in self.refusals.values() for reason in one.reasons])
        return f"{text} {afterwards}" if afterwards else text

    def preemption(self, tried: Mapping[str, tuple[str, ...]]) -> str:
        """What preemption says when it found no one to evict; `tried` has the outcome for nodes where it was worth a look."""
        if self.before is not None:
            return counted(self.nodes, [NOT_HELPFUL] * self.nodes)
        return counted(self.nodes, [reason for name in self.refusals for reason in tried.get(name, (NOT_HELPFUL,))])


def counted(nodes: int, reasons: Iterable[str]) -> str:
    """How many nodes for which reason, in the order of the words."""
    parts = sorted(f"{number} {reason}" for reason, number in Counter(reasons).items())
    text = f"0/{nodes} nodes are available"
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."
