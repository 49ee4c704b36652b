"""What a scheduler does for a pod that no node takes: free one of its claims, or remove others' pods."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from random import Random

from dds_adapters.lab.actors.scheduler.binding import Binding, Bindings, cleared, delete_special
from dds_adapters.lab.actors.scheduler.claims import can_be_cleared
from dds_adapters.lab.actors.scheduler.devices import PodDevices
from dds_adapters.lab.actors.scheduler.extended import is_special
from dds_adapters.lab.actors.scheduler.finding import Nominations
from dds_adapters.lab.actors.scheduler.pods import Object, Pod
from dds_adapters.lab.actors.scheduler.preemption import Outcome
from dds_adapters.lab.actors.scheduler.process import Steps
from dds_adapters.lab.actors.scheduler.settings import Tie
from dds_adapters.lab.client import ApiError

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
        """Clear one random claim of those that some node could not use, healthy ones included, if nobody else holds it.
        Gives what it says of that."""
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
        self._scheduler.claims.wrote(f"{claim['metadata']['namespace']}/{claim['metadata']['name']}", written)
        return DEALLOCATED

    def _any(self, claims: list[Object]) -> Object | None:
        """One of those that are the pod's alone."""
        own = {claim["metadata"]["name"]: claim for claim in claims if can_be_cleared(claim, self._pod)}
        if len(own) > 1 and self._tie is not None:
            chosen = self._tie(self._pod.key, list(own))
            if chosen in own:
                return own[chosen]
        return self._random.choice(list(own.values())) if own else None


def make_room(
    scheduler: Bindings, pod: Pod, outcome: Outcome, bindings: Mapping[str, Binding], nominations: Nominations
) -> Steps:
    """Remove the victims from the node: one that waits for devices is sent back, the others are deleted. Less important pods
    lose their nomination to the node."""
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
