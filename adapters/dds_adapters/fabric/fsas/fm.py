"""The Fsas fabric manager: machines with their fabrics, and free devices as a number per fabric and model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from dds_adapters.fabric.answers import each, odd, partly
from dds_adapters.fabric.fsas.forms import FmAvailable, FmMachine, FmMachines
from dds_adapters.fabric.fsas.session import Session
from dds_adapters.fabric.http import LARGEST
from dds_adapters.fabric.settings import FabricSettings
from dds_adapters.fabric.words import named
from dds_core.publishing.model import Limit, Machine, PoolModel, Stock

PATH = "/fabric_manager/api/v1/machines"


class FmProvider:
    """Speaks to the fabric manager alone; it knows of no limits."""

    def __init__(self, session: Session, settings: FabricSettings) -> None:
        self._session = session
        self._settings = settings
        self._written: dict[str, str] = {}  # a UUID in small letters → as the manager writes it

    @property
    def logins(self) -> int:
        """Logins that were sent since the start."""
        return self._session.token.logins

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
        """The machine as a part of a path."""
        return quote(self._written.get(machine.uuid, machine.uuid), safe="")

    def close(self) -> None:
        self._session.close()
