"""Makes tasks of a committed decision of the publisher, with all the data that the write needs.

Runs on the engine's thread; sends nothing and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.publish.pools import SLICES, PublishPool, WithdrawPool
from dds_adapters.kubernetes.write.events import EVENTS, POLICY_INVALID, Regarding, TellPeople, Type
from dds_adapters.kubernetes.write.scaler_tasks import label
from dds_adapters.kubernetes.write.tasks import Task, TaskTable, tasks_by
from dds_core.events import POLICY, Alerted, Decision, Event, NodeLabelled, Rejected
from dds_core.publisher.events import PoolPublished, PoolWithdrawn
from dds_core.publisher.model import COOLING, PoolKey
from dds_core.publisher.state import PoolState


def tasks_of(decision: Decision, event_id: str, at: int, state: PoolState) -> tuple[Task, ...]:
    """The tasks of a decision of the publisher; see `write.tasks.tasks_by`."""
    return tasks_by(_TABLE, decision, event_id, at, state)


def _publish(decision: PoolPublished, at: int, state: PoolState) -> Task:
    write = PublishPool(
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
    return Task(write, (thing,), target=decision.subject, replaces=thing)


def _withdraw(decision: PoolWithdrawn, at: int, state: PoolState) -> Task:
    drop = tuple(sorted(decision.drop.items()))
    write = WithdrawPool(decision.driver, decision.pool, drop, adopt=state.policy.adopt == "reference")
    thing = _pool_object(decision)
    return Task(write, (thing,), target=decision.subject, replaces=thing)


def _pool_object(decision: PoolPublished | PoolWithdrawn) -> str:
    return f"{SLICES}/{decision.driver}/{decision.pool}"


def _label(decision: NodeLabelled, at: int, state: PoolState) -> Task:
    return label(decision, state.host(decision.node))


_TABLE: TaskTable[PoolState] = {
    PoolPublished: _publish,
    PoolWithdrawn: _withdraw,
    NodeLabelled: _label,
}


# -- Kubernetes Events -------------------------------------------------------------------------------------------------

CONFIG_MAP = "ConfigMap"


class PoolNews:
    """Kubernetes Events on the ConfigMap that describes the devices: a pool is published, is kept from new claims and why, or
    needs attention. One event for each change, not for each write; none in mode `observe`.

    It remembers which pools it reported as withheld; for other pools the present slices show it."""

    def __init__(self, config_namespace: str = config.NAMESPACE) -> None:
        self._namespace = config_namespace
        self._withheld: dict[PoolKey, bool] = {}

    def tell(self, event: Event, at: int, state: PoolState) -> tuple[Task, ...]:
        """The Kubernetes Events for a fact or decision of the log, seen or decided at `at` (microseconds). The state has folded
        the event, but not its consequences."""
        if not state.live:
            return ()
        if isinstance(event, Rejected):
            return tuple(self._rejected(event, at, state))
        if state.config is None or getattr(event, "mode", "observe") == "observe":
            return ()
        if isinstance(event, PoolPublished):
            return tuple(self._published(event, at, state))
        if isinstance(event, PoolWithdrawn):
            return tuple(self._withdrawn(event, at, state))
        if isinstance(event, Alerted):
            return (self._said(event.reason, "Check", event.text, event.of, at, state, "Warning"),)
        return ()

    def _published(self, event: PoolPublished, at: int, state: PoolState) -> Iterator[Task]:
        key = (event.driver, event.pool)
        was, now = self._was_withheld(key, state), _is_withheld(event, at, state)
        self._withheld[key] = now
        pool = f"pool {event.pool} of {event.driver}"
        if not state.own_slices(key) and not event.reissued:
            number = sum(len(one.devices) for one in event.slices)
            devices = "one device" if number == 1 else f"{number} devices"
            note = f"{pool} is published with {devices}: {event.why}"
            yield self._said("PoolPublished", "Publish", note, event.pool, at, state)
        if now and not was:
            note = f"{pool} is kept from new claims: {event.why}"
            yield self._said("PoolCooling", "Withhold", note, event.pool, at, state, "Warning")
        if was and not now:
            yield self._said("PoolAvailable", "Publish", f"{pool} is there for new claims again", event.pool, at, state)

    def _withdrawn(self, event: PoolWithdrawn, at: int, state: PoolState) -> Iterator[Task]:
        self._withheld.pop((event.driver, event.pool), None)
        if event.drop and not event.reissued:
            note = f"pool {event.pool} of {event.driver} is withdrawn: {event.why}"
            yield self._said("PoolWithdrawn", "Withdraw", note, event.pool, at, state)

    def _was_withheld(self, key: PoolKey, state: PoolState) -> bool:
        told = self._withheld.get(key)
        if told is not None:
            return told
        taint = f"{state.prefix}/{COOLING}"
        return any(one.key == taint for live in state.own_slices(key) for one in live.taints)

    def _rejected(self, event: Rejected, at: int, state: PoolState) -> Iterator[Task]:
        """Only for the ConfigMap and the policy: the scaler reports other rejected objects."""
        if event.uid == POLICY:
            note = f"{event.field}; the last valid policy stays in force"
            yield self._said(POLICY_INVALID, "Read", note, POLICY, at, state, "Warning")
        if event.kind == CONFIG_MAP and event.name:
            regarding = Regarding(CONFIG_MAP, "configmaps", event.name, event.uid, event.namespace, "v1")
            note = f"{event.field} {event.reason}; it is left aside until that is mended"
            yield _task(regarding, "Rejected", "Read", note, event.field, at, state, "Warning")

    def _said(
        self, reason: str, action: str, note: str, part: str, at: int, state: PoolState, type: Type = "Normal"
    ) -> Task:
        found = state.config
        uid = found.uid if found is not None else ""
        regarding = Regarding(CONFIG_MAP, "configmaps", config.NAME, uid, self._namespace, "v1")
        return _task(regarding, reason, action, note, part, at, state, type)


def _task(
    regarding: Regarding, reason: str, action: str, note: str, part: str, at: int, state: PoolState, type: Type
) -> Task:
    instance = f"dds-publisher-epoch-{state.process.epoch}"
    write = TellPeople(regarding, reason, action, note, type, at, instance, part=part)
    return Task(write, (f"{EVENTS}/{regarding.uid}/{part}",), at=at)


def _is_withheld(event: PoolPublished, at: int, state: PoolState) -> bool:
    """Whether the pool is kept from new claims, by a taint or by listing only devices in use."""
    if event.taint:
        return True
    return any(state.cooling_until(host.labels, event.model) > at for host in state.hosts_in(event.fabric))
