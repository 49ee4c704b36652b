"""CDIM's API: nodes, resources, and layouts that are applied one at a time.

It has no token and no TLS. Devices have their own ids, also free ones; GPU UUIDs are not shown. All pools are in one layout: the
API does not say in which fabric a device is, and a connection that the cables do not allow fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dds_lab.actors.fabric import Answer, Device, Machine
from dds_lab.manager.calls import Call, Refused, Reply, Route, at, route, text_at, told
from dds_lab.manager.inventory import Inventory, made_up
from dds_lab.time import Time

BASE = "/cdim/api/v1"
HOST, IO = "sourceFabricAdapter", "destinationFabricAdapter"
_STATUS = {HOST: "eesv", IO: "eeio"}
_TYPES = {"gpu": "GPU", "nic": "networkInterface", "cxlmemory": "memory"}
_OPPOSITE = {"connect": "disconnect", "disconnect": "connect"}


@dataclass(frozen=True)
class Procedure:
    """One move of a layout."""

    operation: str
    machine: Machine
    device: Device


@dataclass
class Apply:
    """A layout that is or was applied; `left` are the moves to come, `made` the completed ones."""

    id: str
    left: list[Procedure]
    made: list[Procedure] = field(default_factory=list)
    status: str = "IN_PROGRESS"
    rollback: str = ""

    @property
    def running(self) -> bool:
        return "IN_PROGRESS" in (self.status, self.rollback)


class Cdim:
    """Answers the calls of CDIM."""

    def __init__(self, inventory: Inventory, time: Time) -> None:
        self._inventory = inventory
        self._random: Random = time.random("manager/applies")
        self._applies: dict[str, Apply] = {}
        self.routes: tuple[Route, ...] = (
            route("nodes", "GET", BASE + "/nodes", self._nodes, free=True),
            route("resources", "GET", BASE + "/resources", self._resources, free=True),
            route("resource", "GET", BASE + "/resources/{device}", self._resource, free=True),
            route("apply", "POST", BASE + "/layout-apply", self._apply, free=True),
            route("applied", "GET", BASE + "/layout-apply/{apply}", self._applied, free=True),
        )

    # -- queries

    def _nodes(self, call: Call, parts: dict[str, str]) -> Reply:
        nodes = [self._node(one, call) for one in self._inventory.fabric.machines()]
        return told(200, {"count": len(nodes), "nodes": nodes})

    def _resources(self, call: Call, parts: dict[str, str]) -> Reply:
        found = [_brief(one, call) for one in self._all()]
        return told(200, {"count": len(found), "resources": found})

    def _resource(self, call: Call, parts: dict[str, str]) -> Reply:
        for one in self._all():
            if one["device"]["deviceID"] == parts["device"]:
                return told(200, one)
        raise Refused(404, "E40404", f"there is no resource {parts['device']}")

    def _all(self) -> Iterator[dict[str, Any]]:
        fabric = self._inventory.fabric
        for machine in fabric.machines():
            yield from self._in(machine)
        for device, node in fabric.coming():  # listed at the node as soon as it is ordered
            yield self._device(device, fabric.machine(node))
        for pool in fabric.pools():
            yield from (self._device(one) for one in fabric.pool(*pool))
        yield from (self._device(one) for one in fabric.out())

    def _in(self, machine: Machine) -> Iterator[dict[str, Any]]:
        """The resources of a node: both ends of its cable, and its devices."""
        if machine.fabric:
            yield _adapter(HOST, machine, self._id(machine), [_link(IO, _end(IO, machine))])
            yield _adapter(IO, machine, self._id(machine), [_link(HOST, _end(HOST, machine))])
        for one in self._inventory.devices(machine):
            yield self._device(one.device, machine)

    # -- layouts

    def _apply(self, call: Call, parts: dict[str, str]) -> Reply:
        procedures = at(call.json(), "procedures")
        if not isinstance(procedures, list) or not procedures:
            raise Refused(400, "E40001", "procedures are missing")
        if any(one.running for one in self._applies.values()):
            raise Refused(409, "E40010", "Already running. Cannot start multiple instances.")
        made = Apply(f"{self._random.getrandbits(40):010x}", [self._procedure(one) for one in procedures])
        self._applies[made.id] = made
        self._next(made)
        return told(202, {"applyID": made.id})

    def _applied(self, call: Call, parts: dict[str, str]) -> Reply:
        found = self._applies.get(parts["apply"])
        if found is None:
            raise Refused(404, "E40404", f"there is no layout apply {parts['apply']}")
        rollback = {"rollbackStatus": found.rollback} if found.rollback else {}
        return told(200, {"applyID": found.id, "status": found.status, **rollback})

    def _procedure(self, written: Any) -> Procedure:
        operation, source = text_at(written, "operation"), text_at(written, "sourceDeviceID")
        for needed in ("operationID", "dependencies"):
            at(written, needed)
        if operation not in _OPPOSITE:
            raise Refused(400, "E40001", "operation must be connect or disconnect")
        machines = {_end(IO, one): one for one in self._inventory.fabric.machines() if one.fabric}
        device = self._found(text_at(written, "destinationDeviceID"))
        if source not in machines or device is None:
            raise Refused(400, "E40001", "sourceDeviceID or destinationDeviceID is not known")
        return Procedure(operation, machines[source], device)

    def _found(self, id: str) -> Device | None:
        fabric = self._inventory.fabric
        pooled = (one for pool in fabric.pools() for one in fabric.pool(*pool))
        plugged = (one.device for machine in fabric.machines() for one in self._inventory.devices(machine))
        coming = (device for device, _ in fabric.coming())
        everywhere = (pooled, plugged, coming, fabric.out())
        return next((one for devices in everywhere for one in devices if one.resource == id), None)

    def _next(self, apply: Apply) -> None:
        """Start the next move; complete the layout if there is none."""
        if not apply.left:
            apply.status = "COMPLETED"
            return
        move = apply.left.pop(0)

        def moved(answer: Answer) -> None:
            if answer.error:
                apply.status = "FAILED"
                self._undo(apply)
            else:
                apply.made.append(move)
                self._next(apply)

        self._move(move, move.operation, moved)

    def _undo(self, apply: Apply) -> None:
        """Undo the completed moves, the last one first."""
        if not apply.made:
            apply.rollback = "COMPLETED"
            return
        apply.rollback = "IN_PROGRESS"
        move = apply.made.pop()

        def undone(answer: Answer) -> None:
            if answer.error:
                apply.rollback = "FAILED"
            else:
                self._undo(apply)

        self._move(move, _OPPOSITE[move.operation], undone)

    def _move(self, move: Procedure, operation: str, done: Callable[[Answer], None]) -> None:
        fabric = self._inventory.fabric
        if operation == "connect":
            fabric.attach(move.machine.node, move.device.model, done, move.device.resource)
        else:
            fabric.detach(move.machine.node, move.device.resource, done)

    # -- forms

    def _id(self, machine: Machine) -> str:
        return f"{self._inventory.settings.scheme}{machine.uuid.upper()}"

    def _node(self, machine: Machine, call: Call) -> dict[str, Any]:
        resources = [_brief(one, call) for one in self._in(machine)]
        for one in resources:
            one.pop("nodeIDs", None)
        return {"id": self._id(machine), "name": machine.node, "resources": resources}

    def _device(self, device: Device, machine: Machine | None = None) -> dict[str, Any]:
        type = self._inventory.type_of(device.model)
        links = [_link(IO, _end(IO, machine)), _link("eeio", _end(IO, machine))] if machine is not None else []
        found = _form(device.resource, _TYPES.get(type, type), device.model, {}, links)
        if self._inventory.fabric.broken(device.serial):
            found["status"]["health"] = "Critical"
        return {"device": found, "detected": True, "nodeIDs": [self._id(machine)] if machine is not None else []}

    def example(self, name: str) -> Any:
        """An invented free device, for the fault `huge`."""
        return {"device": _form("0", "GPU", "A100 40G", {}, []), "detected": True, "nodeIDs": []}


def refusal(refused: Refused) -> Reply:
    """The error body of CDIM: {code, message}."""
    return told(refused.status, {"code": refused.code, "message": refused.message})


def _adapter(type: str, machine: Machine, node: str, links: list[dict[str, str]]) -> dict[str, Any]:
    """One end of a machine's cable: on the host's side, or on the side of the devices."""
    attribute = {"deviceSpecificInformation": {"status": _STATUS[type]}}
    device = _form(_end(type, machine), type, "lab fabric adapter", attribute, links)
    return {"device": device, "detected": True, "nodeIDs": [node]}


def _form(id: str, type: str, model: str, attribute: dict[str, Any], links: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "deviceID": id,
        "type": type,
        "model": model,
        "attribute": attribute,
        "status": {"state": "Enabled", "health": "OK"},
        "powerState": "On",
        "links": links,
    }


def _brief(resource: dict[str, Any], call: Call) -> dict[str, Any]:
    """A resource in a list: complete with detail=true, else only id and type."""
    if call.query.get("detail") == "true":
        return resource
    return {"device": {key: resource["device"][key] for key in ("deviceID", "type")}, "detected": resource["detected"]}


def _end(type: str, machine: Machine) -> str:
    return made_up("adapter", type, machine.uuid)


def _link(type: str, id: str) -> dict[str, str]:
    return {"type": type, "deviceID": id}
