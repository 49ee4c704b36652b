"""What the operator asks the fabric's manager, through its interface FM or CM, and the texts of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dds_lab.actors.fabric import LOST, Answer, Attached, Fabric
from dds_lab.actors.objects import said
from dds_lab.actors.operator.view import OperatorView
from dds_lab.client import Object

MACHINES = "https://cdi.example.com/fabric_manager/api/v1/machines"
CODE = "E02XXXX"
WAITS = Answer()
"""This very answer, to an order that is under way."""

Done = Callable[[Answer], None]


class Orders(Protocol):
    """`attach` gives the device, `detach` an answer without error when the device is gone; WAITS if that takes longer."""

    def attach(self, resource: Object, done: Done) -> None: ...

    def detach(self, resource: Object, done: Done) -> None: ...


def check(fabric: Fabric, resource: Object, api: str) -> str:
    """The manager's error for a device that is Online, "" for none."""
    spec, device = resource["spec"], said(resource, "device_id")
    if fabric.faults.take("check", spec["target_node"], spec["model"]) is not None:
        return f'Get "{MACHINES}/{_machine(fabric, resource)}": EOF'
    if _listed(fabric, resource) is None:
        return f"the target device '{device}' cannot be found in CDI system"
    if fabric.broken(device):
        return f"the target gpu '{device}' is showing a Critical status in {api.upper()}"
    return f"the target gpu '{device}' is showing a Warning status in {api.upper()}" if fabric.warned(device) else ""


class FabricOrders:
    """FM: an order is answered when the fabric is done."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def attach(self, resource: Object, done: Done) -> None:
        def come(answer: Answer) -> None:
            critical = answer.device is not None and self._fabric.broken(answer.device.serial)
            name = resource["metadata"]["name"]
            done(
                Answer(error=f"the FM attached device called by {name} is in Critical state in FM")
                if critical
                else self._worded(answer, resource, "Patch", "scaleup")
            )

        self._fabric.attach(resource["spec"]["target_node"], resource["spec"]["model"], come)

    def detach(self, resource: Object, done: Done) -> None:
        found = _listed(self._fabric, resource)
        if found is None:
            done(Answer())
            return
        self._fabric.detach(
            resource["spec"]["target_node"],
            found.device.resource,
            lambda answer: done(self._worded(answer, resource, "Delete", "scaledown")),
        )

    def _worded(self, answer: Answer, resource: Object, verb: str, what: str) -> Answer:
        """The answer with the operator's text for its error."""
        if not answer.error:
            return answer
        if answer.lost:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            why = why if answer.error == LOST else "EOF"
            return Answer(error=f'{verb} "{MACHINES}/{_machine(self._fabric, resource)}/update": {why}')
        returned = f"code: '{CODE}', error message: '{answer.error}'"
        return Answer(error=f"failed to process FM {what} request. FM returned {returned}")


class ClusterOrders:
    """CM: an order gives the wanted number of devices in a machine, and is accepted at once. A device that no resource names is
    taken. A refused attach leaves no trace and is ordered again at the next look; a refused detach is told there."""

    def __init__(self, fabric: Fabric, view: OperatorView) -> None:
        self._fabric = fabric
        self._view = view
        self._leaving: set[str] = set()  # serials whose detach is under way
        self._stuck: dict[str, str] = {}  # serial → error of its detach

    def attach(self, resource: Object, done: Done) -> None:
        node, model = resource["spec"]["target_node"], resource["spec"]["model"]
        there = [one.device for one in _plugged(self._fabric, node) if one.device.model == model]
        free = next((one for one in there if not self._view.holding(one.serial)), None)
        if free is None and not self._fabric.ordered(node, model):  # the wanted number is one more than there are
            self._fabric.attach(node, model, lambda answer: None)
        done(WAITS if free is None else Answer(free))

    def detach(self, resource: Object, done: Done) -> None:
        found = _listed(self._fabric, resource)
        if found is None:
            done(Answer())
            return
        serial = found.device.serial

        def gone(answer: Answer) -> None:
            self._leaving.discard(serial)
            if answer.error and not answer.lost:
                self._stuck[serial] = answer.error

        if serial not in self._leaving:
            self._leaving.add(serial)
            self._fabric.detach(resource["spec"]["target_node"], found.device.resource, gone)
        words = self._stuck.pop(serial, "")
        done(Answer(error=words) if words else WAITS)


def _machine(fabric: Fabric, resource: Object) -> str:
    machine = fabric.machine(resource["spec"]["target_node"])
    return machine.uuid if machine is not None else ""


def _plugged(fabric: Fabric, node: str) -> list[Attached]:
    """The devices that the manager lists for a node's machine."""
    return [one for one in fabric.plugged(node) if not one.fixed]


def _listed(fabric: Fabric, resource: Object) -> Attached | None:
    """The resource's device in the manager's list, None if it is not there."""
    found = fabric.plugged_as(resource["spec"]["target_node"], said(resource, "device_id"))
    return found if found is not None and not found.fixed else None
