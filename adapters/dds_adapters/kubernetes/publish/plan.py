"""From a committed decision of the publisher to the writes that it means, with everything in them that was decided on.

Runs on the engine's thread; asks nobody and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.publish.pools import SLICES, PublishPool, WithdrawPool
from dds_adapters.kubernetes.write.events import EVENTS, Regarding, TellPeople, Type
from dds_adapters.kubernetes.write.plan import Plans, label, planned
from dds_adapters.kubernetes.write.tasks import Task
from dds_core.events import Alerted, Decision, Event, NodeLabelled, Rejected
from dds_core.publisher.events import PoolPublished, PoolWithdrawn
from dds_core.publisher.model import PoolKey
from dds_core.publisher.rules.pools import COOLING, cooling_until
from dds_core.publisher.state import PoolPicture


def plan(decision: Decision, event_id: str, at: int, picture: PoolPicture) -> tuple[Task, ...]:
    """The tasks of a decision of the publisher, as `write.plan.planned`."""
    return planned(_PLANS, decision, event_id, at, picture)


def _publish(decision: PoolPublished, at: int, picture: PoolPicture) -> Task:
    work = PublishPool(
        driver=decision.driver,
        pool=decision.pool,
        fabric=decision.fabric,
        prefix=decision.prefix,
        model=decision.model,
        generation=decision.generation,
        slices=decision.slices,
        taint=decision.taint,
        drop=tuple(sorted(decision.drop.items())),
        adopt=decision.adopt,
    )
    thing = _pool_object(decision)
    return Task(work, (thing,), target=decision.subject, replaces=thing)


def _withdraw(decision: PoolWithdrawn, at: int, picture: PoolPicture) -> Task:
    drop = tuple(sorted(decision.drop.items()))
    work = WithdrawPool(decision.driver, decision.pool, drop, adopt=picture.policy.adopt == "reference")
    thing = _pool_object(decision)
    return Task(work, (thing,), target=decision.subject, replaces=thing)


def _pool_object(decision: PoolPublished | PoolWithdrawn) -> str:
    return f"{SLICES}/{decision.driver}/{decision.pool}"


def _label(decision: NodeLabelled, at: int, picture: PoolPicture) -> Task:
    return label(decision, picture.host(decision.node))


_PLANS: Plans[PoolPicture] = {
    PoolPublished: _publish,
    PoolWithdrawn: _withdraw,
    NodeLabelled: _label,
}


# -- what people are told ----------------------------------------------------------------------------------------------

CONFIG_MAP = "ConfigMap"


class PoolNews:
    """Kubernetes Events on the ConfigMap that describes the devices: that a pool is there, that it is kept from the scheduler and
    why, what somebody should look at. Told when it changes, not when it is written again; nothing in mode `observe`.

    It remembers which pools it has told of as withheld; of others the slices as they are now say it."""

    def __init__(self, config_namespace: str = config.NAMESPACE) -> None:
        self._namespace = config_namespace
        self._withheld: dict[PoolKey, bool] = {}

    def tell(self, event: Event, at: int, picture: PoolPicture) -> tuple[Task, ...]:
        """The Kubernetes Events for a fact or decision of the log, seen or decided at `at` (microseconds); the picture has folded
        it, and does not show yet what comes of it."""
        if not picture.live:
            return ()
        if isinstance(event, Rejected):
            return tuple(self._rejected(event, at, picture))
        if picture.config is None or getattr(event, "mode", "observe") == "observe":
            return ()
        if isinstance(event, PoolPublished):
            return tuple(self._published(event, at, picture))
        if isinstance(event, PoolWithdrawn):
            return tuple(self._withdrawn(event, at, picture))
        if isinstance(event, Alerted):
            return (self._said(event.reason, "Check", event.text, event.of, at, picture, "Warning"),)
        return ()

    def _published(self, event: PoolPublished, at: int, picture: PoolPicture) -> Iterator[Task]:
        key = (event.driver, event.pool)
        was, now = self._was_withheld(key, picture), _is_withheld(event, at, picture)
        self._withheld[key] = now
        pool = f"pool {event.pool} of {event.driver}"
        if not picture.own_slices(key) and not event.reissued:
            number = sum(len(one.devices) for one in event.slices)
            note = f"{pool} is published with {_devices(number)}: {event.why}"
            yield self._said("PoolPublished", "Publish", note, event.pool, at, picture)
        if now and not was:
            note = f"{pool} is kept from new claims: {event.why}"
            yield self._said("PoolCooling", "Withhold", note, event.pool, at, picture, "Warning")
        if was and not now:
            yield self._said(
                "PoolAvailable", "Publish", f"{pool} is there for new claims again", event.pool, at, picture
            )

    def _withdrawn(self, event: PoolWithdrawn, at: int, picture: PoolPicture) -> Iterator[Task]:
        self._withheld.pop((event.driver, event.pool), None)
        if event.drop and not event.reissued:
            note = f"pool {event.pool} of {event.driver} is withdrawn: {event.why}"
            yield self._said("PoolWithdrawn", "Withdraw", note, event.pool, at, picture)

    def _was_withheld(self, key: PoolKey, picture: PoolPicture) -> bool:
        told = self._withheld.get(key)
        if told is not None:
            return told
        taint = f"{picture.prefix}/{COOLING}"
        return any(one.key == taint for live in picture.own_slices(key) for one in live.taints)

    def _rejected(self, event: Rejected, at: int, picture: PoolPicture) -> Iterator[Task]:
        """Of the ConfigMap alone: what else is not as expected is the scaler's to tell."""
        if event.kind == CONFIG_MAP and event.name:
            regarding = Regarding(CONFIG_MAP, "configmaps", event.name, event.uid, event.namespace, "v1")
            note = f"{event.field} {event.reason}; it is left aside until that is mended"
            yield _task(regarding, "Rejected", "Read", note, event.field, at, picture, "Warning")

    def _said(
        self, reason: str, action: str, note: str, part: str, at: int, picture: PoolPicture, type: Type = "Normal"
    ) -> Task:
        found = picture.config
        uid = found.uid if found is not None else ""
        regarding = Regarding(CONFIG_MAP, "configmaps", config.NAME, uid, self._namespace, "v1")
        return _task(regarding, reason, action, note, part, at, picture, type)


def _task(
    regarding: Regarding, reason: str, action: str, note: str, part: str, at: int, picture: PoolPicture, type: Type
) -> Task:
    instance = f"dds-publisher-epoch-{picture.epoch}"
    work = TellPeople(regarding, reason, action, note, type, at, instance, part=part)
    return Task(work, (f"{EVENTS}/{regarding.uid}/{part}",), at=at)


def _is_withheld(event: PoolPublished, at: int, picture: PoolPicture) -> bool:
    """Whether the pool is kept from new claims, by a taint or by listing only what claims hold."""
    if event.taint:
        return True
    return any(cooling_until(picture, host.labels, event.model) > at for host in picture.hosts_in(event.fabric))


def _devices(number: int) -> str:
    return "one device" if number == 1 else f"{number} devices"
