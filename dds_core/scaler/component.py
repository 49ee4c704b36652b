"""Registers the scaler: what the engine, replay, verification and timelines need to know of it."""

from __future__ import annotations

from dds_core.component import Component
from dds_core.engine import EngineOf
from dds_core.fingerprint import FINGERPRINT
from dds_core.scaler.deadlines import DeadlineQueue
from dds_core.scaler.deciding import decide
from dds_core.scaler.events import EVENTS
from dds_core.scaler.folds import apply
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.policy import read_policy
from dds_core.scaler.state import PROJECTION, State, dump, load, same
from dds_core.scaler.timeline import TOLD

SCALER: Component[State] = Component(
    name="scaler",
    fingerprint=FINGERPRINT,
    projection=PROJECTION,
    state=State,
    apply=apply,
    decide=decide,
    invariants=INVARIANTS,
    deadline_queue=DeadlineQueue,
    dump=dump,
    load=load,
    same=same,
    policy=read_policy,
    events=EVENTS,
    telling=TOLD,
    usual=True,
)


class Engine(EngineOf[State]):
    """The engine of the scaler."""

    def __init__(self, state: State | None = None) -> None:
        super().__init__(SCALER, state)
