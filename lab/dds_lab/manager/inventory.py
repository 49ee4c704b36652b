"""Settings of a simulated manager, and its tenant's read-only view of the fabric: machines, devices and limits, in the form that
the APIs share."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dds_lab.actors.fabric import Attached, Device, Fabric, Machine
from dds_lab.latency import NONE, Latency
from dds_lab.manager.calls import Refused
from dds_lab.manager.servers import Stock

Api = Literal["fm", "cm", "nec"]

RUNNING = 4
"""res_status and mach_status of a device or machine in order."""
FINE, WARNING, CRITICAL = "00", "10", "20"
"""res_op_status: its first character is 0 for fine, 1 for a warning, 2 for critical."""


@dataclass(frozen=True)
class Login:
    """The credentials of the one user, named by the keys of the client's Secret. `repr` shows none of them."""

    username: str = field(default="lab", repr=False)
    password: str = field(default="lab-password", repr=False)
    realm: str = field(default="CDI", repr=False)
    client_id: str = field(default="lab-client", repr=False)
    client_secret: str = field(default="lab-secret", repr=False)


@dataclass(frozen=True)
class Limit:
    """Limits for the devices of a model in a machine; None for no limit. Empty `nodes` mean all machines."""

    model: str
    most: int | None = None
    least: int | None = None
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeGroup:
    """A node group of the cluster manager, with the nodes whose machines are in it."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ManagerSettings:
    """`api`: fm serves the calls for tokens and of FM, cm those of CM as well, nec only those of CDIM.

    `token_life`: seconds. By model: `types` is the res_type if it is not gpu, `products` the productname if it differs from the
    model, `quotas` the most devices that the tenant may have attached. `groups`: the node groups, by default one of all machines.
    `stocks`: servers that can be composed for a group; a group that `groups` does not name is added. `answer`: duration of every
    answer. `scheme`: prefix before the machine's UUID in CDIM's node ids, which equal providerIDs.
    """

    api: Api = "fm"
    tenant: str = "3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10"
    cluster: str = "9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24"
    login: Login = field(default_factory=Login)
    token_life: float = 300.0
    answer: Latency = NONE
    types: Mapping[str, str] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    stocks: tuple[Stock, ...] = ()
    scheme: str = ""


class Inventory:
    """The fabric as one tenant sees it."""

    def __init__(self, fabric: Fabric, settings: ManagerSettings) -> None:
        self.fabric = fabric
        self.settings = settings
        self._numbers: dict[str, int] = {}  # machine's UUID → mach_id, numbered when first shown

    def tenant(self, named: object) -> None:
        """Raises Refused (404) unless this is the one tenant's UUID."""
        if named != self.settings.tenant:
            raise Refused(404, "E010404", "there is no such tenant")

    def machine(self, uuid: str) -> Machine:
        """Raises Refused (404) for an unknown machine."""
        found = self.fabric.machine_of(uuid)
        if found is None:
            raise Refused(404, "E010404", f"there is no machine {uuid}")
        return found

    def devices(self, machine: Machine) -> tuple[Attached, ...]:
        """Devices attached to a machine, without built-in ones: the manager does not manage these."""
        return tuple(one for one in self.fabric.plugged(machine.node) if not one.fixed)

    def free(self, machine: Machine, model: str, type: str) -> int:
        """Number of devices of the model that the tenant can attach now in the machine's fabric."""
        if type != self.type_of(model):
            return 0
        free, quota = self.fabric.free(machine.fabric, model), self.settings.quotas.get(model)
        return free if quota is None else max(0, min(free, quota - self.used(model)))

    def used(self, model: str) -> int:
        """Number of devices of the model that are attached or being attached to any machine, without built-in ones."""
        there = sum(one.device.model == model for machine in self.fabric.machines() for one in self.devices(machine))
        return there + sum(self.fabric.running(*pool) for pool in self.fabric.pools() if pool[1] == model)

    def fits_quota(self, model: str, more: int) -> None:
        """Raises Refused (403) if `more` devices would exceed the tenant's quota."""
        quota = self.settings.quotas.get(model)
        if quota is not None and self.used(model) + more > quota:
            raise Refused(403, "E020403", f"the tenant's quota of {quota} devices of model {model} is used up")

    def limits(self, machine: Machine, model: str) -> tuple[int | None, int | None]:
        """(least, most) devices of a model in a machine; None for no limit."""
        for one in self.settings.limits:
            if one.model == model and (not one.nodes or machine.node in one.nodes):
                return one.least, one.most
        return None, None

    def models(self, machine: Machine) -> tuple[str, ...]:
        """The models that the machine can have or has."""
        pooled = [model for fabric, model in self.fabric.pools() if fabric == machine.fabric]
        bound = [one.model for one in self.settings.limits if not one.nodes or machine.node in one.nodes]
        there = [one.device.model for one in self.devices(machine)]
        return tuple(dict.fromkeys((*pooled, *bound, *there)))

    def type_of(self, model: str) -> str:
        return self.settings.types.get(model, "gpu")

    def number(self, machine: Machine) -> int:
        return self._numbers.setdefault(machine.uuid, len(self._numbers) + 1)

    def op_status(self, device: Device) -> str:
        if self.fabric.broken(device.serial):
            return CRITICAL
        return WARNING if self.fabric.warned(device.serial) else FINE

    def named(self, machine: Machine, one: Attached) -> str:
        return f"{self.type_of(one.device.model)}-{machine.node}-{one.minor}"


def fabric_id(fabric: str) -> int | str | None:
    """A fabric's id in the APIs' form: a number if possible, else text; None for no fabric."""
    return int(fabric) if fabric.isdecimal() else fabric or None


def fabric_uuid(fabric: str) -> str:
    """A fabric's UUID; "" for no fabric."""
    return made_up("fabric", fabric) if fabric else ""


def made_up(*words: str) -> str:
    """A UUID derived from the words, for objects that have none in the lab."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(words)))


def condition(model: str) -> dict[str, Any]:
    return {"column": "model", "operator": "eq", "value": model}


def model_of(written: Any) -> str:
    """The model that a condition names. Raises Refused (400) for a condition of another form."""
    if isinstance(written, dict) and written.get("column") == "model" and written.get("operator") == "eq":
        value = written.get("value")
        if isinstance(value, str) and value:
            return value
    raise Refused(400, "E010400", "the condition is not of the form {column: model, operator: eq, value: MODEL}")
