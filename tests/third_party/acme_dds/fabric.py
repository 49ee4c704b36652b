"""A fabric whose controller writes what is free into a JSON file: {"machines": {NODE: UUID}, "free": {MODEL: NUMBER}}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dds_adapters.fabric import FabricOdd, FabricSettings, FabricUnreachable, Outside, Provider
from dds_core.errors import InputError
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock


class State(msgspec.Struct):
    machines: dict[str, str]
    free: dict[str, int]


class Acme(Provider):
    def __init__(self, place: Path) -> None:
        self._place = place

    def machines(self) -> Sequence[Machine]:
        return [Machine(uuid.lower(), node, "0") for node, uuid in sorted(self._read().machines.items())]

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        return Stock("0", model.model, self._read().free.get(model.model, 0))

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return None

    def close(self) -> None:
        """Nothing is open."""

    def _read(self) -> State:
        try:
            return msgspec.json.decode(self._place.read_bytes(), type=State)
        except OSError as error:
            raise FabricUnreachable(f"cannot be read: {error.strerror}", where=str(self._place)) from None
        except msgspec.DecodeError as error:
            raise FabricOdd(f"is not as it should be: {error}", where=str(self._place)) from None


def open_fabric(settings: FabricSettings, outside: Outside) -> Provider:
    if settings.inventory is None:
        raise InputError("no file is given", where="fabric acme", fix="give --inventory FILE")
    return Acme(settings.inventory)
