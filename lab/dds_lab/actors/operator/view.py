"""The operator's cache: its two kinds, nodes, and the devices that the nodes' slices show. Indexes only, no decisions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from dds_lab.actors.objects import Formed, has_resource, has_spec, said, with_finalizer, without_finalizer
from dds_lab.actors.operator.names import FINALIZER, MANAGED_BY, REQUESTS, RESOURCES
from dds_lab.actors.operator.placement import kin, kin_of
from dds_lab.client import ApiError, Call, Client, Mirror, Object, tolerating

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


# -- an object during a reconcile --------------------------------------------------------------------------------------


class Draft:
    """An object as it was read, with the changes made since. Its writes carry the version that was read, so they are refused if
    another program has changed the object meanwhile. Empty fields are not written."""

    __slots__ = ("_client", "_kind", "_rewriting", "name", "obj")

    def __init__(self, client: Client, kind: str, obj: Object) -> None:
        self.obj = obj
        self.name: str = obj["metadata"]["name"]
        self._client = client
        self._kind = kind
        self._rewriting: Call | None = None

    @property
    def going(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    def said(self, field: str) -> str:
        """A text field of the status, "" if it is missing."""
        return said(self.obj, field)

    def renew(self) -> None:
        """Read the live object. Raises ApiError."""
        self.obj = self._client.get(self._kind, self.name)

    def save(self, **fields: object) -> None:
        """Change fields of the status and write it, changed or not. A write that is refused raises ApiError; the changes stay
        in the draft."""
        before = self.obj.get("status")
        status = {"state": "", **(before or {}), **fields}
        kept = {key: value for key, value in status.items() if key == "state" or value not in ("", {})}
        if kept != before:  # the API server need not look into what is the very object that it has
            self.obj = {**self.obj, "status": kept}
        self.obj = self._client.update(self._kind, self.obj, subresource="status")

    def rewrite(self) -> None:
        """Write the status as it was read, as a poll does that finds nothing new. Raises ApiError."""
        if self._rewriting is None:
            self._rewriting = self._client.updating(self._kind, self.obj, subresource="status")
        self.obj = self._client.perform(self._rewriting)

    def fail(self, words: str) -> None:
        """Write an error. If the write is refused, the error is lost."""
        with suppress(ApiError):
            self.save(error=words)

    def keep(self) -> None:
        """Add the operator's finalizer."""
        if FINALIZER not in (self.obj["metadata"].get("finalizers") or ()):
            self.obj = self._client.update(self._kind, with_finalizer(self.obj, FINALIZER))

    def let_go(self) -> None:
        """Remove the operator's finalizer."""
        self.obj = self._client.update(self._kind, without_finalizer(self.obj, FINALIZER))

    def delete(self) -> None:
        with tolerating(404):
            self._client.delete(self._kind, self.name)
