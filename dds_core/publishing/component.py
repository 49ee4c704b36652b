"""The publisher as a component: what the engine, replay and verification need to know of it."""

from __future__ import annotations

from dds_core.component import Component
from dds_core.fingerprint import PUBLISHER_FINGERPRINT
from dds_core.publishing.agenda import Agenda
from dds_core.publishing.fold import apply
from dds_core.publishing.picture import PoolPicture
from dds_core.publishing.rules import settle
from dds_core.publishing.snapshot import PROJECTION, dump, load, same

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
