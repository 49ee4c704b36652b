"""Claims that wait for a device and have no allocation (*Unallocated*), and what they wait for, computed from the state.

No event says that a claim waits so: the scheduler has chosen nothing. Such a claim has no allocation, a pod refers to it that
has no node, or was put on one by somebody who allocates nothing, and a class that it names accepts devices of a model of dds, or
does not exist: whose it is to be, nobody knows. A pod that asks for an extended resource stands for the claim that the scheduler
will make (`dds_core.scaler.special`). Why it waits says `dds_core.scaler.lacking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dds_core.lifecycle import WAITING
from dds_core.model import GATED, Claim, Pod
from dds_core.scaler.blame import is_placed
from dds_core.scaler.lacking import PLACED, Survey, Verdict
from dds_core.scaler.model import ClaimLife, is_tainted
from dds_core.scaler.rules.failures import placed_words
from dds_core.scaler.special import Asked, special_claims
from dds_core.scaler.state import State
from dds_core.scaler.waiting import is_without_node, taker_of

UNALLOCATED: Final = "Unallocated"
"""The state of such a claim for readers. It is none of a life's: no transition leads to it or from it."""

NAMED = 3
"""So many holders, nodes and claims are named."""


class Unallocated(NamedTuple):
    """A claim that waits. `since`: when it was made, last tried or given back (microseconds since 1970). `models`: what may serve
    it, none if its class does not exist. `asked`: how many devices. `reason`: one of `lacking.REASONS`, `why` in words. Of a pod
    without a claim yet for the extended `resources` that it asks for, `claim` is `pod/NAMESPACE/NAME`, and `uid` and `since` are
    the pod's."""

    claim: str
    uid: str
    pod: str
    since: int
    models: tuple[str, ...]
    asked: int
    reason: str
    why: str
    resources: tuple[Asked, ...] = ()

    @property
    def models_asked(self) -> str:
        """What it waits for, in words."""
        return models_asked(self.models, [one[:2] for one in self.resources])


class Queue(NamedTuple):
    """The claims that wait for the same models. `free`: devices of these models in pools that no claim has. `held_by`: the claims
    that have one, `idle_on`: the nodes with an attached one that no claim has, each with their number. `whys`: (why, claims), the
    most frequent first. `longest`: the claims that wait longest. `resources`: (extended resource, device class), by which pods
    without a claim ask for them."""

    models: tuple[str, ...]
    claims: int
    asked: int
    free: int
    since: int
    held_by: tuple[tuple[str, int], ...]
    idle_on: tuple[tuple[str, int], ...]
    whys: tuple[tuple[str, int], ...]
    longest: tuple[str, ...]
    resources: tuple[tuple[str, str], ...]


def unallocated(state: State) -> list[Unallocated]:
    """All claims that wait without an allocation, longest wait first."""
    special = special_claims(state)
    asking = ((one.pod.created, one.claim, one.pod, one.asked) for one in special.values())
    waiting = sorted((*_waiting(state), *asking), key=lambda one: (one[0], one[1].namespace, one[1].name, one[1].uid))
    if not waiting or not state.settings.config.models:
        return []
    survey, rows = Survey(state, {uid: one.claim for uid, one in special.items()}), list[Unallocated]()
    for _, claim, _, _ in waiting:
        survey.want_of(claim)  # first of all: what selectors name decides which devices are alike
    for since, claim, pod, resources in waiting:
        want = survey.want_of(claim)
        if want.models or want.unknown or _tried(state, claim.uid) is not None:
            found, name = _misplaced(pod) or survey.verdict(pod), f"{pod.namespace}/{pod.name}"
            called = f"pod/{name}" if resources else claim.path
            why = f"{_taken(state, claim.uid)}{found.why}"
            row = called, claim.uid, name, since, want.models, want.asked, found.reason, why, resources
            rows.append(Unallocated(*row))
    return rows


def queues(state: State, rows: Sequence[Unallocated]) -> list[Queue]:
    """The claims by the models that may serve them, most claims first."""
    if not rows:
        return []
    by_models: dict[tuple[str, ...], list[Unallocated]] = {}
    for row in rows:
        by_models.setdefault(row.models, []).append(row)
    held, free = _held(state), _free_in_pools(state)
    found = []
    for models, some in by_models.items():
        holders: Counter[str] = sum((held.get(name, Counter()) for name in models), Counter[str]())
        idle = Counter(node for name in models for node in _idle(state, name))
        found.append(
            Queue(
                models,
                len(some),
                sum(row.asked for row in some),
                sum(free[name] for name in models),
                some[0].since,
                tuple(sorted(holders.items(), key=lambda one: (-one[1], one[0]))),
                tuple(sorted(idle.items(), key=lambda one: (-one[1], one[0]))),
                tuple(Counter(row.why for row in some).most_common()),
                tuple(row.claim for row in some[:NAMED]),
                tuple(sorted({(one.resource, one.device_class) for row in some for one in row.resources})),
            )
        )
    return sorted(found, key=lambda one: (-one.claims, one.models))


def models_asked(models: Iterable[str], resources: Iterable[tuple[str, str]]) -> str:
    """Models, with the extended resources and their device classes by which they are asked for, in words."""
    by = resources_asked(resources)
    return (" or ".join(models) or "a device") + (f" ({by})" if by else "")


def resources_asked(resources: Iterable[tuple[str, str]]) -> str:
    """Extended resources with their device classes, in words."""
    return ", ".join(f"{resource} of class {device_class}" for resource, device_class in resources)


# -- who waits -----------------------------------------------------------------------------------------------------------


def _waiting(state: State) -> Iterator[tuple[int, Claim, Pod, tuple[Asked, ...]]]:
    """(since, claim, pod, no extended resources) of each claim without an allocation that a pod waits with, whatever it asks
    for."""
    for claim in state.demand.claims.rows.values():
        if claim.allocation is not None or claim.deleting or claim.ours or not claim.known:
            continue
        life = state.lifecycle.lives.get(claim.uid)
        if life is not None and life.state in WAITING and not is_without_node(state, claim.uid):
            continue  # between the two writes of an exchange, say: it waits, but not for a choice of the scheduler
        pods = state.demand.pods_of(claim)
        pod = next((one for one in pods if one.pending and one.waiting != GATED), None)
        if pod is None and life is None:
            pod = next((one for one in pods if is_placed(one, claim)), None)
        if pod is not None:
            yield max(claim.created, _lost_at(life)), claim, pod, ()


def _misplaced(pod: Pod) -> Verdict | None:
    """The reason of a pod that was put on a node before its claim had an allocation; None for any other."""
    return Verdict(PLACED, placed_words(pod, "no scheduler allocates its claim")) if pod.node else None


def _tried(state: State, uid: str) -> ClaimLife | None:
    """The life of a claim that had a pool device of dds, whatever its class accepts by now; None for any other."""
    life = state.lifecycle.lives.get(uid)
    return life if life is not None and life.state in WAITING else None


def _lost_at(life: ClaimLife | None) -> int:
    """When it was last given back or failed, or when the attempt began that came to nothing."""
    if life is None:
        return 0
    return life.began if life.state in WAITING else life.since


def _taken(state: State, uid: str) -> str:
    """Who has a device that came for the claim, as the begin of a sentence; "" if nobody."""
    life = _tried(state, uid)
    taker = taker_of(state, life, uid) if life is not None else ""
    return f"{taker} has taken the device that came for it; " if taker else ""


def _held(state: State) -> dict[str, Counter[str]]:
    """For each model the claims that have devices of it, with their number."""
    found: dict[str, Counter[str]] = {}
    for claim in state.demand.claims.rows.values():
        for result in claim.allocation.results if claim.allocation is not None and not claim.ours else ():
            model = state.inventory.model_of_result(result) if not result.admin else None
            if model is not None:
                found.setdefault(model.model, Counter())[claim.path] += 1
    return found


def _idle(state: State, model: str) -> Iterator[str]:
    """The nodes of attached devices of the model that no claim has and that are reserved for none."""
    for uid in state.lifecycle.idle_of_model[model]:
        resource = state.fleet.resources.get(uid)
        if resource is None or not state.promised(resource.uuid):
            yield state.lifecycle.devices.rows[uid].node


def _free_in_pools(state: State) -> Counter[str]:
    """For each model the devices in its pools that no claim has and no taint closes."""
    found: Counter[str] = Counter()
    for name, keys in state.inventory.pools_of_model.items():
        for key in keys:
            pool = state.inventory.pools[key]
            opened = (device for device, one in pool.devices.items() if not (one.taints and is_tainted(one)))
            found[name] += sum((*key, device) not in state.demand.having for device in opened)
    return found
