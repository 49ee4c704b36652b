"""Which pods have to be asked for. Only pods without a node are followed, few among very many; of a pod that has one the claims
tell when it matters: who reserves a claim is in use, who no longer does has finished or is gone, and without any claim it does
not matter at all.

Pure: it says whom to ask, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from dds_adapters.kubernetes.writer.pods import Outlet, ask_pod, tell_gone
from dds_adapters.kubernetes.writer.tasks import Task
from dds_core.engine import Step
from dds_core.events import ClaimGone, ClaimObserved, Event
from dds_core.model import Claim, Pod
from dds_core.picture import Picture


class PodQuestions:
    """Tasks that ask for a pod and pass the answer to the outlet, as if a watch had told it."""

    def __init__(self, outlet: Outlet | None) -> None:
        self._outlet = outlet
        self._naming: dict[str, list[str]] = {}
        """By a claim that is about to go the pods that name it: afterwards nobody knows its name."""

    def before(self, fact: Event, picture: Picture) -> None:
        """A fact is about to be folded."""
        if isinstance(fact, ClaimGone) and (claim := picture.claims.get(fact.uid)) is not None:
            self._naming[fact.uid] = [pod.uid for pod in _pods_naming(picture, claim)]

    def at_start(self, picture: Picture) -> list[Task]:
        """What nobody told while this process was not there: every pod that has a node, unless its claims still name it, and
        every pod that a claim names and that is not known."""
        self._naming.clear()
        absent = [pod for pod in picture.pods.rows.values() if pod.node and not _reserves(picture, pod)]
        asked = [self._ask(pod.namespace, pod.name, pod.uid) for pod in absent]
        for claim in picture.claims.rows.values():
            asked.extend(self._strangers(picture, claim))
        return [task for task in asked if task is not None]

    def after(self, step: Step, picture: Picture) -> list[Task]:
        """What a change of a claim's reservations leaves open. A pod with a node that has lost its last claim is told as gone."""
        fact = step.fact
        if isinstance(fact, ClaimGone):
            self._without_claims(fact, picture)
        if not isinstance(fact, ClaimObserved):
            return []
        consumers: object = fact.changes.consumers
        if consumers is UNSET:
            return []
        claim = picture.claims.get(fact.uid)
        if claim is None:
            return []
        gone = (pod for pod in _pods_naming(picture, claim) if pod.node and not _reserves(picture, pod))
        asked = [self._ask(pod.namespace, pod.name, pod.uid) for pod in gone]
        asked.extend(self._strangers(picture, claim))
        return [task for task in asked if task is not None]

    def _without_claims(self, fact: ClaimGone, picture: Picture) -> None:
        for uid in self._naming.pop(fact.uid, ()):
            pod = picture.pods.get(uid)
            if pod is not None and pod.node and not picture.claims_of(pod) and self._outlet is not None:
                tell_gone(pod.namespace, pod.name, pod.uid, self._outlet)

    def _strangers(self, picture: Picture, claim: Claim) -> Iterator[Task | None]:
        for consumer in claim.consumers:
            if consumer.resource == "pods" and consumer.uid not in picture.pods:
                yield self._ask(claim.namespace, consumer.name, consumer.uid)

    def _ask(self, namespace: str, name: str, uid: str) -> Task | None:
        if self._outlet is None:
            return None
        return Task(
            ask_pod(namespace, name, uid, self._outlet), (f"pods/{uid}",), replaces=f"ask/{uid}", needs="observe"
        )


def _pods_naming(picture: Picture, claim: Claim) -> Iterable[Pod]:
    uids = picture.pods_naming[(claim.namespace, claim.name)]
    return [pod for uid in sorted(uids) if (pod := picture.pods.get(uid)) is not None]


def _reserves(picture: Picture, pod: Pod) -> bool:
    return any(consumer.uid == pod.uid for claim in picture.claims_of(pod) for consumer in claim.consumers)
