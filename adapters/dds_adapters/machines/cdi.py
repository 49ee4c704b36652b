"""Servers that the Fsas cluster manager composes into the node groups of a cluster.

They are read by documented calls: the node groups and the machines of each (v2); a machine's name, status and status_reason (v3).
How to resize a node group is not documented. Assumed, in this module alone:

- `POST …/v3/…/nodegroups/{group}/actions/resize` does for machines what the documented resize of a machine does for devices: it
  states the new number, is accepted (2xx) at once, and orders nothing if the number is the present one (`_increase`, `_remove`);
- a machine gets the requested name, and is at once a member of its node group; a name that a machine has or had is refused with
  the code `NAME_TAKEN`;
- the status of a machine is one of those of a device (`_STATES`); if no server is left, the request is refused with the code
  `NO_STOCK`, or the status_reason of its machine begins with that.

The machine's name contains the order. dds reads the names before it raises the number, and again afterwards. If another client
raised the number in between, the manager orders nothing or refuses: an order never makes two machines.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from dds_adapters.fabric.answers import Items, Part, Text, Uuid, odd
from dds_adapters.fabric.error_text import said
from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.fsas.credentials import Folder
from dds_adapters.fabric.fsas.managers import MAX_GROUPS, ROOT, Session
from dds_adapters.fabric.provider import FabricError, FabricRefused, FabricUnreachable
from dds_adapters.machines import provider
from dds_adapters.machines.machine_settings import CdiSettings
from dds_adapters.machines.provider import CONFLICT, NOT_FOUND, checked_order, id_of, parts_of
from dds_core.autoscaler.records import FULL, Server, ServerState

PREFIX = "dds-"
"""Precedes the order in a machine's name: a machine without it was not ordered by dds."""
ATTEMPTS = 4
"""How often one call reads a node group again that other clients resize."""

# -- assumed -----------------------------------------------------------------------------------------------------------

NO_STOCK, NAME_TAKEN = "E020507", "E020508"
_STATES: Mapping[str, ServerState] = {
    "ACTIVE": "running",
    "ADD_COMPLETE": "running",
    "ADD_IN_PROGRESS": "creating",
    "ADD_FAILED": "failed",
    "REMOVE_IN_PROGRESS": "deleting",
    "REMOVE_FAILED": "failed",
}


def _increase(count: int, name: str) -> dict[str, Any]:
    return {"increase_machine_count": {"machine_count": count, "machines": [{"name": name}]}}


def _remove(count: int, machine: str) -> dict[str, Any]:
    return {"remove_machines": {"machine_count": count, "machines": [machine]}}


# -- answers -----------------------------------------------------------------------------------------------------------


class _NodeGroup(Part):
    uuid: Uuid
    name: Text | None = None


class _NodeGroups(Part):
    """GET cluster_manager/cluster_autoscaler/v2/tenants/{tenant}/clusters/{cluster}/nodegroups"""

    nodegroups: Annotated[Items[_NodeGroup], Field(max_length=MAX_GROUPS)]


class _GroupMembers(Part):
    """GET …/nodegroups/{group}"""

    mach_ids: Items[Uuid]


class _Machine(Part):
    uuid: Uuid
    name: Text
    status: Text
    status_reason: Text | None = None


class _Cluster(Part):
    machine: _Machine


class _Tenant(Part):
    cluster: _Cluster


class _Detail(Part):
    """GET cluster_manager/cluster_autoscaler/v3/tenants/{tenant}/clusters/{cluster}/machines/{machine}"""

    data: _Tenant


_Members = Mapping[str, str]
"""The machines of a node group: UUIDs in lower case, and as the manager writes them."""


class Cdi:
    """The machines of these node groups."""

    def __init__(self, settings: CdiSettings, outside: Outside) -> None:
        self._settings = settings
        self._session = Session(settings.fabric, Folder(settings.credentials), outside)
        self._writing = threading.Lock()
        tenant, cluster = (quote(one, safe="") for one in (settings.tenant, settings.cluster))
        self._cluster = f"tenants/{tenant}/clusters/{cluster}"

    def servers(self) -> tuple[Server, ...]:
        found: list[Server] = []
        faults: list[tuple[str, FabricError]] = []
        node_groups = self._node_groups()
        for group in self._settings.groups:
            try:
                there, strange = self._read(group, self._members(node_groups, group))
            except FabricError as fault:
                _raise_general(fault)
                faults.append((group, fault))
            else:
                found += there.values()
                faults += strange
        return tuple(provider.partly(found, faults))

    def compose(self, order: str, group: str) -> None:
        checked_order(order)
        with self._writing:
            node_groups = self._node_groups(group)
            known: set[str] = set()
            for attempt in range(ATTEMPTS):
                members = self._members(node_groups, group)
                there, strange = self._read(group, {one: members[one] for one in members.keys() - known})
                if any(one.order == order for one in there.values()):
                    return
                provider.partly((), strange)  # the order's machine may be one that could not be read
                known |= there.keys()
                body = _increase(len(members) + 1, PREFIX + order)
                if attempt + 1 < ATTEMPTS and self._resize(node_groups[group], body) == NAME_TAKEN:
                    return  # the order was accepted before
        raise _contended(f"it has no machine for order {order}", group)

    def decompose(self, server: str) -> None:
        group, name, order = parts_of(server)
        with self._writing:
            node_groups = self._node_groups(group)
            for _ in range(ATTEMPTS):
                members = self._members(node_groups, group)
                meant = members if order else {name: members[name]} if name in members else {}
                there, strange = self._read(group, meant)
                uuid, found = next(((uuid, one) for uuid, one in there.items() if order in ("", one.order)), ("", None))
                if found is None:
                    provider.partly((), strange)
                    return
                body = _remove(len(members) - 1, members[uuid])
                if found.state == "deleting" or self._resize(node_groups[group], body) == "":
                    return
        raise _contended(f"{server} was not removed", group)

    def close(self) -> None:
        self._session.close()

    # -- reading

    def _node_groups(self, needed: str = "") -> Mapping[str, str]:
        """UUIDs of the node groups by dds's groups; without those whose node group is missing, ambiguous or used by another
        group. Raises FabricRefused if `needed` is no group of the settings."""
        groups = self._settings.groups
        if needed and needed not in groups:
            raise provider.unknown_group(needed, "cdi", groups)
        path = f"{ROOT}/v2/{self._cluster}/nodegroups"
        answer, _ = self._session.get(_NodeGroups, "cm.nodegroups", path, self._settings.seconds)
        found: dict[str, str] = {}
        for group, wanted in groups.items():
            fitting = [one.uuid for one in answer.nodegroups if one.uuid.lower() == wanted.lower()]
            fitting = fitting or [one.uuid for one in answer.nodegroups if one.name == wanted]
            if len(fitting) == 1 and fitting[0] not in found.values():
                found[group] = fitting[0]
        return found

    def _members(self, node_groups: Mapping[str, str], group: str) -> _Members:
        if group not in node_groups:
            what = f"{self._settings.groups[group]!r} is not one node group of the cluster, for this group alone"
            fix = "give the node group's UUID"
            raise FabricRefused(what, code=NOT_FOUND, where=f"machines.groups.{group}", fix=fix)
        path = f"{ROOT}/v2/{self._cluster}/nodegroups/{quote(node_groups[group], safe='')}"
        answer, _ = self._session.get(_GroupMembers, "cm.nodegroup", path, self._settings.seconds)
        return {one.lower(): one for one in answer.mach_ids}

    def _read(self, group: str, members: _Members) -> tuple[dict[str, Server], list[tuple[str, FabricError]]]:
        """The readable machines, by UUID, and a fault of the group for each other one."""
        there: dict[str, Server] = {}
        strange: list[tuple[str, FabricError]] = []
        for uuid, written in members.items():
            try:
                there[uuid] = self._server(group, uuid, written)
            except FabricError as fault:
                _raise_general(fault)
                strange.append((group, fault))
        return there, strange

    def _server(self, group: str, uuid: str, written: str) -> Server:
        path = f"{ROOT}/v3/{self._cluster}/machines/{quote(written, safe='')}"
        answer, where = self._session.get(_Detail, "cm.machine", path, self._settings.seconds)
        machine = answer.data.cluster.machine
        if machine.uuid.lower() != uuid:
            raise odd(where, "data.cluster.machine.uuid", "is of another machine than the one asked for")
        state = _STATES.get(machine.status)
        if state is None:
            raise odd(where, "data.cluster.machine.status", "is no status that is known here")
        order = machine.name.removeprefix(PREFIX) if machine.name.startswith(PREFIX) else ""
        provider_id = f"{self._settings.scheme}{uuid}"
        if state != "failed":
            return Server(id_of(group, uuid), group, order, provider_id, state)
        why = machine.status_reason or ""
        code, message = machine.status, said(why)
        return Server(id_of(group, uuid), group, order, provider_id, state, code, message, why.startswith(NO_STOCK))

    # -- writing

    def _resize(self, node_group: str, body: Mapping[str, Any]) -> str:
        """ "" if it was accepted, else the code of a refusal because the name is taken or the members have changed."""
        path = f"{ROOT}/v3/{self._cluster}/nodegroups/{quote(node_group, safe='')}/actions/resize"
        try:
            self._session.post("cm.resize", path, self._settings.seconds, body)
        except FabricRefused as refused:
            if refused.reason == NO_STOCK:
                fix = "free a server of the node group, or lower the group's maximum"
                raise FabricRefused(refused.what, code=FULL, where=refused.where, fix=fix) from None
            if refused.code not in (NOT_FOUND, CONFLICT):
                raise
            return refused.reason or str(refused.code)
        return ""


def _raise_general(fault: FabricError) -> None:
    """Raise an error that the next request would meet too, after the same wait."""
    if fault.general or isinstance(fault, FabricUnreachable):
        raise fault


def _contended(what: str, group: str) -> FabricRefused:
    what = f"{what}, for other clients resize the node group"
    return FabricRefused(what, code=CONFLICT, where=f"machines.groups.{group}", fix="ask again later")
