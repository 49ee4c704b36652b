"""NEC's CDIM: its nodes are machines, and its free devices have names.

All its devices form one fabric, whose id is a setting. A device is free if it is detected, in no node, linked to no adapter of
the fabric, and not taken out of use by an administrator (annotation.available); it is healthy if its state is Enabled and its
health OK. Both lists come whole, so each is requested once a round, for all models.
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
from dds_adapters.fabric.fabric_settings import FabricSettings, Outside
from dds_adapters.fabric.http import LARGEST, Call, Http, refusal
from dds_adapters.fabric.provider import FabricError, FabricOdd
from dds_adapters.fabric.words import named
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock


def _last_segment(value: Any) -> Any:
    """CDIM names nodes by their provider id, in upper or lower case; the part after the last slash is the machine."""
    return value.rpartition("/")[2].lower() if isinstance(value, str) else value


class NecNode(Part):
    id: Annotated[Uuid, BeforeValidator(_last_segment)]
    name: Text | None = None


class NecNodes(Part):
    """GET /cdim/api/v1/nodes?detail=true"""

    nodes: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each a `NecNode`, decoded alone."""


class NecStatus(Part):
    state: Any = None
    health: Any = None


class NecLink(Part):
    type: Any = None


class NecDevice(Part):
    deviceID: DeviceId  # noqa: N815 - the API's word
    model: Text | None = None
    status: NecStatus | None = None
    links: Items[NecLink] | None = None

    @property
    def healthy(self) -> bool:
        told = (self.status.state, self.status.health) if self.status is not None else ()
        return tuple(str(one).casefold() for one in told) == ("enabled", "ok")

    @property
    def linked(self) -> bool:
        """Whether it is connected to a server, by an adapter of the fabric, also one that is no node."""
        return any(str(one.type).casefold().endswith("fabricadapter") for one in self.links or ())


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
        kept = self.annotation is not None and self.annotation.available is False
        return self.detected and not self.nodeIDs and not self.device.linked and not kept


class NecResources(Part):
    """GET /cdim/api/v1/resources?detail=true"""

    resources: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each a `NecResource`, decoded alone."""


class NecError(Part):
    """{code, message}"""

    code: Any = None
    message: Any = None


BASE = "/cdim/api/v1"
DETAIL = {"detail": "true"}

P = TypeVar("P", bound=Part)
_Free = tuple[dict[str, tuple[FreeDevice, ...]], list[FabricOdd]]
"""Free devices by model, and a fault for each entry that could not be read."""


class NecProvider:
    """Speaks to CDIM, which has no limits."""

    def __init__(self, settings: FabricSettings, outside: Outside) -> None:
        self._settings = settings
        self._connections = Connections(lambda: "", outside.transport)
        self._http = Http(self._connections.way, outside, settings.connect_seconds)
        self._lock = threading.Lock()
        self._free: _Free | FabricError | None = None

    def machines(self) -> Sequence[Machine]:
        with self._lock:
            self._free = None  # a new round begins
        found, where = self._get(NecNodes, "nec.nodes", "/nodes")
        good, bad = each(NecNode, found.nodes, "nodes", where)
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
        by_model, bad = free
        devices = by_model.get(model.model, ())
        healthy = sum(one.healthy for one in devices)
        return Stock(self._settings.fabric, model.model, healthy, devices, odd=left_out(bad))

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return None

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
        good, bad = each(NecResource, found.resources, "resources", where)
        by_model: dict[str, dict[str, FreeDevice]] = {}
        seen: set[str] = set()
        for place, one in good:
            if one.device.deviceID in seen:
                bad.append(odd(where, f"resources.{place}.device.deviceID", "names a device twice"))
                continue
            seen.add(one.device.deviceID)
            if one.free and one.device.model:
                devices = by_model.setdefault(one.device.model, {})
                devices[one.device.deviceID] = FreeDevice(one.device.deviceID, one.device.healthy)
        return {model: tuple(devices[id] for id in sorted(devices)) for model, devices in by_model.items()}, bad

    def _get(self, form: type[P], name: str, path: str) -> tuple[P, str]:
        url = f"{self._settings.endpoint.rstrip('/')}{BASE}{path}"
        reply = self._http.ask(Call(name, url, self._settings.nec_seconds, DETAIL, largest=LARGEST))
        if 200 <= reply.status < 300:
            try:
                return read(form, reply.body, reply.where), reply.where
            except FabricOdd:
                if not any(_told(reply.body)):
                    raise  # else it is an error of the manager's, whatever its status says
        fix = "check the address (redirects are not followed), and look the request up in the manager's log"
        raise refusal(reply, _told, fix)


def _told(body: bytes) -> tuple[object, ...]:
    found = read(NecError, body, "")
    return (found.code, found.message)
