"""Finds a node for a pod: which nodes are tried, which of them score best, and which of equal ones is taken.

This follows schedule_one.go: first the nominated node alone; then nodes in turn from where the last search ended, until enough
fit; the highest score wins. Of equal nodes the real scheduler takes the first whose filters end. Filters run in parallel, so
that is one of the first few in the order (settings.finders), not any of them (recordings/burst: of ten equal nodes always one of
the first two, until each of these had six pods and scored less).

One thing is lazy: devices are checked in the order of the other scores, and only as far as needed, since only the score of
alternatives (firstAvailable) depends on them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from random import Random

from dds_lab.actors.scheduler.dynamic_resources import NOT_AVAILABLE, PodDevices
from dds_lab.actors.scheduler.feasibility import Affinity, Diagnosis, Refusal, fits, score, static
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Pod
from dds_lab.actors.scheduler.scheduler_settings import SchedulerSettings

KEPT = 128
LEAST_NODES = 100
LEAST_PERCENTAGE = 5
DEVICE_WEIGHT = 2
REFUSALS_KEPT = 1024

Filter = Callable[[Node], Refusal | None]  # the node's refusal, None if it takes the pod


@dataclass(slots=True, eq=False)
class Answer:
    """The result for pods of one kind: which nodes pass (indexes in the order of nodes), and the refusals of the others."""

    passing: list[int] = field(default_factory=list)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    arrangement: int = -1
    changes: int = 0

    def after(self, place: int) -> list[int]:
        """The indexes that pass, in turn from `place` on."""
        at = bisect_left(self.passing, place)
        return self.passing[at:] + self.passing[:at]


class Alone:
    """A cache of the filters that depend only on one node, its pods and the kind of the pod.

    Pods of one kind share an answer for the whole fleet. Only nodes that changed since are filtered again.
    """

    def __init__(self, nodes: NodeCache) -> None:
        self._nodes = nodes
        self._known: dict[tuple[object, ...], Answer] = {}

    def of(self, pod: Pod, by_claim: tuple[str, ...]) -> Answer:
        """The current answer for this pod. Nominated pods are not counted."""
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
        for node in dict.fromkeys(changed):
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


@dataclass(slots=True)
class Nominations:
    """Pods without a node that are nominated to one (status.nominatedNodeName)."""

    by_node: dict[str, dict[str, Pod]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)

    def put(self, pod: Pod, node: str) -> None:
        """Nominate the pod to `node`. An empty name removes the nomination."""
        self.drop(pod.uid)
        if node:
            self.where[pod.uid] = node
            self.by_node.setdefault(node, {})[pod.uid] = pod

    def drop(self, uid: str) -> None:
        node = self.where.pop(uid, None)
        if node is not None:
            del self.by_node[node][uid]
            if not self.by_node[node]:
                del self.by_node[node]

    def ahead_of(self, pod: Pod, node: str) -> list[Pod]:
        """Other pods that are nominated to the node and have at least the pod's priority."""
        others = self.by_node.get(node)
        if not others:
            return []
        return [one for one in others.values() if one.uid != pod.uid and one.priority >= pod.priority]


class Search:
    """Finds nodes, and remembers where the last search ended."""

    def __init__(self, nodes: NodeCache, nominations: Nominations, settings: SchedulerSettings, random: Random) -> None:
        self._nodes = nodes
        self._nominations = nominations
        self._settings = settings
        self._random = random
        self._alone = Alone(nodes)
        self._start = 0
        self._refused: dict[tuple[object, ...], tuple[int, int, Diagnosis]] = {}

    def find(self, pod: Pod, devices: PodDevices) -> Node | Diagnosis:
        """The node for the pod, or why there is none."""
        key = self._alike(pod, devices)
        gains = (self._nodes.gains, devices.inventory.gains)
        if key is not None and (known := self._refused.get(key)) is not None and known[:2] == gains:
            return known[2]
        found = self._find(pod, devices)
        if key is not None and isinstance(found, Diagnosis):
            if len(self._refused) >= REFUSALS_KEPT:
                self._refused.clear()
            self._refused[key] = (*gains, found)
        return found

    def _alike(self, pod: Pod, devices: PodDevices) -> tuple[object, ...] | None:
        """Equal for pods that every node refuses alike until a change may help; None if more than that matters."""
        if pod.nominated or pod.has_pod_affinity or self._nominations.by_node or self._nodes.with_required_affinity:
            return None
        kind = devices.kind
        return None if kind is None else (pod.shape, tuple(pod.requests.items()), tuple(pod.ports), kind)

    def _find(self, pod: Pod, devices: PodDevices) -> Node | Diagnosis:
        diagnosis = Diagnosis(len(self._nodes))
        plain = self.plain_check(pod, devices)
        nominated = self._nodes.get(pod.nominated) if pod.nominated else None
        if nominated is not None:
            against = plain(nominated) or (None if devices.idle else devices.check(nominated))
            if against is None:
                return nominated
            diagnosis.refusals[nominated.name] = against
        return self._search(pod, devices, diagnosis)

    def plain_check(self, pod: Pod, devices: PodDevices) -> Filter:
        """All filters of a node except devices."""
        more = self._among_pods(pod, devices)

        def check(node: Node) -> Refusal | None:
            return (
                static(pod, node) or fits(pod, node, (), devices.by_claim) or (more(node) if more is not None else None)
            )

        return check

    def _among_pods(self, pod: Pod, devices: PodDevices) -> Filter | None:
        """The filters that depend on nominated pods and on affinity between pods; None if there is nothing of the kind."""
        affinity = Affinity(pod, self._nodes) if pod.has_pod_affinity or self._nodes.with_required_affinity else None
        nominations = self._nominations
        if affinity is None and not nominations.by_node:
            return None

        def check(node: Node) -> Refusal | None:
            others = nominations.ahead_of(pod, node.name)
            found = fits(pod, node, others, devices.by_claim) if others else None
            return found if found is not None or affinity is None else affinity.check(node)

        return check

    def _search(self, pod: Pod, devices: PodDevices, diagnosis: Diagnosis) -> Node | Diagnosis:
        order = self._nodes.order()
        alone = self._alone.of(pod, devices.by_claim)
        more = self._among_pods(pod, devices)
        turn = [order[place] for place in alone.after(self._start)]
        best = None if devices.hopeless else self._in_turn(pod, devices, turn, more, diagnosis)
        if best is None:
            if devices.hopeless:  # no node can serve the pod, so none has to be scored
                self._without_hope(devices, turn, more, diagnosis)
            diagnosis.refusals = {**alone.refusals, **diagnosis.refusals}
        return best or diagnosis

    def _in_turn(
        self, pod: Pod, devices: PodDevices, turn: list[Node], more: Filter | None, diagnosis: Diagnosis
    ) -> Node | None:
        """The best of the first nodes that pass, as many as are enough. If none of them has the devices, try the next ones."""
        total = len(self._nodes)
        wanted = self._enough(total)
        looked = 0
        while looked < len(turn):
            passed: list[Node] = []
            while looked < len(turn) and len(passed) < wanted:
                node = turn[looked]
                looked += 1
                against = more(node) if more is not None else None
                if against is None:
                    passed.append(node)
                else:
                    diagnosis.refusals[node.name] = against
            best = self._best(pod, devices, passed, diagnosis)
            if best is not None:
                if len(passed) == wanted:
                    self._start = (turn[looked - 1].place + 1) % total
                return best
        return None

    @staticmethod
    def _without_hope(devices: PodDevices, turn: list[Node], more: Filter | None, diagnosis: Diagnosis) -> None:
        """Note every node's refusal of a pod with a claim that is usable nowhere."""
        said: Refusal | None = None
        for node in turn:
            against = more(node) if more is not None else None
            if against is None:
                if said is None or not devices.alike:
                    said = devices.check(node) or NOT_AVAILABLE
                against = said
            diagnosis.refusals[node.name] = against

    def _best(self, pod: Pod, devices: PodDevices, passed: list[Node], diagnosis: Diagnosis) -> Node | None:
        if not passed:
            return None
        if not devices.idle and devices.ranked:
            passed = [node for node in passed if self._serves(devices, node, diagnosis)]
            highest = max((devices.score(node) for node in passed), default=0) or 1
            extra = [DEVICE_WEIGHT * (100 * devices.score(node) // highest) for node in passed]
            return self._first_of(pod, passed, extra, lambda node: True)
        return self._first_of(
            pod, passed, [0] * len(passed), lambda node: devices.idle or self._serves(devices, node, diagnosis)
        )

    def _first_of(self, pod: Pod, passed: list[Node], extra: list[int], serves: Callable[[Node], bool]) -> Node | None:
        """The node with the highest score that has the devices; one of several equal ones."""
        if not passed:
            return None
        scores = [one + more for one, more in zip(score(pod, passed, self._settings.choice), extra, strict=True)]
        ranked = sorted(range(len(passed)), key=lambda place: -scores[place])
        for _, level in groupby(ranked, key=lambda place: scores[place]):
            equal = self._side_by_side((passed[place] for place in level), serves)
            if equal:
                return self._take(pod, equal)
        return None

    def _side_by_side(self, nodes: Iterable[Node], serves: Callable[[Node], bool]) -> list[Node]:
        """The nodes whose filters may end first."""
        any_of_them = self._settings.tie is not None or self._settings.choice == "random"
        breadth = 0 if any_of_them else self._settings.finders
        found: list[Node] = []
        for node in nodes:
            if serves(node):
                found.append(node)
                if len(found) == breadth:
                    break
        return found

    def _take(self, pod: Pod, equal: list[Node]) -> Node:
        if len(equal) == 1:
            return equal[0]
        if self._settings.tie is not None:
            name = self._settings.tie(pod.key, [node.name for node in equal])
            for node in equal:
                if node.name == name:
                    return node
            equal = equal[: self._settings.finders or len(equal)]
        if self._settings.lead is not None and len(equal) > 1:
            equal = equal[:1] if self._random.random() < self._settings.lead else equal[1:]
        return self._random.choice(equal)

    @staticmethod
    def _serves(devices: PodDevices, node: Node, diagnosis: Diagnosis) -> bool:
        against = devices.check(node)
        if against is not None:
            diagnosis.refusals[node.name] = against
        return against is None

    def _enough(self, total: int) -> int:
        """numFeasibleNodesToFind of kube-scheduler."""
        if total < LEAST_NODES:
            return total
        percentage = self._settings.percentage_of_nodes_to_score or max(LEAST_PERCENTAGE, 50 - total // 125)
        return max(LEAST_NODES, total * percentage // 100)
