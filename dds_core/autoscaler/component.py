"""Registers the autoscaler: what the engine, replay, verification and timelines need to know of it."""

from __future__ import annotations

from dds_core.autoscaler.deadlines import DeadlineQueue
from dds_core.autoscaler.deciding import decide
from dds_core.autoscaler.events import EVENTS
from dds_core.autoscaler.folds import apply
from dds_core.autoscaler.policy import read_autoscale_policy
from dds_core.autoscaler.state import PROJECTION, Fleet, dump, load, same
from dds_core.autoscaler.timeline import TOLD
from dds_core.component import Component
from dds_core.fingerprint import AUTOSCALER_FINGERPRINT
from dds_core.kit.work import NO_INVARIANTS

AUTOSCALER: Component[Fleet] = Component(
    name="autoscaler",
    fingerprint=AUTOSCALER_FINGERPRINT,
    projection=PROJECTION,
    state=Fleet,
    apply=apply,
    decide=decide,
    invariants=NO_INVARIANTS,
    deadline_queue=DeadlineQueue,
    dump=dump,
    load=load,
    same=same,
    policy=read_autoscale_policy,
    events=EVENTS,
    telling=TOLD,
)
