"""What a timeline needs to know to speak in names: the objects as last seen, and the names of those that are gone.

A fold of facts about objects only, much lighter than the picture: it has no indexes and decides nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dds_core.events import KIND_OF, Checkpoint, Event, PolicyChanged, Seen, SliceObserved, merged
from dds_core.model import Claim, Config, Device, DeviceKey, FabricResource, Result, Slice
from dds_core.publisher.model import Machine, Stock
from dds_core.scaler.policy import Policy, read_policy
from dds_core.scaler.pools import model_of_pool, text_attribute
from dds_core.scaler.state import Picture, load
from dds_core.timeline.phrases import spoken

Row = Seen | Machine | Stock
"""What a fact can be about: an object of the cluster, or what the fabric told."""
Pair = tuple[Row | None, Row | None]
"""It before and after a fact; None: not there."""

UNCHANGED: Pair = (None, None)


class Known:
    """Objects by uid. `fences` says whether whoever decides has a use for taint rules, `mode` is the mode that the scaler runs
    in, `states` the state of every claim and device told so far with the instant it began."""

    fences = True

    def __init__(self) -> None:
        self.objects: dict[str, Seen] = {}
        self.gone: dict[str, str] = {}
        self.config = Config(uid="")
        self.policy = Policy()
        self.uuid_at: dict[DeviceKey, str] = {}
        self._uuids: dict[str, str] = {}
        self.states: dict[str, tuple[str, int]] = {}

    def learn(self, fact: Event) -> Pair:
        """Take a fact in; gives the object that it is about, before and after."""
        if isinstance(fact, PolicyChanged):
            self.policy = read_policy(fact.policy)
            return UNCHANGED
        if isinstance(fact, Checkpoint):
            self.begin(load(fact.picture))
            return UNCHANGED
        kind = KIND_OF.get(type(fact))
        if kind is None:
            return UNCHANGED
        change: Any = fact
        before = self.objects.get(change.uid)
        if not hasattr(change, "changes"):
            self._forget(before, kind, change.uid)
            return before, None
        after: Seen = merged(before if before is not None else kind(uid=change.uid), change.changes)
        if isinstance(fact, SliceObserved) and isinstance(after, Slice):
            after = _with_devices(after, fact)
        self._keep(after)
        return before, after

    def _keep(self, after: Seen) -> None:
        self.objects[after.uid] = after
        if isinstance(after, Config):
            self.config = after
        if isinstance(after, Slice) and after.node:
            self._list(after)
        if isinstance(after, FabricResource) and after.uuid:
            self._uuids[after.uid] = after.uuid  # the resource forgets it while it is detached

    def _list(self, after: Slice) -> None:
        """Keep the UUIDs of a node's own devices; they outlive the slice, so that what is gone still has a name."""
        for name, device in after.devices.items():
            uuid = self.uuid_of(after.driver, device)
            if uuid:
                self.uuid_at[(after.driver, after.pool, name)] = uuid

    def _forget(self, before: Seen | None, kind: type[Seen], uid: str) -> None:
        if before is not None:
            self.gone[uid] = self.name_of(before)
            del self.objects[uid]

    def begin(self, picture: Picture) -> None:
        """Begin in the middle, such as where a log begins that was archived before: the picture holds everything so far."""
        self.policy = picture.policy
        for table in (picture.claims, picture.pods, picture.nodes, picture.requests, picture.resources, picture.slices):
            for row in table.rows.values():
                self._keep(row)
        for config in picture.configs.rows.values():
            self._keep(config)
        for lives in (picture.lives, picture.devices):
            self.states.update({uid: (life.state, life.since) for uid, life in lives.rows.items()})
        for uid, life in picture.lives.rows.items():
            if uid not in self.objects:
                self.gone[uid] = f"{life.namespace}/{life.name}"

    # --- names -------------------------------------------------------------------------------------------------------

    @staticmethod
    def name_of(row: Row) -> str:
        """Namespace and name, or what there is."""
        name = getattr(row, "name", "") or getattr(row, "uid", "")
        namespace = getattr(row, "namespace", "")
        return f"{namespace}/{name}" if namespace else name

    def name(self, uid: str) -> str:
        """The name of an object, the uid when it was never seen."""
        row = self.objects.get(uid)
        return self.name_of(row) if row is not None else self.gone.get(uid) or spoken(uid)

    def called(self, uid: str) -> str:
        """The name of a life: a claim's, or for a resource the UUID of its device as soon as it is known."""
        return self._uuids.get(uid) or self.name(uid)

    def claim(self, uid: str) -> Claim | None:
        row = self.objects.get(uid)
        return row if isinstance(row, Claim) else None

    def resource(self, uid: str) -> FabricResource | None:
        row = self.objects.get(uid)
        return row if isinstance(row, FabricResource) else None

    def uuid_of(self, driver: str, device: Device) -> str:
        """The UUID that a node's own device shows, "" for none."""
        return text_attribute(device, driver, self.policy.driver_of(driver).uuid_attribute)

    def model_of(self, result: Result) -> str:
        """The fabric's word for the model of a pool device, "" for a device of a node or of nobody we know."""
        found = model_of_pool(self.config, result.driver, result.pool)
        return found.model if found is not None else ""


def _with_devices(row: Slice, fact: SliceObserved) -> Slice:
    devices = {name: device for name, device in row.devices.items() if name not in fact.devices}
    devices.update({name: device for name, device in fact.devices.items() if device is not None})
    return replace(row, devices=devices)
