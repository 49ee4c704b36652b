"""From a committed decision of the publisher to the writes that it means, with everything in them that was decided on.

Runs on the engine's thread; asks nobody and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dds_adapters.kubernetes.publishing.pools import SLICES, PublishPool, WithdrawPool
from dds_adapters.kubernetes.writer.labels import LabelNode
from dds_adapters.kubernetes.writer.plan import Overtaken
from dds_adapters.kubernetes.writer.tasks import Task
from dds_core.events import Decision, NodeLabelled, PoolPublished, PoolWithdrawn
from dds_core.publishing.picture import PoolPicture


def plan(decision: Decision, event_id: str, at: int, picture: PoolPicture) -> tuple[Task, ...]:
    """The tasks of a decision, none for one that writes nothing or was decided in mode `observe`.

    `event_id` is the decision's in the log, `at` its instant in microseconds; the picture has folded it, and may have folded
    more.
    """
    draw = _PLANS.get(type(decision))
    if draw is None or getattr(decision, "mode", "observe") == "observe":
        return ()
    return (replace(draw(decision, picture), decision=event_id, action=type(decision).__name__, at=at),)


def _publish(decision: PoolPublished, picture: PoolPicture) -> Task:
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


def _withdraw(decision: PoolWithdrawn, picture: PoolPicture) -> Task:
    drop = tuple(sorted(decision.drop.items()))
    work = WithdrawPool(decision.driver, decision.pool, drop, adopt=picture.policy.adopt == "reference")
    thing = _pool_object(decision)
    return Task(work, (thing,), target=decision.subject, replaces=thing)


def _pool_object(decision: PoolPublished | PoolWithdrawn) -> str:
    return f"{SLICES}/{decision.driver}/{decision.pool}"


def _label(decision: NodeLabelled, picture: PoolPicture) -> Task:
    host = picture.host(decision.node)
    labels = tuple(sorted(decision.labels.items()))
    work = LabelNode(host.name, host.uid, labels) if host is not None else Overtaken("the node is gone")
    thing = f"nodes/{decision.node}"
    return Task(work, (thing,), target=decision.node, replaces=f"{thing}: {','.join(sorted(decision.labels))}")


_PLANS: dict[type[Decision], Callable[[Any, PoolPicture], Task]] = {
    PoolPublished: _publish,
    PoolWithdrawn: _withdraw,
    NodeLabelled: _label,
}
