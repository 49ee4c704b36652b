"""Claims that wait for a device and have no allocation (*Unallocated*), and what they wait for, computed from the state.

No event says that a claim waits so: the scheduler has chosen nothing. Such a claim has no allocation, a pod without a node refers
to it, and a class that it names accepts devices of a model of dds. Why it waits says `dds_core.scaler.lacking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dds_core.lifecycle import CLAIM_DETACHING, FAILED, RELEASED
from dds_core.model import Claim, Pod
from dds_core.scaler.lacking import Survey
from dds_core.scaler.model import is_tainted
from dds_core.scaler.state import State

UNALLOCATED: Final = "Unallocated"
"""The state of such a claim for readers. It is none of a life's: no transition leads to it or from it."""

GATED = "SchedulingGated"
"""Reason of PodScheduled=False of a pod that the scheduler shall not place yet: it waits for no device."""
NAMED = 3
"""So many holders, nodes and claims are named."""


class Unallocated(NamedTuple):
    """A claim that waits. `since`: when it was made or last given back (microseconds since 1970). `models`: what may serve it.
    `asked`: how many devices. `reason`: one of `lacking.REASONS`, `why` in words."""

    claim: str
    uid: str
    pod: str
    since: int
    models: tuple[str, ...]
    asked: int
    reason: str
    why: str


class Queue(NamedTuple):
    """The claims that wait for the same models. `free`: devices of these models in pools that no claim has. `held_by`: the claims
    that have one, `idle_on`: the nodes with an attached one that no claim has, each with their number. `whys`: (why, claims), the
    most frequent first. `longest`: the claims that wait longest."""

    models: tuple[str, ...]
    claims: int
    asked: int
    free: int
    since: int
    held_by: tuple[tuple[str, int], ...]
    idle_on: tuple[tuple[str, int], ...]
    whys: tuple[tuple[str, int], ...]
    longest: tuple[str, ...]


def unallocated(state: State) -> list[Unallocated]:
    """All claims that wait without an allocation, longest wait first."""
    waiting = sorted(_waiting(state), key=lambda one: (one[0], one[1].namespace, one[1].name, one[1].uid))
    if not waiting or not state.settings.config.models:
        return []
    survey, rows = Survey(state), list[Unallocated]()
    for _, claim, _ in waiting:
        survey.want_of(claim)  # first of all: what selectors name decides which devices are alike
    for since, claim, pod in waiting:
        want = survey.want_of(claim)
        if want.models:
            found, name = survey.verdict(pod), f"{pod.namespace}/{pod.name}"
            rows.append(
                Unallocated(claim.path, claim.uid, name, since, want.models, want.asked, found.reason, found.why)
            )
    return rows


def queues(state: State, rows: Sequence[Unallocated]) -> list[Queue]:
    """The claims by the models that may serve them, most claims first."""
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
            )
        )
    return sorted(found, key=lambda one: (-one.claims, one.models))


# -- who waits -----------------------------------------------------------------------------------------------------------


def _waiting(state: State) -> Iterator[tuple[int, Claim, Pod]]:
    """(since, claim, pod) of each claim without an allocation that a pod waits with, whatever it asks for."""
    for claim in state.demand.claims.rows.values():
        if claim.allocation is not None or claim.deleting or claim.ours or not claim.known:
            continue
        life = state.lifecycle.lives.get(claim.uid)
        if life is not None and life.state not in (RELEASED, FAILED, CLAIM_DETACHING):
            continue  # between the two writes of an exchange, say: it waits, but not for a choice of the scheduler
        pod = next((one for one in state.demand.pods_of(claim) if one.pending and one.waiting != GATED), None)
        if pod is not None:
            yield max(claim.created, life.since if life is not None else 0), claim, pod


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
