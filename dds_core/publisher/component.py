"""The publisher as a component: what the engine, replay and verification need to know of it."""

from __future__ import annotations

from dds_core.component import Component
from dds_core.fingerprint import PUBLISHER_FINGERPRINT
from dds_core.publisher.deadlines import Agenda
from dds_core.publisher.fold import apply
from dds_core.publisher.rules import settle
from dds_core.publisher.state import PROJECTION, PoolPicture, dump, load, same

PUBLISHER: Component[PoolPicture] = Component(
    name="publisher",
    fingerprint=PUBLISHER_FINGERPRINT,
    projection=PROJECTION,
    picture=PoolPicture,
    apply=apply,
    settle=settle,
    agenda=Agenda,
    dump=dump,
    load=load,
    same=same,
)
"""The pool publisher."""
