"""The names by which a publisher's log lines speak of pools, slices, nodes and machines: from its picture."""

from __future__ import annotations

from dds_adapters.live.narrator import Fields, Naming, reasons
from dds_core import events as e
from dds_core.events import Event
from dds_core.publishing.picture import PoolPicture


class PoolNames(Naming):
    """The publisher's."""

    fences = False

    def __init__(self) -> None:
        super().__init__()
        self.picture: PoolPicture = PoolPicture()

    def name(self, uid: str) -> str:
        picture = self.picture
        for table in (picture.slices, picture.hosts, picture.claims, picture.resources):
            row = table.get(uid)
            if row is not None:
                return self.name_of(row)
        machine = picture.machines_by_uuid.get(uid)
        return machine.name or uid if machine is not None else uid

    def called(self, uid: str) -> str:
        return self.name(uid)

    def about(self, event: Event) -> Fields:
        found: Fields = {}
        match event:
            case e.OfPool():
                found = {"driver": event.driver, "pool": event.pool}
            case e.OfStock():
                found = {"fabric": event.fabric, "model": event.model}
            case e.MachineObserved() | e.MachineGone():
                found = {"machine": event.subject}
            case e.FabricFailed() | e.FabricAnswered():
                found = {"question": event.of}
        return {**reasons(event), **found}
