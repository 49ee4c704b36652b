"""The operator's cache: its two kinds, nodes, and the devices that the nodes' slices show. Indexes only, no decisions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dds_lab.actors.objects import Formed, has_resource, has_spec, said
from dds_lab.actors.operator.operator_settings import MANAGED_BY, REQUESTS, RESOURCES
from dds_lab.actors.operator.planning import kin, kin_of
from dds_lab.client import Client, Mirror, Object

Key = TypeVar("Key", str, tuple[str, ...])
Index = dict[Key, dict[str, Object]]  # key → name → object
Change = Callable[[Object | None, Object | None], None]


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a device is published."""

    driver: str
    pool: str
    device: str


class OperatorView:
    """Mirrors with indexes. The callbacks must be set before `start`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._owned: Index[str] = {}  # request → its resources
        self._targets: Index[str] = {}  # node → resources
        self._holders: Index[str] = {}  # device id → resources
        self._kin: Index[tuple[str, ...]] = {}  # conflict key (`kin`) → requests
        self._shown: dict[str, dict[str, Shown]] = {}  # uuid → slice → where
        self._in_slice: dict[str, tuple[str, ...]] = {}
        self.request_changed: Change = _ignore
        self.resource_changed: Change = _ignore
        self.node_changed: Change = _ignore
        self.device_shown: Callable[[str], None] = lambda uuid: None

    def start(self) -> None:
        self.nodes = self._client.mirror("nodes")
        self.slices = self._client.mirror("resourceslices")
        self.resources = Formed(self._client.mirror(RESOURCES), has_spec)
        self.requests = Formed(self._client.mirror(REQUESTS), has_resource)
        self._mirrors: list[Mirror | Formed] = [self.nodes, self.slices, self.resources, self.requests]
        for mirror, call in zip(
            self._mirrors, (self.node_changed, self._slice, self._resource, self._request), strict=True
        ):
            mirror.follow(call)

    def stop(self) -> None:
        for mirror in self._mirrors:
            mirror.close()

    def owned(self, request: str) -> list[Object]:
        """The resources that a request manages, by name."""
        return _by_name(self._owned, request)

    def on_node(self, node: str) -> list[Object]:
        """The resources whose target is the node, by name."""
        return _by_name(self._targets, node)

    def holding(self, device_id: str) -> list[Object]:
        """The resources that name the device, by name."""
        return _by_name(self._holders, device_id)

    def kin_of(self, request: Object) -> list[Object]:
        """The requests that a new one may conflict with, by name."""
        return _by_name(self._kin, kin_of(request))

    def shown(self, uuid: str) -> Shown | None:
        """Where a slice shows the device with this uuid, None if none does. An empty uuid matches nothing."""
        return next(iter(self._shown.get(uuid, {}).values()), None) if uuid else None

    def _request(self, old: Object | None, new: Object | None) -> None:
        for obj, add in ((old, False), (new, True)):
            if obj is not None:
                for key in kin(obj):
                    _index(self._kin, key, obj, add)
        self.request_changed(old, new)

    def _resource(self, old: Object | None, new: Object | None) -> None:
        for obj, add in ((old, False), (new, True)):
            if obj is None:
                continue
            _index(self._owned, owner(obj), obj, add)
            _index(self._targets, obj["spec"].get("target_node", ""), obj, add)
            _index(self._holders, said(obj, "device_id"), obj, add)
        self.resource_changed(old, new)

    def _slice(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        name, spec = obj["metadata"]["name"], obj["spec"]
        before = self._in_slice.pop(name, ())
        found: dict[str, Shown] = {}
        for device in spec.get("devices") or () if new is not None else ():
            uuid = (device.get("attributes") or {}).get("uuid", {}).get("string")
            if uuid:
                found[uuid] = Shown(spec["driver"], spec["pool"]["name"], device["name"])
        for uuid in before:
            places = self._shown[uuid]
            del places[name]
            if not places:
                del self._shown[uuid]
        for uuid, place in found.items():
            self._shown.setdefault(uuid, {})[name] = place
        if found:
            self._in_slice[name] = tuple(found)
        for uuid in dict.fromkeys((*before, *found)):
            if (uuid in before) != (uuid in found):
                self.device_shown(uuid)


def owner(resource: Object) -> str:
    """The request that manages the resource, "" if none does."""
    found: str = (resource["metadata"].get("labels") or {}).get(MANAGED_BY, "")
    return found


def _index(index: Index[Key], key: Key, obj: Object, add: bool) -> None:
    if not key:
        return
    if add:
        index.setdefault(key, {})[obj["metadata"]["name"]] = obj
        return
    objects = index.get(key, {})
    objects.pop(obj["metadata"]["name"], None)
    if not objects:
        index.pop(key, None)


def _by_name(index: Index[Key], key: Key) -> list[Object]:
    objects = index.get(key, {})
    return [objects[name] for name in sorted(objects)]


def _ignore(old: Object | None, new: Object | None) -> None:
    pass
