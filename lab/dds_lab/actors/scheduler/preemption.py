"""PostFilter, for a pod that no node takes: free one of its claims, or remove pods of lower priority from a node.

Source: pkg/scheduler/framework/preemption and plugins/defaultpreemption. Disruption budgets are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from random import Random

from dds_lab.actors.scheduler.binding import Binding, Bindings, Steps, cleared, delete_special
from dds_lab.actors.scheduler.claim_cache import can_be_cleared, is_special, name_of
from dds_lab.actors.scheduler.dynamic_resources import PodDevices
from dds_lab.actors.scheduler.feasibility import NO_VICTIMS, Diagnosis, Refusal
from dds_lab.actors.scheduler.finding import Nominations
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Object, Pod
from dds_lab.actors.scheduler.scheduler_settings import Tie
from dds_lab.client import ApiError

MOST_CANDIDATES = 100

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."


@dataclass(slots=True)
class Outcome:
    """The victims and their node; without a node, why there is none. `clears`: the pod loses its nomination."""

    node: str = ""
    victims: list[Pod] = field(default_factory=list)
    message: str = ""
    clears: bool = True


def preempt(pod: Pod, diagnosis: Diagnosis, nodes: NodeCache, check: Callable[[Node], Refusal | None]) -> Outcome:
    """Find the node with the least harmful victims. `check`: all filters of a node, devices included."""
    if not pod.preempts:
        return Outcome(message=NEVER, clears=False)
    if _is_leaving(pod, nodes):
        return Outcome(message=TERMINATING, clears=False)
    tried: dict[str, tuple[str, ...]] = {}
    found: list[tuple[str, list[Pod]]] = []
    for name in diagnosis.curable:
        node = nodes.get(name)
        if node is None:
            continue
        victims = _victims(pod, node, check)
        if isinstance(victims, tuple):
            tried[name] = victims
        else:
            found.append((name, victims))
            if len(found) == MOST_CANDIDATES:
                break
    if not found:
        return Outcome(message=diagnosis.preemption(tried))
    name, victims = min(found, key=lambda one: _harm(one[1]))
    return Outcome(name, victims)


def _is_leaving(pod: Pod, nodes: NodeCache) -> bool:
    """Whether a pod of lower priority is already terminating on the nominated node."""
    node = nodes.get(pod.nominated) if pod.nominated else None
    return node is not None and any(one.deleting and one.priority < pod.priority for one in node.pods.values())


def _victims(pod: Pod, node: Node, check: Callable[[Node], Refusal | None]) -> list[Pod] | tuple[str, ...]:
    """The pods to remove so that the pod fits, or why removing all pods of lower priority is not enough."""
    lower = sorted((one for one in node.pods.values() if one.priority < pod.priority), key=_importance)
    if not lower:
        return (NO_VICTIMS,)
    for one in lower:
        node.remove(one.uid)
    victims: list[Pod] = []
    try:
        against = check(node)
        if against is not None:
            return against.reasons
        for one in lower:
            node.add(one)
            if check(node) is not None:
                node.remove(one.uid)
                victims.append(one)
    finally:
        for one in lower:
            if one.uid not in node.pods:
                node.add(one)
    return victims


def _importance(pod: Pod) -> tuple[int, str]:
    """Sort key, the most important pod first: by priority, then by start."""
    return -pod.priority, _start(pod)


def _harm(victims: list[Pod]) -> tuple[int, int, int, int]:
    """The harm of removing the victims: their highest priority, the sum of priorities, their number, and the earliest start
    among those of the highest priority (the later, the better)."""
    if not victims:
        return (-(2**31), 0, 0, 0)
    highest = max(one.priority for one in victims)
    first = min(_start(one) for one in victims if one.priority == highest)
    newest = -int("".join(char for char in first if char.isdigit()) or "0")
    return highest, sum(one.priority + 2**31 for one in victims), len(victims), newest


def _start(pod: Pod) -> str:
    status = pod.obj.get("status") or {}
    return str(status.get("startTime") or pod.obj["metadata"].get("creationTimestamp") or "")


NOTHING_TO_CLEAR = "no new claims to deallocate"
STILL = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"


class Refused:
    """The PostFilter of DynamicResources for one attempt."""

    def __init__(self, scheduler: Bindings, pod: Pod, devices: PodDevices, random: Random, tie: Tie | None) -> None:
        self._scheduler = scheduler
        self._pod = pod
        self._devices = devices
        self._random = random
        self._tie = tie

    def clear_claim(self) -> Generator[float, None, str]:
        """Clear a random claim of those that some node could not use, healthy ones included, and that no other pod holds.
        Returns the message."""
        devices = self._devices
        if not devices.claims:
            return NOTHING_TO_CLEAR
        claim = self._any([devices.claims[place] for place in sorted(devices.unavailable)])
        if claim is None:
            return STILL
        if is_special(claim, self._pod):
            yield from delete_special(self._scheduler, claim)
            return DELETED
        yield self._scheduler.pause()
        try:
            written = self._scheduler.client.update("resourceclaims", cleared(claim), "status")
        except ApiError as error:
            return str(error)
        self._scheduler.claims.wrote(name_of(claim), written)
        return DEALLOCATED

    def _any(self, claims: list[Object]) -> Object | None:
        """One of the claims that no other pod holds."""
        own = {claim["metadata"]["name"]: claim for claim in claims if can_be_cleared(claim, self._pod)}
        if len(own) > 1 and self._tie is not None:
            chosen = self._tie(self._pod.key, list(own))
            if chosen in own:
                return own[chosen]
        return self._random.choice(list(own.values())) if own else None


def make_room(
    scheduler: Bindings, pod: Pod, outcome: Outcome, bindings: Mapping[str, Binding], nominations: Nominations
) -> Steps:
    """Remove the victims from the node: those that wait for devices return to the queue, others are deleted. Pods of lower
    priority lose their nomination to the node."""
    for victim in outcome.victims:
        text = f"Preempted by pod {pod.uid} on node {outcome.node}"
        binding = bindings.get(victim.uid)
        if binding is not None and binding.preempt():
            scheduler.writes.event(victim, "Preempted", text, "Preempting")
            continue
        newest = scheduler.pod(victim.uid)
        if newest is None or newest.deleting:
            continue
        yield scheduler.pause()
        message = f"{pod.scheduler}: preempting to accommodate a higher priority pod"
        scheduler.writes.disrupt(newest, message)
        yield scheduler.pause()
        scheduler.writes.delete(newest)
        scheduler.writes.event(newest, "Preempted", text, "Preempting")
    for other in list(nominations.by_node.get(outcome.node, {}).values()):
        if other.priority < pod.priority:
            yield scheduler.pause()
            scheduler.writes.nominate(other, "")
