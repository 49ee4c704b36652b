"""A fabric without a manager's API: an inventory that a person writes, in YAML.

The file is read at the start and after each change. A machine or a device with faults is left out and reported; a change with any
other fault is not used, and the content before stays in force. The file cannot know what is attached, so its counts include
attached devices (`Stock.whole`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from dds_adapters.documents import Strict, load_document, of_form, readable
from dds_adapters.fabric.fabric_settings import FABRIC_ID, checked_id
from dds_adapters.fabric.provider import FabricPartly, InventoryFault, Provider
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock, by_name

_MEND = "correct it; see docs/fabric.md"


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


FabricName = Annotated[
    str,
    BeforeValidator(_number_as_text),
    of_form(FABRIC_ID.pattern, "at most 63 small letters, digits and - (not at an end)"),
    AfterValidator(checked_id),
]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Name = Annotated[
    str,
    of_form(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", "at most 253 letters, digits and . _ : - (and begins with neither)"),
]
Number = Annotated[int, Field(ge=0, lt=1_000_000)]


class LimitEntry(Strict):
    max: Number | None = Field(default=None, description="Devices of the model on the machine at most.")
    min: Number | None = Field(default=None, description="Devices of the model that stay on the machine.")

    @model_validator(mode="after")
    def _ordered(self) -> LimitEntry:
        if self.max is not None and self.min is not None and self.min > self.max:
            raise ValueError("min is above max")
        return self


class MachineEntry(Strict):
    uuid: Name | None = Field(default=None, description="The last part of the node's provider id.")
    node: Name | None = Field(default=None, description="The node's name, instead of the UUID.")
    name: str = Field(default="", max_length=253, description="For people.")
    fabric: FabricName | None = Field(default=None, description="The fabric that reaches it; none: it is in none.")
    limits: dict[ModelName, LimitEntry] = Field(default={}, description="By cdi-model-name.")

    @model_validator(mode="after")
    def _named_once(self) -> MachineEntry:
        if (self.uuid is None) == (self.node is None):
            raise ValueError("give either uuid or node")
        return self

    @property
    def machine(self) -> Machine:
        uuid = self.uuid.lower() if self.uuid is not None else by_name(self.node or "")
        return Machine(uuid, self.name or self.node or "", self.fabric or "")


class DeviceEntry(Strict):
    id: Annotated[
        str,
        of_form(r"[!-~](?:[ -~]{0,251}[!-~])?", "1 to 253 printable ASCII characters without a space at an end"),
    ] = Field(description="The device's own name: the same for as long as it exists.")
    healthy: bool = Field(default=True, description="One that is not is not shown to the scheduler.")


class DevicesEntry(Strict):
    devices: list[DeviceEntry] = Field(description="All devices of the model in the fabric, attached or not.")

    @model_validator(mode="after")
    def _each_once(self) -> DevicesEntry:
        if len({one.id for one in self.devices}) < len(self.devices):
            raise ValueError("a device is given twice")
        return self


_HOW = COUNTED, NAMED = "(counted)", "(named)"
"""How a model's devices are given; decided first, so that a fault is about the form that was meant."""


def _how(value: Any) -> str:
    return NAMED if isinstance(value, dict | DevicesEntry) else COUNTED


Devices = Annotated[Annotated[Number, Tag(COUNTED)] | Annotated[DevicesEntry, Tag(NAMED)], Discriminator(_how)]


class InventoryFile(Strict):
    machines: list[MachineEntry] = Field(default=[], description="The servers.")
    fabrics: dict[FabricName, dict[ModelName, Devices]] = Field(
        default={}, description="Per fabric and cdi-model-name the devices: how many there are, or which."
    )

    @model_validator(mode="after")
    def _consistent(self) -> InventoryFile:
        seen: set[str] = set()
        for position, entry in enumerate(self.machines):
            if entry.machine.uuid in seen:
                raise ValueError(f"machines.{position}: the machine is given twice")
            seen.add(entry.machine.uuid)
            if entry.fabric is not None and entry.fabric not in self.fabrics:
                raise ValueError(f"machines.{position}.fabric: fabrics has no such entry")
        return self


class FileProvider(Provider):
    """Answers from an inventory. Raises InventoryFault if it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._mark = _mark(path)
        self._take(*readable_inventory(path))
        self._fault: InventoryFault | None = None

    def machines(self) -> Sequence[Machine]:
        """Checks whether the file changed; raises InventoryFault in every round while it has faults."""
        with self._lock:
            self._refresh()
            if self._fault is not None:
                raise self._fault.with_traceback(None)
            machines = tuple(entry.machine for entry in self._inventory.machines)
            if self._odd:
                raise self._partly(machines)
            return machines

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        found = self._inventory.fabrics.get(machine.fabric, {}).get(model.model, 0)
        if isinstance(found, int):
            return Stock(machine.fabric, model.model, found, whole=True)
        devices = tuple(sorted((FreeDevice(one.id, one.healthy) for one in found.devices), key=lambda one: one.id))
        return Stock(machine.fabric, model.model, sum(one.healthy for one in devices), devices, whole=True)

    @property
    def models(self) -> frozenset[str]:
        """All models that the inventory counts, by cdi-model-name."""
        return frozenset(model for fabric in self._inventory.fabrics.values() for model in fabric)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        limits = self._limits.get(machine.uuid, {})
        if self._odd and machine.uuid not in self._limits:
            raise self._partly(())  # none would lift the limits of a machine that is left out
        return {model.model: limits[model.model] for model in models if model.model in limits}

    def close(self) -> None: ...

    def _take(self, inventory: InventoryFile, odd: str) -> None:
        self._inventory, self._odd = inventory, odd
        self._limits = {
            entry.machine.uuid: {model: Limit(one.max, one.min) for model, one in entry.limits.items()}
            for entry in inventory.machines
        }

    def _partly(self, machines: Sequence[Machine]) -> FabricPartly:
        fix = f"such an entry is left out, and no machine counts as gone; {_MEND}"
        partly = FabricPartly(self._odd, machines=machines, where=f"inventory {self._path}", fix=fix)
        partly.lasting = True
        return partly

    def _refresh(self) -> None:
        mark = _mark(self._path)
        if mark == self._mark:
            return
        try:
            self._take(*readable_inventory(self._path))
            self._fault = None
        except InventoryFault as fault:
            self._fault = fault
        self._mark = mark


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def readable_inventory(path: Path) -> tuple[InventoryFile, str]:
    """The inventory without the entries that have faults, and one line about those (five at most; "": none). Raises
    InventoryFault for any other fault."""
    where = f"inventory {path}"
    found = load_document(path, InventoryFault, where, _MEND, empty="write machines: [] if there is none")
    return readable(found, InventoryFile, InventoryFault, where, _MEND, hidden=_HOW)
