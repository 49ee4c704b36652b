"""The claims that the scheduler will make for pods that ask for extended resources (KEP-5004).

The scheduler makes such a claim only when it has devices for it. Until then only the pod shows that somebody waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dds_core.model import Alternative, Claim, ClaimRequest, Pod
from dds_core.scaler.rooms import Rooms


class Asked(NamedTuple):
    """What a pod asks for by an extended resource: the device class that serves it, and how many devices."""

    resource: str
    device_class: str
    devices: int


class Special(NamedTuple):
    """A pod that waits for extended resources, what it asks for, and the claim that the scheduler would make for it, which has
    the uid of the pod."""

    pod: Pod
    asked: tuple[Asked, ...]
    claim: Claim


def special_claims(state: Rooms) -> dict[str, Special]:
    """By pod, for each that waits for extended resources that a device class serves, and has no claim for them."""
    found = {}
    for uid in state.demand.asking:
        pod = state.demand.pods.rows[uid]
        if not pod.pending or _has_claim(state, pod):
            continue
        names = ((name, state.inventory.class_for(name), count) for name, count in pod.extended_resources.items())
        asked = tuple(Asked(*one) for one in names if one[1])
        if asked:
            found[uid] = Special(pod, asked, _claim(pod, asked))
    return found


def _claim(pod: Pod, asked: Iterable[Asked]) -> Claim:
    requests = (
        ClaimRequest(one.resource, alternatives=(Alternative(one.device_class, count=one.devices),)) for one in asked
    )
    return Claim(pod.uid, pod.namespace, pod.name, pod.created, extended=True, owner=pod.uid, requests=tuple(requests))


def _has_claim(state: Rooms, pod: Pod) -> bool:
    """Whether the claim was made, and allocated or named in the pod's status: the scheduler makes it in three writes. Between two
    attempts it makes it anew, while the devices are reserved for the pod."""
    claims = (state.demand.claims.rows[uid] for uid in state.demand.special_of[pod.uid])
    made = (one.allocation is not None or (one.name == pod.extended_claim and not one.deleting) for one in claims)
    return f"pod:{pod.uid}" in state.hand_over.reservations or any(made)
