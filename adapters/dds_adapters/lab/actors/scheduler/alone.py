"""The filters that depend on one node, the pods on it and what a pod is like, kept up to date instead of asked again.

Pods that are alike in this share an answer for the whole fleet: which nodes pass, in the order of the node tree, and why the
others do not. Only nodes that changed since are looked at again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from dds_adapters.lab.actors.scheduler.feasibility import Refusal, fits, static
from dds_adapters.lab.actors.scheduler.nodes import Node, Nodes
from dds_adapters.lab.actors.scheduler.pods import Pod

KEPT = 128


@dataclass(slots=True, eq=False)
class Answer:
    """For pods of one kind: the places in the order of nodes that pass, and the refusals of the others."""

    passing: list[int] = field(default_factory=list)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    arrangement: int = -1
    changes: int = 0

    def after(self, place: int) -> list[int]:
        """The places that pass, in turn from this one on."""
        at = bisect_left(self.passing, place)
        return self.passing[at:] + self.passing[:at]


class Alone:
    """The answers for all kinds of pods."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[tuple[object, ...], Answer] = {}

    def of(self, pod: Pod, by_claim: tuple[str, ...]) -> Answer:
        """The answer for this pod, as of now; nominated pods are not counted."""
        key = (pod.shape, tuple(pod.requests.items()), tuple(pod.ports), by_claim)
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            answer = self._known[key] = Answer()
        order = self._nodes.order()
        changed = self._nodes.changed_since(answer.changes)
        if answer.arrangement != self._nodes.arrangement or changed is None:
            answer.passing.clear()
            answer.refusals.clear()
            answer.arrangement = self._nodes.arrangement
            changed = order
        for node in changed:
            self._look(answer, pod, by_claim, node)
        answer.changes = self._nodes.changes
        return answer

    @staticmethod
    def _look(answer: Answer, pod: Pod, by_claim: tuple[str, ...], node: Node) -> None:
        if node.obj is None:
            return
        against = static(pod, node) or fits(pod, node, (), by_claim)
        at = bisect_left(answer.passing, node.place)
        listed = at < len(answer.passing) and answer.passing[at] == node.place
        if against is None:
            answer.refusals.pop(node.name, None)
            if not listed:
                insort(answer.passing, node.place)
        else:
            answer.refusals[node.name] = against
            if listed:
                del answer.passing[at]
