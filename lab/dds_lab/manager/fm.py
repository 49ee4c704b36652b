"""The fabric manager's API (FM): machines with their devices, numbers of free devices, attach and detach.

It is synchronous: an attach is answered when the fabric is done. It has no limits of machines.
"""

from __future__ import annotations

import json
from typing import Any

from dds_lab.actors.fabric import LOST, Answer, Attached, Device, Machine
from dds_lab.manager.calls import CUT, Call, Done, Later, Refused, Reply, Route, at, error, route, text_at, told
from dds_lab.manager.inventory import RUNNING, Inventory, condition, fabric_id, fabric_uuid, model_of

BASE = "/fabric_manager/api/v1/machines"
MOST_AT_ONCE = 64


class FabricManager:
    """Answers the calls of FM."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.routes: tuple[Route, ...] = (
            route("machines", "GET", BASE, self._machines),
            route("machine", "GET", BASE + "/{machine}", self._machine),
            route("available", "GET", BASE + "/{machine}/available-reserved-resources", self._available),
            route("attach", "PATCH", BASE + "/{machine}/update", self._attach),
            route("detach", "DELETE", BASE + "/{machine}/update", self._detach),
        )

    # -- queries

    def _machines(self, call: Call, parts: dict[str, str]) -> Reply:
        self._inventory.tenant(call.query.get("tenant_uuid"))
        return told(200, {"data": {"machines": [self._listed(one) for one in self._inventory.fabric.machines()]}})

    def _machine(self, call: Call, parts: dict[str, str]) -> Reply:
        self._inventory.tenant(call.query.get("tenant_uuid"))
        machine = self._inventory.machine(parts["machine"])
        plugged = self._inventory.devices(machine)
        return told(200, {"data": {"machines": [self._detailed(machine, plugged)]}})

    def _available(self, call: Call, parts: dict[str, str]) -> Reply:
        self._inventory.tenant(call.query.get("tenant_uuid"))
        machine = self._inventory.machine(parts["machine"])
        if not machine.fabric:
            raise Refused(400, "E020400", f"the machine {machine.uuid} is in no fabric")
        if not call.query.get("res_type"):
            raise Refused(400, "E010400", "res_type is missing")
        try:
            model = model_of(json.loads(call.query.get("condition", "")))
        except (ValueError, RecursionError):
            raise Refused(400, "E010400", "condition is no JSON") from None
        free = self._inventory.free(machine, model, call.query["res_type"])
        return told(200, {"fabric_id": fabric_id(machine.fabric), "reserved_res_num_per_fabric": free})

    # -- attach and detach

    def _attach(self, call: Call, parts: dict[str, str]) -> Later:
        machine, spec = self._ordered(call, parts)
        model = model_of(at(spec, "res_spec", "condition", 0))
        number = at(spec, "res_num")
        if type(number) is not int or not 1 <= number <= MOST_AT_ONCE:
            raise Refused(400, "E010400", f"res_num must be a number from 1 to {MOST_AT_ONCE}")
        if at(spec, "res_type") != self._inventory.type_of(model):
            raise Refused(404, "E020404", f"there is no resource of this type and model {model}")
        self._inventory.fits_quota(model, number)

        def begin(done: Done) -> None:
            answers: list[Answer] = []

            def one_more(answer: Answer) -> None:
                answers.append(answer)
                if len(answers) == number:
                    done(self._attached(machine, answers))

            for _ in range(number):
                self._inventory.fabric.attach(machine.node, model, one_more)

        return begin

    def _attached(self, machine: Machine, answers: list[Answer]) -> Reply:
        if (words := _words(answers)) is not None:
            return words
        serials = {one.device.serial for one in answers if one.device is not None}
        came = [one for one in self._inventory.devices(machine) if one.device.serial in serials]
        return told(200, {"data": {"machines": [self._detailed(machine, came)]}})

    def _detach(self, call: Call, parts: dict[str, str]) -> Later:
        machine, spec = self._ordered(call, parts)
        resource = text_at(spec, "res_uuid")
        there = {one.device.resource: one.device.model for one in self._inventory.devices(machine)}
        if resource not in there or at(spec, "res_type") != self._inventory.type_of(there[resource]):
            raise Refused(404, "E020404", f"the machine {machine.uuid} has no such resource")

        def begin(done: Done) -> None:
            def answered(answer: Answer) -> None:
                words = _words([answer])
                done(Reply(204) if words is None else words)

            self._inventory.fabric.detach(machine.node, resource, answered)

        return begin

    def _ordered(self, call: Call, parts: dict[str, str]) -> tuple[Machine, Any]:
        """The machine and the single res_spec of an update. Raises Refused."""
        self._inventory.tenant(call.query.get("tenant_uuid"))
        tenants = at(call.json(), "tenants")
        self._inventory.tenant(at(tenants, "tenant_uuid"))
        ordered = at(tenants, "machines", 0)
        machine = self._inventory.machine(parts["machine"])
        if at(ordered, "mach_uuid") != machine.uuid:
            raise Refused(400, "E010400", "mach_uuid of path and body differ")
        return machine, at(ordered, "resources", 0, "res_specs", 0)

    # -- forms

    def _listed(self, machine: Machine) -> dict[str, Any]:
        plugged = self._inventory.devices(machine)
        return {
            **self._named(machine),
            "mach_owner": self._inventory.settings.tenant,
            "resources": [self._short(machine, one) for one in plugged],
        }

    def _detailed(self, machine: Machine, plugged: list[Attached] | tuple[Attached, ...]) -> dict[str, Any]:
        return {
            **self._named(machine),
            "tenant_uuid": self._inventory.settings.tenant,
            "mach_status": RUNNING,
            "mach_status_detail": "",
            "resources": [self._resource(machine, one) for one in plugged],
        }

    def _named(self, machine: Machine) -> dict[str, Any]:
        return {
            "fabric_uuid": fabric_uuid(machine.fabric),
            "fabric_id": fabric_id(machine.fabric),
            "mach_uuid": machine.uuid,
            "mach_id": self._inventory.number(machine),
            "mach_name": machine.node,
        }

    def _short(self, machine: Machine, one: Attached) -> dict[str, Any]:
        return {
            "res_uuid": one.device.resource,
            "res_name": self._inventory.named(machine, one),
            "res_type": self._inventory.type_of(one.device.model),
            "res_status": RUNNING,
            "res_op_status": self._inventory.op_status(one.device),
        }

    def _resource(self, machine: Machine, one: Attached) -> dict[str, Any]:
        return {
            **self._short(machine, one),
            "res_serial_num": one.device.serial,
            "res_spec": {"condition": [condition(one.device.model)]},
        }

    def example(self, name: str) -> Any:
        """An invented resource in the form of a call's list, for the fault `huge`."""
        device = Attached(Device("GPU-0", "0", "A100 40G", "1"), 0, 0)
        machine = Machine("0", "nowhere", "1")
        return self._short(machine, device) if name == "machines" else self._resource(machine, device)


def _words(answers: list[Answer]) -> Reply | None:
    """The reply for the first failed order; None if all succeeded."""
    for one in answers:
        if one.error == LOST:
            return CUT
        if one.error:
            return error(Refused(500, "E02XXXX", one.error))
    return None
