"""The dynamic device scaler: what the engine, replay, verification and timelines need to know of it."""

from __future__ import annotations

from dds_core.component import Component
from dds_core.engine import EngineOf
from dds_core.fingerprint import FINGERPRINT
from dds_core.scaler.deadlines import Agenda
from dds_core.scaler.events import EVENTS
from dds_core.scaler.fold import apply
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.policy import read_policy
from dds_core.scaler.rules import decide
from dds_core.scaler.state import PROJECTION, Picture, dump, load, same
from dds_core.scaler.timeline import TOLD

SCALER: Component[Picture] = Component(
    name="scaler",
    fingerprint=FINGERPRINT,
    projection=PROJECTION,
    picture=Picture,
    apply=apply,
    decide=decide,
    invariants=INVARIANTS,
    agenda=Agenda,
    dump=dump,
    load=load,
    same=same,
    policy=read_policy,
    events=EVENTS,
    told=TOLD,
    usual=True,
)


class Engine(EngineOf[Picture]):
    """The engine of the scaler."""

    def __init__(self, picture: Picture | None = None) -> None:
        super().__init__(SCALER, picture)
