"""The cluster manager's API (CM): device specs of a machine with their limits, resizes, and node groups with their servers.

It is asynchronous: a resize is accepted at once, and the machine's detail shows the outcome when the fabric is done. A resize
gives the wanted number of devices, so repeating it orders nothing twice. The resize of a node group is not documented; here it
works as for devices, as `dds_adapters.machines.cdi` assumes.
"""

from __future__ import annotations

from typing import Any

from dds_lab.actors.fabric import Answer, Attached, Device, Machine
from dds_lab.manager.calls import Call, Refused, Reply, Route, at, route, text_at, told
from dds_lab.manager.inventory import RUNNING, Inventory, NodeGroup, condition, fabric_id, fabric_uuid, made_up
from dds_lab.manager.servers import NO_STOCK, NoStock, Servers

CLUSTER = "/cluster_manager/cluster_autoscaler/{version}/tenants/{tenant}/clusters/{cluster}"
MACHINE = CLUSTER.replace("{version}", "v3") + "/machines/{machine}"
GROUPS = CLUSTER.replace("{version}", "v2") + "/nodegroups"
GROUP_RESIZE = CLUSTER.replace("{version}", "v3") + "/nodegroups/{group}/actions/resize"
ALL = "workers"
NAME_TAKEN = "E020508"
_Spec = tuple[str, str]
"""A machine's UUID and a model."""


class ClusterManager:
    """Answers the calls of CM."""

    def __init__(self, inventory: Inventory, servers: Servers) -> None:
        self._inventory = inventory
        self._servers = servers
        self._coming: dict[_Spec, int] = {}
        self._failed: dict[_Spec, list[str]] = {}  # errors of attaches since the last resize
        self._stuck: dict[str, str] = {}  # serial → error of its detach
        self.routes: tuple[Route, ...] = (
            route("node", "GET", MACHINE, self._machine),
            route("resize", "POST", MACHINE + "/actions/resize", self._resize),
            route("nodegroups", "GET", GROUPS, self._groups),
            route("nodegroup", "GET", GROUPS + "/{group}", self._group),
            route("resize_group", "POST", GROUP_RESIZE, self._resize_group),
        )

    # -- queries

    def _machine(self, call: Call, parts: dict[str, str]) -> Reply:
        self._cluster(parts)
        composed = self._servers.find(parts["machine"])
        machine = Machine(composed.uuid, composed.name, "") if composed is not None else self._addressed(parts)
        machine = self._inventory.fabric.machine_of(machine.uuid) or machine
        settings = self._inventory.settings
        detail = {
            "uuid": machine.uuid,
            "name": machine.node,
            "status": composed.status if composed is not None else "ACTIVE",
            "status_reason": composed.reason if composed is not None else "",
            "resspecs": [self._spec(machine, model) for model in self._inventory.models(machine)],
        }
        cluster = {"cluster_uuid": settings.cluster, "machine": detail}
        return told(200, {"data": {"tenant_uuid": settings.tenant, "cluster": cluster}})

    def _groups(self, call: Call, parts: dict[str, str]) -> Reply:
        self._cluster(parts)
        return told(200, {"nodegroups": [{"uuid": _uuid(one), "name": one.name} for one in self._all_groups()]})

    def _group(self, call: Call, parts: dict[str, str]) -> Reply:
        one = self._named_group(parts)
        return told(200, {"uuid": _uuid(one), "name": one.name, "mach_ids": list(self._members(one))})

    def _named_group(self, parts: dict[str, str]) -> NodeGroup:
        self._cluster(parts)
        for one in self._all_groups():
            if _uuid(one) == parts["group"]:
                return one
        raise Refused(404, "E010404", f"there is no node group {parts['group']}")

    def _members(self, group: NodeGroup) -> dict[str, Machine]:
        """The group's machines by UUID, including those that are being composed."""
        there = [found for node in group.nodes if (found := self._inventory.fabric.machine(node))]
        coming = [Machine(one.uuid, one.name, "") for one in self._servers.of(group.name)]
        return {one.uuid: one for one in (*there, *coming)}

    def _all_groups(self) -> tuple[NodeGroup, ...]:
        everything = NodeGroup(ALL, tuple(one.node for one in self._inventory.fabric.machines()))
        groups = self._inventory.settings.groups or (everything,)
        names = {one.name for one in groups}
        return (*groups, *(NodeGroup(name, ()) for name in self._servers.groups() if name not in names))

    # -- resizes

    def _resize(self, call: Call, parts: dict[str, str]) -> Reply:
        machine, body = self._addressed(parts), call.json()
        if isinstance(body, dict) and "remove_resources" in body:
            self._shrink(machine, at(body, "remove_resources"))
        else:
            self._grow(machine, at(body, "increase_resource_count"))
        return told(202, {})

    def _grow(self, machine: Machine, order: Any) -> None:
        model, count = self._model(machine, order), _count(order)
        _, most = self._inventory.limits(machine, model)
        if most is not None and count > most:
            raise Refused(400, "E020400", f"at most {most} devices of model {model} may be in {machine.uuid}")
        spec = machine.uuid, model
        more = count - len(self._of(machine, model)) - self._coming.get(spec, 0)
        self._inventory.fits_quota(model, max(0, more))
        self._failed.pop(spec, None)

        def came(answer: Answer) -> None:
            self._coming[spec] -= 1
            if answer.error:
                self._failed.setdefault(spec, []).append(answer.error)

        for _ in range(more):
            self._coming[spec] = self._coming.get(spec, 0) + 1
            self._inventory.fabric.attach(machine.node, model, came)

    def _shrink(self, machine: Machine, order: Any) -> None:
        model, count, named = self._model(machine, order), _count(order), at(order, "devices")
        there = {one.device.serial: one for one in self._of(machine, model)}
        if not isinstance(named, list) or not named or not all(isinstance(one, str) and one in there for one in named):
            raise Refused(404, "E020404", f"the machine {machine.uuid} has no such devices")
        if count != len(there) - len(set(named)):
            raise Refused(409, "E020409", f"device_count is {count}, but {len(there)} devices are there")
        least, _ = self._inventory.limits(machine, model)
        if least is not None and count < least:
            raise Refused(400, "E020400", f"at least {least} devices of model {model} must be in {machine.uuid}")
        for serial in dict.fromkeys(named):
            self._remove(machine, there[serial].device)

    def _resize_group(self, call: Call, parts: dict[str, str]) -> Reply:
        group, body = self._named_group(parts), call.json()
        if isinstance(body, dict) and "remove_machines" in body:
            self._shrink_group(group, at(body, "remove_machines"))
        else:
            self._grow_group(group, at(body, "increase_machine_count"))
        return told(202, {})

    def _grow_group(self, group: NodeGroup, order: Any) -> None:
        count, name = _count(order, "machine_count"), text_at(order, "machines", 0, "name")
        there = len(self._members(group))
        if count <= there:
            return
        if count > there + 1:
            raise Refused(409, "E020409", f"machine_count is {count}, but {there} machines are there")
        if self._servers.was_named(name):
            raise Refused(409, NAME_TAKEN, f"a machine was named {name} before")
        try:
            self._servers.compose(group.name, name)
        except NoStock:
            raise Refused(409, NO_STOCK, f"no server of group {group.name} is left") from None

    def _shrink_group(self, group: NodeGroup, order: Any) -> None:
        members, uuid = self._members(group), text_at(order, "machines", 0)
        if uuid not in members:
            raise Refused(404, "E020404", f"the node group has no machine {uuid}")
        if _count(order, "machine_count") != len(members) - 1:
            raise Refused(409, "E020409", f"machine_count must be {len(members) - 1}")
        self._servers.remove(members[uuid], group.name)

    def _remove(self, machine: Machine, device: Device) -> None:
        def gone(answer: Answer) -> None:
            if answer.error:
                self._stuck[device.serial] = answer.error

        self._stuck.pop(device.serial, None)
        self._inventory.fabric.detach(machine.node, device.resource, gone)

    # -- parameters

    def _cluster(self, parts: dict[str, str]) -> None:
        self._inventory.tenant(parts["tenant"])
        if parts["cluster"] != self._inventory.settings.cluster:
            raise Refused(404, "E010404", "there is no such cluster")

    def _addressed(self, parts: dict[str, str]) -> Machine:
        self._cluster(parts)
        return self._inventory.machine(parts["machine"])

    def _model(self, machine: Machine, order: Any) -> str:
        wanted = text_at(order, "spec_uuid")
        for model in self._inventory.models(machine):
            if _spec_uuid(machine, model) == wanted:
                return model
        raise Refused(404, "E020404", f"the machine {machine.uuid} has no such spec")

    def _of(self, machine: Machine, model: str) -> list[Attached]:
        return [one for one in self._inventory.devices(machine) if one.device.model == model]

    # -- forms

    def _spec(self, machine: Machine, model: str) -> dict[str, Any]:
        least, most = self._inventory.limits(machine, model)
        there = self._of(machine, model)
        failed = self._failed.get((machine.uuid, model), ())
        return {
            "spec_uuid": _spec_uuid(machine, model),
            "type": self._inventory.type_of(model),
            "selector": {"version": "v1", "expression": {"conditions": [condition(model)]}},
            "min_resspec_count": least,
            "max_resspec_count": most,
            "device_count": len(there),
            "devices": [self._device(machine, one) for one in there]
            + [{"device_id": "", "status": "ADD_FAILED", "status_reason": words, "detail": {}} for words in failed],
        }

    def _device(self, machine: Machine, one: Attached) -> dict[str, Any]:
        stuck = self._stuck.get(one.device.serial, "")
        return {
            "device_id": one.device.serial,
            "status": "REMOVE_FAILED" if stuck else "ADD_COMPLETE",
            "status_reason": stuck,
            "detail": self._detail(machine, one),
        }

    def _detail(self, machine: Machine, one: Attached) -> dict[str, Any]:
        model = one.device.model
        return {
            "fabric_uuid": fabric_uuid(machine.fabric),
            "fabric_id": fabric_id(machine.fabric),
            "res_uuid": one.device.resource,
            "fabr_gid": f"{machine.fabric}-{one.minor}",
            "res_type": self._inventory.type_of(model),
            "res_name": self._inventory.named(machine, one),
            "res_status": RUNNING,
            "res_op_status": self._inventory.op_status(one.device),
            "resspecs": [
                {
                    "resspec_uuid": _spec_uuid(machine, model),
                    "productname": self._inventory.settings.products.get(model, model),
                    "model": model,
                    "vendor": "lab",
                    "removable": True,
                }
            ],
            "tenant_uuid": self._inventory.settings.tenant,
            "mach_uuid": machine.uuid,
        }

    def example(self, name: str) -> Any:
        """An invented entry in the form of a call's list, for the fault `huge`."""
        if name == "nodegroup":
            return "0"
        if name == "nodegroups":
            return {"uuid": "0", "name": "nowhere"}
        device = Attached(Device("GPU-0", "0", "A100 40G", "1"), 0, 0)
        return self._device(Machine("0", "nowhere", "1"), device)


def _uuid(group: NodeGroup) -> str:
    return made_up("nodegroup", group.name)


def _spec_uuid(machine: Machine, model: str) -> str:
    return made_up("spec", machine.uuid, model)


def _count(order: Any, of: str = "device_count") -> int:
    count = at(order, of)
    if type(count) is not int or count < 0:
        raise Refused(400, "E010400", f"{of} must be a whole number from 0 on")
    return count
