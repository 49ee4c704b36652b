"""NEC's CDIM: its nodes are machines, and its free devices have names.

All its devices form one fabric, whose id is a setting. A device is free if CDIM calls it unused (project-cdim's
configuration-manager, ResourceUnusedFilter: detected, without links, annotation.available, state Enabled, health OK) and no node
has it. An unused device of another state or health is free, but not healthy. Both lists come whole, so each is requested once a
round, for all models. States and models are compared without case, as the operator does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from dds_adapters.fabric.answers import (
    MAX_MACHINES,
    DeviceId,
    Items,
    Part,
    Text,
    Uuid,
    each,
    left_out,
    odd,
    partly,
    read,
)
from dds_adapters.fabric.connections import Connections
from dds_adapters.fabric.error_text import named
from dds_adapters.fabric.fabric_settings import FabricSettings, Outside
from dds_adapters.fabric.http import LARGEST, Call, Http, content, refusal
from dds_adapters.fabric.provider import FabricError, FabricOdd, Provider
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock


def _last_segment(value: Any) -> Any:
    """CDIM names nodes by their provider id, in upper or lower case; the part after the last slash is the machine."""
    return value.rpartition("/")[2].lower() if isinstance(value, str) else value


class NecNode(Part):
    id: Annotated[Uuid, BeforeValidator(_last_segment)]
    name: Text | None = None


class NecList(Part):
    """A list; its entries are decoded one by one. `count`: how many there are, on all pages together."""

    count: Any = None
    entries: list[Any]

    @property
    def whole(self) -> bool:
        return not isinstance(self.count, int) or self.count <= len(self.entries)


class NecNodes(NecList):
    """GET /cdim/api/v1/nodes?detail=true, of `NecNode`."""

    entries: Annotated[list[Any], Field(alias="nodes", max_length=MAX_MACHINES)]


class NecStatus(Part):
    state: Any = None
    health: Any = None


class NecDevice(Part):
    deviceID: DeviceId  # noqa: N815 - the API's word
    model: Text | None = None
    status: NecStatus | None = None
    links: list[Any] | None = None

    @property
    def healthy(self) -> bool:
        told = (self.status.state, self.status.health) if self.status is not None else ()
        return tuple(str(one).casefold() for one in told) == ("enabled", "ok")


class NecAnnotation(Part):
    available: bool | None = None


class NecResource(Part):
    """A resource; some versions wrap it once more."""

    device: NecDevice
    annotation: NecAnnotation | None = None
    detected: bool = False
    nodeIDs: Items[Text] | None = None  # noqa: N815 - the API's word

    @model_validator(mode="before")
    @classmethod
    def _unwrapped(cls, value: Any) -> Any:
        inner = value.get("resource") if isinstance(value, dict) else None
        return inner if isinstance(inner, dict) else value

    @property
    def free(self) -> bool:
        """Releases without annotations keep nothing back."""
        offered = self.annotation is None or self.annotation.available is True
        return self.detected and offered and not self.nodeIDs and not self.device.links


class NecResources(NecList):
    """GET /cdim/api/v1/resources?detail=true, of `NecResource`."""

    entries: Annotated[list[Any], Field(alias="resources", max_length=MAX_MACHINES)]


class NecError(Part):
    """{code, message}"""

    code: Any = None
    message: Any = None


BASE = "/cdim/api/v1"
DETAIL = {"detail": "true"}

L = TypeVar("L", bound=NecList)
_Free = dict[str, tuple[FreeDevice, ...]]
"""Free devices, sorted by id, by model in one case."""


class NecProvider(Provider):
    """Speaks to CDIM, which has no limits."""

    def __init__(self, settings: FabricSettings, outside: Outside) -> None:
        self._settings = settings
        self._connections = Connections(lambda: "", outside.transport)
        self._http = Http(self._connections.way, outside, settings.connect_seconds)
        self._lock = threading.Lock()
        self._free: _Free | FabricError | None = None
        self._left_out: str | None = None

    def machines(self) -> Sequence[Machine]:
        with self._lock:
            self._free = None  # a new round begins
        found, where = self._get(NecNodes, "nec.nodes", "/nodes")
        good, bad = each(NecNode, found.entries, "nodes", where)
        machines: dict[str, Machine] = {}
        for place, one in good:
            if one.id in machines:
                bad.append(odd(where, f"nodes.{place}.id", "names a node twice"))
            machines[one.id] = Machine(one.id, named(one.name), self._settings.fabric)
        return partly(machines.values(), bad)

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        with self._lock:
            if self._free is None:
                self._free = self._ask_free()
            free = self._free
        if isinstance(free, FabricError):
            raise free.with_traceback(None)
        devices = free.get(model.model.casefold(), ())
        return Stock(self._settings.fabric, model.model, sum(one.healthy for one in devices), devices)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return None

    def left_out(self) -> str | None:
        return self._left_out

    def close(self) -> None:
        self._connections.close()

    def _ask_free(self) -> _Free | FabricError:
        """Once a round, even if it fails: one answer is for all models."""
        try:
            found, where = self._get(NecResources, "nec.resources", "/resources")
            return self._sorted(found, where)
        except FabricError as error:
            return error

    def _sorted(self, found: NecResources, where: str) -> _Free:
        good, bad = each(NecResource, found.entries, "resources", where)
        by_id: dict[str, NecResource | None] = {}
        for place, one in good:
            other = by_id.setdefault(one.device.deviceID, one)
            if other is not one:
                bad.append(odd(where, f"resources.{place}.device.deviceID", "names a device twice"))
                by_id[one.device.deviceID] = one if one == other else None  # of two that disagree neither is offered
        self._left_out = left_out(bad)
        by_model: dict[str, list[FreeDevice]] = {}
        for id, device in sorted(by_id.items()):
            if device is not None and device.free and device.device.model:
                by_model.setdefault(device.device.model.casefold(), []).append(FreeDevice(id, device.device.healthy))
        return {model: tuple(devices) for model, devices in by_model.items()}

    def _get(self, form: type[L], name: str, path: str) -> tuple[L, str]:
        url = f"{self._settings.endpoint.rstrip('/')}{BASE}{path}"
        reply = self._http.ask(Call(name, url, self._settings.nec_seconds, DETAIL, largest=LARGEST))
        if reply.status == 200:
            try:
                found = content(form, reply)
            except FabricOdd:
                if not any(_told(reply.body)):
                    raise
                # It is an error of the manager's, whatever its status says.
            else:
                if not found.whole:
                    raise odd(reply.where, "count", "is above the number of entries: there are more pages")
                return found, reply.where
        raise refusal(reply, _told, "check the address, and look the request up in the manager's log")


def _told(body: bytes) -> tuple[object, ...]:
    try:
        found = read(NecError, body, "")
    except FabricOdd:
        return ()
    return (found.code, found.message)
