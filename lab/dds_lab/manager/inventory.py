"""What a simulated manager is told at its start, and what its tenant sees of the fabric: machines, devices and bounds, in the
words that its APIs share.

It only looks; what moves devices are the APIs.
"""

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
"""res_status and mach_status of what is in order."""
FINE, CRITICAL = "00", "20"
"""res_op_status: its first character is 0 for fine, 1 for a warning, 2 for critical."""


@dataclass(frozen=True)
class Login:
    """Who may log in, by the keys of the Secret that a client is given. None of it is shown by `repr`."""

    username: str = field(default="lab", repr=False)
    password: str = field(default="lab-password", repr=False)
    realm: str = field(default="CDI", repr=False)
    client_id: str = field(default="lab-client", repr=False)
    client_secret: str = field(default="lab-secret", repr=False)


@dataclass(frozen=True)
class Limit:
    """How many devices of a model a machine may have; None where nothing says so. No `nodes` means all machines."""

    model: str
    most: int | None = None
    least: int | None = None
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeGroup:
    """A node group of the cluster manager, and the nodes whose machines are in it."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ManagerSettings:
    """`api`: fm has the token and FM calls, cm those of CM too, nec those of CDIM alone.

    `token_life` is in seconds. By model: `types` gives the res_type where it is not gpu, `products` the productname where it
    is another word, `quotas` how many devices the tenant may have attached in all. `groups` are the node groups, one of all
    machines by default; `stocks` has the servers that a group can be given (its group is added if it is none of those).
    `answer` is how long any answer takes. `scheme` stands before the machine's UUID in CDIM's node ids, which equal
    providerIDs.
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
        self._numbers: dict[str, int] = {}  # machine's UUID → mach_id, in the order in which they were shown

    def tenant(self, named: object) -> None:
        """Raises Refused (404) for another tenant than the one that there is."""
        if named != self.settings.tenant:
            raise Refused(404, "E010404", "there is no such tenant")

    def machine(self, uuid: str) -> Machine:
        """Raises Refused (404) for a machine that is not there."""
        found = self.fabric.machine_of(uuid)
        if found is None:
            raise Refused(404, "E010404", f"there is no machine {uuid}")
        return found

    def devices(self, machine: Machine) -> tuple[Attached, ...]:
        """What is attached to a machine; what is built into it is no manager's."""
        return tuple(one for one in self.fabric.plugged(machine.node) if not one.fixed)

    def free(self, machine: Machine, model: str, type: str) -> int:
        """How many devices of the model the tenant could attach now in the machine's fabric."""
        if type != self.type_of(model):
            return 0
        free, quota = self.fabric.free(machine.fabric, model), self.settings.quotas.get(model)
        return free if quota is None else max(0, min(free, quota - self.used(model)))

    def used(self, model: str) -> int:
        """Devices of the model that are attached or on their way in, anywhere; not those that are built in."""
        there = sum(one.device.model == model for machine in self.fabric.machines() for one in self.devices(machine))
        return there + sum(self.fabric.running(*pool) for pool in self.fabric.pools() if pool[1] == model)

    def fits_quota(self, model: str, more: int) -> None:
        """Raises Refused (403) where so many more would be above the tenant's quota."""
        quota = self.settings.quotas.get(model)
        if quota is not None and self.used(model) + more > quota:
            raise Refused(403, "E020403", f"the tenant's quota of {quota} devices of model {model} is used up")

    def limits(self, machine: Machine, model: str) -> tuple[int | None, int | None]:
        """(least, most) devices of a model in a machine; None where nothing bounds it."""
        for one in self.settings.limits:
            if one.model == model and (not one.nodes or machine.node in one.nodes):
                return one.least, one.most
        return None, None

    def models(self, machine: Machine) -> tuple[str, ...]:
        """The models that the machine may have, or has."""
        pooled = [model for fabric, model in self.fabric.pools() if fabric == machine.fabric]
        bound = [one.model for one in self.settings.limits if not one.nodes or machine.node in one.nodes]
        there = [one.device.model for one in self.devices(machine)]
        return tuple(dict.fromkeys((*pooled, *bound, *there)))

    def type_of(self, model: str) -> str:
        """The res_type of a model."""
        return self.settings.types.get(model, "gpu")

    def number(self, machine: Machine) -> int:
        """A machine's mach_id."""
        return self._numbers.setdefault(machine.uuid, len(self._numbers) + 1)

    def op_status(self, device: Device) -> str:
        """A device's res_op_status."""
        return CRITICAL if self.fabric.broken(device.serial) else FINE

    def named(self, machine: Machine, one: Attached) -> str:
        """A device's res_name."""
        return f"{self.type_of(one.device.model)}-{machine.node}-{one.minor}"


def fabric_id(fabric: str) -> int | str | None:
    """A fabric's id as the APIs write it: a number where it is one, null for none."""
    return int(fabric) if fabric.isdecimal() else fabric or None


def fabric_uuid(fabric: str) -> str:
    """A fabric's UUID, "" for none."""
    return made_up("fabric", fabric) if fabric else ""


def made_up(*words: str) -> str:
    """The UUID of something that has none in the lab; always the same for the same words."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(words)))


def condition(model: str) -> dict[str, Any]:
    """How the APIs name a model."""
    return {"column": "model", "operator": "eq", "value": model}


def model_of(written: Any) -> str:
    """The model that a condition names. Raises Refused (400) for a condition of another form."""
    if isinstance(written, dict) and written.get("column") == "model" and written.get("operator") == "eq":
        value = written.get("value")
        if isinstance(value, str) and value:
            return value
    raise Refused(400, "E010400", "the condition is not of the form {column: model, operator: eq, value: MODEL}")
