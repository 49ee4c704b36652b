"""A fabric without a manager's API: an inventory that a person writes, in YAML.

It is read when it is opened and again when it has changed. A change that has faults is told and not taken: what was read last
goes on. The file cannot know what is attached, so that its counts are of all devices there are (`Stock.whole`).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    model_validator,
)

from dds_adapters.fabric.provider import InventoryFault
from dds_adapters.fabric.settings import FABRIC_ID, checked_id
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock, by_name

if TYPE_CHECKING or not hasattr(yaml, "CSafeLoader"):
    from yaml import SafeLoader as _Safe
else:
    from yaml import CSafeLoader as _Safe  # ten times as fast

LARGEST = 8 * 1024 * 1024
"""Bytes of an inventory."""
MAX_DEPTH = 16
MAX_FAULTS = 5
"""Faults that are told at once."""
_MEND = "correct it; see docs/fabric.md"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _of_form(pattern: str, form: str) -> AfterValidator:
    """A text of this form, told in words: nobody reads a pattern at night."""
    form_of = re.compile(pattern)

    def check(text: str) -> str:
        if not form_of.fullmatch(text):
            raise ValueError(f"is not {form}")
        return text

    return AfterValidator(check)


FabricName = Annotated[
    str,
    BeforeValidator(_number_as_text),
    _of_form(FABRIC_ID.pattern, "at most 63 small letters, digits and - (not at an end)"),
    AfterValidator(checked_id),
]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Name = Annotated[
    str,
    _of_form(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", "at most 253 letters, digits and . _ : - (and begins with neither)"),
]
Number = Annotated[int, Field(ge=0, lt=1_000_000)]


class LimitEntry(_Strict):
    max: Number | None = Field(default=None, description="Devices of the model on the machine at most.")
    min: Number | None = Field(default=None, description="Devices of the model that stay on the machine.")

    @model_validator(mode="after")
    def _ordered(self) -> LimitEntry:
        if self.max is not None and self.min is not None and self.min > self.max:
            raise ValueError("min is above max")
        return self


class MachineEntry(_Strict):
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


class DeviceEntry(_Strict):
    id: Annotated[
        str,
        _of_form(r"[!-~](?:[ -~]{0,251}[!-~])?", "1 to 253 printable ASCII characters without a space at an end"),
    ] = Field(description="The device's own name: the same for as long as it exists.")
    healthy: bool = Field(default=True, description="One that is not is not shown to the scheduler.")


class DevicesEntry(_Strict):
    devices: list[DeviceEntry] = Field(description="All devices of the model in the fabric, attached or not.")

    @model_validator(mode="after")
    def _each_once(self) -> DevicesEntry:
        if len({one.id for one in self.devices}) < len(self.devices):
            raise ValueError("a device is given twice")
        return self


COUNTED, NAMED = "(counted)", "(named)"
"""How a model's devices are given; told apart first, so that a fault is one of the form that was meant."""

_KEY = "[key]"
"""What the library puts behind the place of a key."""
_WORDS = {
    "model_type": "is not a mapping",
    "dict_type": "is not a mapping",
    "list_type": "is not a list",
    "string_type": "is not a text (put it in quotes)",
    "int_type": "is not a whole number",
    "greater_than_equal": "is below 0",
    "less_than": "is above 999,999",
    "bool_type": "is not true or false",
    "missing": "is missing",
    "extra_forbidden": "is no field that is known here",
}
"""The library's kinds of faults, as a person says them."""


def _how(value: Any) -> str:
    return NAMED if isinstance(value, dict | DevicesEntry) else COUNTED


Devices = Annotated[Annotated[Number, Tag(COUNTED)] | Annotated[DevicesEntry, Tag(NAMED)], Discriminator(_how)]


class InventoryFile(_Strict):
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


class FileProvider:
    """Answers from an inventory. Raises InventoryFault when it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._mark = _mark(path)
        self._take(read_inventory(path))
        self._fault: InventoryFault | None = None

    def machines(self) -> Sequence[Machine]:
        """Looks whether the file is another; raises InventoryFault, in every round, while it has faults."""
        with self._lock:
            self._refresh()
            if self._fault is not None:
                raise self._fault.with_traceback(None)
            return tuple(entry.machine for entry in self._inventory.machines)

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        found = self._inventory.fabrics.get(machine.fabric, {}).get(model.model, 0)
        if isinstance(found, int):
            return Stock(machine.fabric, model.model, found, whole=True)
        devices = tuple(sorted((FreeDevice(one.id, one.healthy) for one in found.devices), key=lambda one: one.id))
        return Stock(machine.fabric, model.model, sum(one.healthy for one in devices), devices, whole=True)

    @property
    def models(self) -> frozenset[str]:
        """The models that it counts, by cdi-model-name, whether anybody asks for them or not."""
        return frozenset(model for fabric in self._inventory.fabrics.values() for model in fabric)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        limits = self._limits.get(machine.uuid, {})
        return {model.model: limits[model.model] for model in models if model.model in limits}

    def close(self) -> None:
        """Nothing is open."""

    def _take(self, inventory: InventoryFile) -> None:
        self._inventory = inventory
        self._limits = {
            entry.machine.uuid: {model: Limit(one.max, one.min) for model, one in entry.limits.items()}
            for entry in inventory.machines
        }

    def _refresh(self) -> None:
        mark = _mark(self._path)
        if mark == self._mark:
            return
        try:
            self._take(read_inventory(self._path))
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


def read_inventory(path: Path) -> InventoryFile:
    """The inventory. Raises InventoryFault: one line with the place of each fault (of five at most)."""
    where = f"inventory {path}"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise InventoryFault(f"cannot be read: {reason}", where=where, fix="check path and permissions") from None
    if len(data) > LARGEST:
        raise InventoryFault(f"is longer than {LARGEST >> 20} MiB", where=where, fix="shorten it") from None
    try:
        text = data.decode()
        _look_through(text)
        found = yaml.load(text, Loader=_Loader)
    except _Unwanted as unwanted:
        raise InventoryFault(str(unwanted), where=where, fix=_MEND) from None
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark is not None else ""
        raise InventoryFault(f"is not YAML{line}", where=where, fix=_MEND) from None
    except (yaml.YAMLError, ValueError):
        raise InventoryFault("is not YAML", where=where, fix=_MEND) from None
    try:
        if found is None:  # an editor's or a copy's half work takes no pool away
            raise InventoryFault("is empty", where=where, fix="write machines: [] if there is none")
        return InventoryFile.model_validate(found)
    except ValidationError as error:
        raise InventoryFault(_faults(error), where=where, fix=_MEND) from None


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = [_fault(one["loc"], _WORDS.get(one["type"], one["msg"])) for one in faults[:MAX_FAULTS]]
    return "; ".join(told) + (f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else "")


def _fault(place: tuple[int | str, ...], words: str) -> str:
    """One fault; what a check of ours says carries a prefix of the library's."""
    path = ".".join(str(part) for part in place if part not in (COUNTED, NAMED, _KEY))
    return f"{path}: {words.removeprefix('Value error, ')}".removeprefix(": ")


class _Unwanted(Exception):
    """YAML that an inventory has no use for."""

    def __init__(self, what: str, mark: Any) -> None:
        super().__init__(f"{what} (line {mark.line + 1})")


class _Loader(_Safe):
    """safe_load that does not let the last of two equal keys win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _Unwanted("a key stands twice in a mapping", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _look_through(text: str) -> None:
    """Refuse, before anything is built, what would exhaust stack or memory: deep nests (the C loader would crash) and aliases."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise _Unwanted("aliases (*name) are not allowed", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _Unwanted(f"is nested more than {MAX_DEPTH} levels deep", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
