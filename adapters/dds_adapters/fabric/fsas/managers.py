"""The Fsas fabric manager, alone or with the cluster manager, which knows how many devices a machine may have.

A machine in no node group of the cluster has no limits. The selector of a machine's resource specification says its model, by the
condition `model eq <cdi-model-name>`. Of several specifications for one model the strictest counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from dds_adapters.fabric.answers import (
    MAX_MACHINES,
    FabricId,
    Free,
    Items,
    P,
    Part,
    Text,
    Uuid,
    each,
    odd,
    partly,
    read,
)
from dds_adapters.fabric.connections import Connections
from dds_adapters.fabric.error_text import named
from dds_adapters.fabric.fabric_settings import FabricSettings, Outside
from dds_adapters.fabric.fsas.credentials import Folder
from dds_adapters.fabric.fsas.token import ErrorBody, Token, denied_again
from dds_adapters.fabric.http import LARGEST, LARGEST_OF_MANY, Call, Http, Reply, content, refusal
from dds_adapters.fabric.provider import FabricError, FabricRefused, FabricUnreachable, Provider
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock

MAX_GROUPS = 1000
"""Node groups of a cluster; each needs a request."""

# -- fabric manager ----------------------------------------------------------------------------------------------------


class FmMachine(Part):
    mach_uuid: Uuid
    mach_name: Text | None = None
    fabric_id: FabricId | None = None


class FmMachineData(Part):
    machines: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each an `FmMachine`, decoded alone: a wrong one hides no other."""


class FmMachines(Part):
    """GET fabric_manager/api/v1/machines"""

    data: FmMachineData


class FmAvailable(Part):
    """GET fabric_manager/api/v1/machines/{machine}/available-reserved-resources; some managers leave the fabric out."""

    reserved_res_num_per_fabric: Free
    fabric_id: FabricId | None = None


# -- cluster manager ---------------------------------------------------------------------------------------------------


class CmGroup(Part):
    uuid: Uuid


class CmGroups(Part):
    """GET cluster_manager/cluster_autoscaler/v2/tenants/{tenant}/clusters/{cluster}/nodegroups"""

    nodegroups: Annotated[list[Any], Field(max_length=MAX_GROUPS)]
    """Each a `CmGroup`, decoded alone."""


class CmGroupMembers(Part):
    """GET …/nodegroups/{group}"""

    mach_ids: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each a UUID, decoded alone."""


class CmCondition(Part):
    column: Any = None
    operator: Any = None
    value: Any = None


class CmExpression(Part):
    conditions: Items[CmCondition] | None = None


class CmSelector(Part):
    expression: CmExpression | None = None


class CmSpec(Part):
    selector: CmSelector | None = None
    min_resspec_count: Free | None = None
    max_resspec_count: Free | None = None

    def is_of(self, model: str) -> bool:
        """Whether its selector asks for this model; like the cluster manager, dds compares the exact text."""
        expression = self.selector.expression if self.selector is not None else None
        conditions = expression.conditions if expression is not None else None
        return any(one.column == "model" and one.operator == "eq" and one.value == model for one in conditions or ())


class CmMachine(Part):
    uuid: Uuid
    resspecs: Items[CmSpec] | None
    """Required: an answer without it would lift every limit of the machine; without one entry, maybe one of them."""


class CmCluster(Part):
    machine: CmMachine


class CmTenant(Part):
    cluster: CmCluster


class CmMachineDetail(Part):
    """GET cluster_manager/cluster_autoscaler/v3/tenants/{tenant}/clusters/{cluster}/machines/{machine}"""

    data: CmTenant


# -- questions with a token ----------------------------------------------------------------------------------------------

_FIXES = {
    403: "let this user read the tenant",
    404: "check tenant and cluster; the machine may be gone",
    429: "the manager has too much to do; it is asked again later",
}


class Session:
    """Calls to one endpoint; the only code that puts a token on a request. A request whose token was refused is sent once more
    with a new token; every other refusal is reported in the manager's own words. Thread-safe."""

    def __init__(self, settings: FabricSettings, folder: Folder, outside: Outside) -> None:
        self._endpoint = settings.endpoint.rstrip("/")
        self._connections = Connections(lambda: folder.read().certificate, outside.transport)
        self._http = Http(self._connections.way, outside, settings.connect_seconds)
        self.token = Token(self._http, self._endpoint, folder, outside, settings.token_seconds)

    def close(self) -> None:
        self._connections.close()

    def get(
        self,
        form: type[P],
        name: str,
        path: str,
        seconds: float,
        query: Mapping[str, str] | None = None,
        largest: int = LARGEST_OF_MANY,
    ) -> tuple[P, str]:
        """The answer, and the name of call and request for errors about it. Raises FabricError."""
        reply = self._answered(Call(name, f"{self._endpoint}{path}", seconds, query or {}, largest=largest))
        return content(form, reply), reply.where

    def post(self, name: str, path: str, seconds: float, body: Mapping[str, Any]) -> None:
        """Request a change. It is sent once: after FabricUnreachable, except FabricAway, the manager may have carried it out."""
        self._answered(Call(name, f"{self._endpoint}{path}", seconds, json=body, harmless=False))

    def _answered(self, call: Call) -> Reply:
        token = self.token.current()
        reply = self._asked(call, token)
        if reply.status == 401:
            token = self.token.instead_of(token, reply.where)
            reply = self._asked(call, token)
            if reply.status == 401:
                raise denied_again(reply.where)
        if reply.status != 200 and (call.harmless or not 200 <= reply.status < 300):
            raise self._refusal(reply, token)
        return reply

    def _asked(self, call: Call, token: str) -> Reply:
        return self._http.ask(replace(call, headers={"Authorization": f"Bearer {token}"}))

    def _refusal(self, reply: Reply, token: str) -> FabricRefused:
        """`token` is the one that was sent; another thread may have replaced it since."""
        fix = _FIXES.get(reply.status, "look the request up in the manager's log")
        return refusal(reply, _told, fix, (*self.token.hidden(), token))


def _told(body: bytes) -> tuple[object, ...]:
    detail = read(ErrorBody, body, "").detail
    return (detail.code, detail.message) if detail is not None else ()


# -- providers -----------------------------------------------------------------------------------------------------------

PATH = "/fabric_manager/api/v1/machines"
ROOT = "/cluster_manager/cluster_autoscaler"


class FmProvider(Provider):
    """The fabric manager alone: machines with their fabrics, and free devices as a number per fabric and model. It has no
    limits."""

    def __init__(self, session: Session, settings: FabricSettings) -> None:
        self._session = session
        self._settings = settings
        self._written: dict[str, str] = {}  # a UUID in lower case → as the manager writes it

    def machines(self) -> Sequence[Machine]:
        query = {"tenant_uuid": self._settings.tenant}
        found, where = self._session.get(FmMachines, "fm.machines", PATH, self._settings.fm_seconds, query, LARGEST)
        field = "data.machines"
        good, bad = each(FmMachine, found.data.machines, field, where)
        machines: dict[str, Machine] = {}
        twice: set[str] = set()
        for place, one in good:
            machine = Machine(one.mach_uuid.lower(), named(one.mach_name), one.fabric_id or "")
            if machines.setdefault(machine.uuid, machine).fabric != machine.fabric:
                bad.append(odd(where, f"{field}.{place}.fabric_id", "puts a machine into a second fabric"))
                twice.add(machine.uuid)
        self._written = {one.mach_uuid.lower(): one.mach_uuid for _, one in good}
        return partly((one for one in machines.values() if one.uuid not in twice), bad)

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        condition = {"column": "model", "operator": "eq", "value": model.model}
        query = {
            "tenant_uuid": self._settings.tenant,
            "res_type": model.type,
            "condition": json.dumps(condition, separators=(",", ":"), ensure_ascii=False),
        }
        path = f"{PATH}/{self.written(machine)}/available-reserved-resources"
        found, _ = self._session.get(FmAvailable, "fm.available", path, self._settings.fm_seconds, query)
        told = "fabric_id" in found.model_fields_set
        fabric = (found.fabric_id or "") if told else machine.fabric
        return Stock(fabric, model.model, found.reserved_res_num_per_fabric)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return None

    def written(self, machine: Machine) -> str:
        """The machine's UUID for a path, as the manager writes it."""
        return quote(self._written.get(machine.uuid, machine.uuid), safe="")

    def close(self) -> None:
        self._session.close()


class CmProvider(FmProvider):
    """Machines and stock from the fabric manager, limits from the cluster manager."""

    def __init__(self, session: Session, settings: FabricSettings) -> None:
        super().__init__(session, settings)
        self._lock = threading.Lock()
        self._groups: _Groups | None = None
        tenant, cluster = (quote(one, safe="") for one in (settings.tenant, settings.cluster))
        self._cluster = f"tenants/{tenant}/clusters/{cluster}"

    def machines(self) -> Sequence[Machine]:
        with self._lock:
            self._groups = None  # a new round begins
        return super().machines()

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        if not self._is_member(machine.uuid):
            return {}
        path = f"{ROOT}/v3/{self._cluster}/machines/{self.written(machine)}"
        found, where = self._session.get(CmMachineDetail, "cm.machine", path, self._settings.cm_seconds)
        detail = found.data.cluster.machine
        if detail.uuid.lower() != machine.uuid:
            raise odd(where, "data.cluster.machine.uuid", "is of another machine than the one asked for")
        every = {
            model.model: _strictest([spec for spec in detail.resspecs or () if spec.is_of(model.model)])
            for model in models
        }
        return {model: limit for model, limit in every.items() if limit is not None}

    def _is_member(self, machine: str) -> bool:
        """Whether a node group has the machine. Raises the error of an unread group unless another group has it."""
        with self._lock:
            if self._groups is None:
                self._groups = self._ask_groups()
            groups = self._groups
        if machine in groups.members:
            return True
        if groups.error is not None:
            raise groups.error.with_traceback(None)
        return False

    def _ask_groups(self) -> _Groups:
        """Once a round, even if it fails: the limits of all machines need it."""
        found = _Groups()
        path = f"{ROOT}/v2/{self._cluster}/nodegroups"
        try:
            groups, told = self._session.get(CmGroups, "cm.nodegroups", path, self._settings.cm_seconds)
        except FabricError as error:
            found.error = error
            return found
        good, bad = each(CmGroup, groups.nodegroups, "nodegroups", told)
        for _, group in good:
            where = f"{path}/{quote(group.uuid, safe='')}"
            try:
                members, told = self._session.get(CmGroupMembers, "cm.nodegroup", where, self._settings.cm_seconds)
                known, odd_ones = each(CmGroup, ({"uuid": one} for one in members.mach_ids), "mach_ids", told)
                found.members.update(one.uuid.lower() for _, one in known)
                bad += odd_ones
            except FabricError as error:
                found.error = error
                if error.general or isinstance(error, FabricUnreachable):
                    break  # the others would take as long, and all machines wait for them
        if bad and found.error is None:
            found.error = bad[0]  # any machine that no group names may be the one
        return found


class _Groups:
    """The machines of all node groups that could be read; `error` is why one could not."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.error: FabricError | None = None


def _strictest(specs: Sequence[CmSpec]) -> Limit | None:
    """The lowest maximum, and the highest minimum up to it. None without any limit."""
    most = min((spec.max_resspec_count for spec in specs if spec.max_resspec_count is not None), default=None)
    least = max((spec.min_resspec_count for spec in specs if spec.min_resspec_count is not None), default=None)
    if most is None and least is None:
        return None
    return Limit(most, least if most is None or least is None else min(least, most))
