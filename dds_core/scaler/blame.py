"""Whose time a waiting claim spends: the stages of a wait, each with one owner, and the function that gives the stage of a claim.

`status` asks it for the present state (`dds_core.scaler.waiting`), histories at each change of a log (`dds_core.scaler.history`):
both describe the claim as a `Wait`, and the devices that are on their way to it as `Coming`. Whether a second is the
operator's or the driver's, the last start of the driver's plugin tells: the plugin lists devices only when it starts, and a look
of the operator restarts it (`dds_core.scaler.operator`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from dds_core.lifecycle import ATTACHED, FAILED
from dds_core.model import Claim, Pod

POOL: Final = "pool"
SCHEDULER: Final = "scheduler"
OBSERVE: Final = "observe"
ORDER: Final = "order"
OPERATOR: Final = "operator"
FABRIC: Final = "fabric"
DRIVER: Final = "driver"
TAKEN: Final = "taken"
TURN: Final = "turn"
NODE: Final = "node"
GOING: Final = "going"
BARRED: Final = "barred"
EXCHANGE: Final = "exchange"
HAND_OVER: Final = "hand-over"
PAUSE: Final = "pause"
RETRY: Final = "retry"

_STAGES: Final = {
    POOL: (
        "pool",
        "no device is free for it, or the scheduler finds no node for the pod; while it waits, dds claims says for what",
    ),
    SCHEDULER: ("scheduler", "choosing, and binding the pod"),
    ORDER: ("dds", "until the device is ordered"),
    FABRIC: ("fabric", "attaching the device"),
    DRIVER: ("driver", "listing the device on its node"),
    EXCHANGE: ("dds", "giving the device to the claim"),
    HAND_OVER: ("scheduler", "choosing anew, since it was told that the device is there"),
    PAUSE: ("dds", "after an attempt that failed, until it tells the scheduler, which would choose the same again"),
    RETRY: ("scheduler", "after an attempt that failed, until it tries again"),
    OPERATOR: (
        "operator",
        "until it has made the resource and asked the fabric, and has looked at the device that came",
    ),
    OBSERVE: ("policy", "in mode observe dds only watches: another client has to order and to hand over"),
    TAKEN: ("claim", "another claim has taken the device that came for this one"),
    TURN: ("claim", "another claim of its pod has not got its devices yet"),
    GOING: ("claim", "it is being deleted: no scheduler places its pod any more"),
    BARRED: (
        "claim",
        "nobody can serve it: no such class, a pod that was put on a node past the scheduler, or no way to hand over",
    ),
    NODE: ("node", "its node was deleted: until the scheduler gives up the allocation"),
}
"""Owner and sentence of each stage."""

_CALLED: Final = {
    "scheduler": "the scheduler",
    "dds": "dds",
    "fabric": "the fabric",
    "driver": "the vendor's driver",
    "operator": "the operator",
}
"""The names of the owners that are components. Pool, policy, other claim and node are named in the sentences themselves."""

STAGES: Final = tuple(_STAGES)
OWNER: Final = {stage: owner for stage, (owner, _) in _STAGES.items()}
"""Who spends the time of each stage: one of pool, scheduler, dds, fabric, driver, operator, policy, claim, node."""
WHOSE: Final = {
    stage: f"{_CALLED[owner]}: {words}" if owner in _CALLED else words for stage, (owner, words) in _STAGES.items()
}
"""The sentence of each stage."""


def is_placed(pod: Pod, claim: Claim) -> bool:
    """Whether the pod was put on a node past the scheduler where it has no device of the claim, and waits there."""
    node = claim.allocation.node if claim.allocation is not None else ""
    return bool(pod.node) and not pod.over and pod.node != node


class Coming(NamedTuple):
    """A device on its way to a claim: instants in microseconds since 1970, 0 for not yet. `made`: the operator made its
    resource; `called`: it asked the fabric for it; `named`: it wrote the UUID, so the fabric had attached the device; `sought`:
    a look of the operator restarted the driver's plugin; `listed`: the driver listed it; `ready`: it may be used."""

    made: int = 0
    called: int = 0
    named: int = 0
    sought: int = 0
    listed: int = 0
    ready: int = 0


_PARTS: Final = (OPERATOR, OPERATOR, FABRIC, OPERATOR, DRIVER, OPERATOR)
"""The stage that ends with each instant of `Coming`."""


class Wait(NamedTuple):
    """A claim that waits, as far as its stage depends on it. `state`: of its life, "" for none. `allocated`: it has an
    allocation; `pooled`: with a pool device that the scheduler waits for. `unschedulable`: the scheduler finds no node for its
    pod. `failing`: dds has failed it; `told`: the scheduler knows. `observes`: dds only watches. `exchanging`: an exchange is
    under way. `signalled`: the scheduler was told that the device is there. `lost`: its node was deleted. `going`: the claim is
    being deleted. `barred`: what it names, or a pod of it, keeps everybody from serving it. `turn`: another claim of its pod
    lacks devices. `taken`: another claim has a device that came for it. `short`: its devices were there and are not any more.
    `ordered`: what it needs is ordered; `empty`: it cannot be, as the pool has no device that is not ordered or in use. `needs`:
    how many devices it needs, `coming`: those on their way."""

    state: str
    allocated: bool = False
    pooled: bool = True
    unschedulable: bool = False
    failing: bool = False
    told: bool = True
    observes: bool = False
    exchanging: bool = False
    signalled: bool = False
    lost: bool = False
    going: bool = False
    barred: bool = False
    turn: bool = False
    taken: bool = False
    short: bool = False
    ordered: bool = False
    empty: bool = False
    needs: int = 1
    coming: Sequence[Coming] = ()


BY_US: Final = (SCHEDULER, ORDER, EXCHANGE, HAND_OVER)
"""The stages in which dds or the scheduler is to serve the claim, as far as it can be served."""


def stage_of(wait: Wait) -> str:
    """One of `STAGES`."""
    if wait.exchanging:
        return EXCHANGE
    if wait.going:
        return GOING
    if not wait.allocated and wait.unschedulable:
        return POOL
    if wait.failing or wait.state == FAILED:
        return RETRY if wait.told or wait.observes or not wait.allocated else PAUSE
    if not wait.allocated or not wait.pooled:
        return BARRED if wait.barred and not wait.allocated else SCHEDULER
    if wait.lost:
        return NODE
    if wait.signalled:
        return TAKEN if wait.taken else BARRED if wait.barred else HAND_OVER
    if wait.state != ATTACHED or wait.taken or wait.short:
        if len(wait.coming) < wait.needs:
            unordered = POOL if wait.empty else OBSERVE if wait.observes else BARRED if wait.barred else ORDER
            return TAKEN if wait.taken else OPERATOR if wait.ordered else unordered
        stage = stage_of_coming(wait.coming)
        if stage:
            return stage
    return TURN if wait.turn else OBSERVE if wait.observes else BARRED if wait.barred else EXCHANGE


def stage_of_coming(coming: Iterable[Coming]) -> str:
    """The stage in which these devices are together, "" if all are ready. While one is being attached, it is the fabric's time,
    even if the operator has not taken up another one: it may wait for the fabric's answer."""
    stages = [(one.index(0), _PARTS[one.index(0)]) for one in coming if 0 in one]
    first = min(stages, default=(0, ""))[1]
    return FABRIC if first == OPERATOR and any(stage == FABRIC for _, stage in stages) else first


def at_instant(coming: Coming, at: int) -> Coming:
    """How far the device had come at an instant."""
    return Coming(*(instant if instant <= at else 0 for instant in coming))
