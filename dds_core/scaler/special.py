"""The claims that the scheduler will make for pods that ask for extended resources (KEP-5004).

It makes such a claim only when it has devices for it. While there are none, nothing but the pod says that somebody waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dds_core.model import Alternative, Claim, ClaimRequest, Pod
from dds_core.scaler.rooms import Rooms


class Asked(NamedTuple):
    """What a pod asks for by an extended resource: the device class that serves it, and how many devices."""

    resource: str
    device_class: str
    devices: int


def asked_by(state: Rooms, pod: Pod) -> tuple[Asked, ...]:
    """What the pod asks for by extended resources that a device class serves, by name. Nothing once it has a claim for them."""
    if not pod.extended_resources or not pod.pending or _has_claim(state, pod):
        return ()
    asked = ((name, state.inventory.class_for(name), count) for name, count in sorted(pod.extended_resources.items()))
    return tuple(Asked(*one) for one in asked if one[1])


def special_claim(pod: Pod, asked: tuple[Asked, ...]) -> Claim:
    """The claim that the scheduler would make for it, under the uid of the pod."""
    requests = (
        ClaimRequest(one.resource, alternatives=(Alternative(one.device_class, count=one.devices),)) for one in asked
    )
    return Claim(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        created=pod.created,
        extended=True,
        owner=pod.uid,
        requests=tuple(requests),
    )


def pods_asking(state: Rooms) -> Iterator[tuple[Pod, tuple[Asked, ...]]]:
    """The pods that wait for an extended resource without a claim for it, and what they ask for."""
    for uid in sorted(state.demand.asking):
        pod = state.demand.pods.rows[uid]
        asked = asked_by(state, pod)
        if asked:
            yield pod, asked


def _has_claim(state: Rooms, pod: Pod) -> bool:
    """Whether the claim was made, and allocated or named in the pod's status: the scheduler makes it in three writes. Between two
    attempts it makes it anew, while the devices are reserved for the pod."""
    claims = (state.demand.claims.rows[uid] for uid in state.demand.special_of[pod.uid])
    made = (one.allocation is not None or (one.name == pod.extended_claim and not one.deleting) for one in claims)
    return f"pod:{pod.uid}" in state.hand_over.reservations or any(made)
