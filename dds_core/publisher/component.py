"""Registers the publisher: what the engine, replay, verification and timelines need to know of it."""

from __future__ import annotations

from dds_core.component import Component
from dds_core.fingerprint import PUBLISHER_FINGERPRINT
from dds_core.kit.work import NO_INVARIANTS
from dds_core.publisher.deadlines import DeadlineQueue
from dds_core.publisher.deciding import decide
from dds_core.publisher.events import EVENTS
from dds_core.publisher.folds import apply
from dds_core.publisher.policy import read_publish_policy
from dds_core.publisher.state import PROJECTION, PoolState, dump, load, same
from dds_core.publisher.timeline import TOLD

PUBLISHER: Component[PoolState] = Component(
    name="publisher",
    fingerprint=PUBLISHER_FINGERPRINT,
    projection=PROJECTION,
    state=PoolState,
    apply=apply,
    decide=decide,
    invariants=NO_INVARIANTS,
    deadline_queue=DeadlineQueue,
    dump=dump,
    load=load,
    same=same,
    policy=read_publish_policy,
    events=EVENTS,
    telling=TOLD,
)
