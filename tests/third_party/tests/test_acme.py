"""What acme adds keeps to what dds asks of it, and is found by its names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acme_dds import rack
from acme_dds.patience import PATIENCE
from acme_dds.rack import Entry

from dds_adapters.fabric import FabricSettings, Provider, open_provider
from dds_adapters.machines import Machines, open_machines, read_settings
from dds_core.component import Component
from dds_core.events import ClaimObserved, PolicyChanged, Started, Synced, difference
from dds_core.model import Claim
from dds_core.publisher.model import PoolModel
from dds_lab.contracts.components import ComponentContract, Facts
from dds_lab.contracts.fabrics import FabricContract
from dds_lab.contracts.machines import MachinesContract

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


@contextmanager
def away(place: Path) -> Iterator[None]:
    aside = place.rename(place.with_suffix(".aside"))
    yield
    aside.rename(place)


@contextmanager
def half(place: Path) -> Iterator[None]:
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    yield
    place.write_bytes(whole)


class FabricWorld:
    model = PoolModel(0, "ACME X", "acme-x", "gpu.acme.example")
    secrets: Sequence[str] = ()
    troubles: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        self.place = folder / "fabric.json"
        self._write(5)

    def _write(self, free: int) -> None:
        state = {"machines": {"node0": "A-1", "node1": "A-2"}, "free": {self.model.model: free}}
        self.place.write_bytes(msgspec.json.encode(state))

    def open(self) -> Provider:
        return open_provider(FabricSettings("acme", inventory=self.place))

    def take(self) -> None:
        self._write(4)

    def away(self) -> Any:
        return away(self.place)

    def half(self) -> Any:
        return half(self.place)

    def spoilt(self, how: str) -> Any:
        raise AssertionError(f"it cannot have the trouble {how}")


class TestFabric(FabricContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> FabricWorld:
        return FabricWorld(tmp_path)


class RackWorld:
    """A rack of nine servers, one of which runs."""

    group, scheme = "rack", "rack://"

    def __init__(self, folder: Path) -> None:
        self.place, self._settings = folder / "rack.json", folder / "dds.yaml"
        self._settings.write_text("machines: {kind: rack, file: rack.json}")
        self._room, self._broken, self._made = 9, False, 0
        self._write([Entry("", "r0", "running")])

    def _write(self, entries: list[Entry]) -> None:
        self.place.write_bytes(msgspec.json.encode(entries))

    def _read(self) -> list[Entry]:
        return msgspec.json.decode(self.place.read_bytes(), type=list[Entry])

    def open(self) -> Machines:
        return open_machines(read_settings(self._settings))

    def settle(self) -> None:
        entries = self._read()
        for one in entries:
            if one.state == "deleting":
                one.state, one.name, one.why = "gone", "", ""
            elif one.state == "creating":
                full = len(self.there()) >= self._room
                if full or self._broken:
                    one.state, one.why, self._broken = "failed", "full" if full else "no power", False
                else:
                    self._made += 1
                    one.state, one.name = "running", f"r{self._made}"
            self._write(entries)

    def there(self) -> set[str]:
        return {one.name for one in self._read() if one.name}

    def scarce(self) -> None:
        self._room = len(self.there())

    def broken(self) -> None:
        self._broken = True

    @contextmanager
    def lost(self) -> Iterator[None]:
        def fail(place: Path) -> None:
            raise OSError(5, "no answer")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rack, "sync", fail)
            yield

    def away(self) -> Any:
        return away(self.place)

    def half(self) -> Any:
        return half(self.place)


class TestRack(MachinesContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> RackWorld:
        return RackWorld(tmp_path)


class TestPatience(ComponentContract):
    @pytest.fixture
    def component(self) -> Component[Any]:
        return PATIENCE

    @pytest.fixture
    def facts(self) -> Facts:
        claim = difference(None, Claim("claim-1", "default", "train"))
        assert isinstance(claim, ClaimObserved)
        return [
            (START, Started("acme", "1", 1, 1, "tell")),
            (START, PolicyChanged({"mode": "tell"})),
            (START, Synced()),
            (START + SECOND, claim),
            (START + 100 * SECOND, Synced()),
        ]
