"""Making room for a pod by removing less important ones from a node: which node, and which pods.

Source: pkg/scheduler/framework/preemption and plugins/defaultpreemption. Disruption budgets are not looked at. This module must
never write anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dds_adapters.lab.actors.scheduler.diagnosis import NO_VICTIMS, Diagnosis
from dds_adapters.lab.actors.scheduler.feasibility import Refusal
from dds_adapters.lab.actors.scheduler.nodes import Node, Nodes
from dds_adapters.lab.actors.scheduler.pods import Pod

MOST_CANDIDATES = 100

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."


@dataclass(slots=True)
class Outcome:
    """Whom to remove from which node; without a node, what preemption says of that. `clears`: the pod's nomination goes."""

    node: str = ""
    victims: list[Pod] = field(default_factory=list)
    message: str = ""
    clears: bool = True


def preempt(pod: Pod, diagnosis: Diagnosis, nodes: Nodes, check: Callable[[Node], Refusal | None]) -> Outcome:
    """Look for the node where the least has to go. `check` are all filters of a node, devices included."""
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


def _is_leaving(pod: Pod, nodes: Nodes) -> bool:
    """Whether somebody already makes room on the nominated node."""
    node = nodes.get(pod.nominated) if pod.nominated else None
    return node is not None and any(one.deleting and one.priority < pod.priority for one in node.pods.values())


def _victims(pod: Pod, node: Node, check: Callable[[Node], Refusal | None]) -> list[Pod] | tuple[str, ...]:
    """Whom to remove so that the pod fits, or why removing everyone less important is not enough."""
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
    """The more important first: priority, then who runs longer."""
    return -pod.priority, _start(pod)


def _harm(victims: list[Pod]) -> tuple[int, int, int, int]:
    """What removing them costs: the highest priority, the sum of them, their number, and how long the first of the highest has
    run (the later its start, the better)."""
    if not victims:
        return (-(2**31), 0, 0, 0)
    highest = max(one.priority for one in victims)
    first = min(_start(one) for one in victims if one.priority == highest)
    newest = -int("".join(char for char in first if char.isdigit()) or "0")
    return highest, sum(one.priority + 2**31 for one in victims), len(victims), newest


def _start(pod: Pod) -> str:
    status = pod.obj.get("status") or {}
    return str(status.get("startTime") or pod.obj["metadata"].get("creationTimestamp") or "")
