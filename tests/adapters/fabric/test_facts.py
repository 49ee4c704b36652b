"""Answers become facts only where they say something new."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from dds_adapters.fabric import APIS, FabricOdd, FabricSettings, open_provider
from dds_adapters.fabric.file import DeviceEntry, DevicesEntry, LimitEntry, MachineEntry
from dds_adapters.fabric.provider import InventoryFault
from dds_adapters.fabric.survey import EntriesAnswer, LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer, facts_of
from dds_core.publisher.events import FabricAnswered, FabricFailed, MachineGone, MachineObserved, StockObserved
from dds_core.publisher.model import FreeDevice, Limit, Machine, Stock
from tests.adapters.fabric.rig import A100, H100

ONE, TWO = Machine("m-1", "one", "0"), Machine("m-2", "two", "1", {"A": Limit(4)})


class Known:
    def __init__(
        self,
        *machines: Machine,
        stock: Iterable[Stock] = (),
        failing: Mapping[str, str] = {},
        listed: bool = True,
        doubted: bool = False,
    ) -> None:
        self._machines = {one.uuid: one for one in machines}
        self._stock = {(one.fabric, one.model): one for one in stock}
        self._failing = dict(failing)
        self.listed = listed
        self._doubted = doubted

    def machine(self, uuid: str) -> Machine | None:
        return self._machines.get(uuid)

    def machines(self) -> Iterable[str]:
        return self._machines

    def stock(self, fabric: str, model: str) -> Stock | None:
        return self._stock.get((fabric, model))

    def in_doubt(self, fabric: str, model: str) -> bool:
        return self._doubted

    def failure(self, of: str) -> str:
        return self._failing.get(of, "")


def test_machines_that_are_new_other_or_gone() -> None:
    moved = Machine("m-1", "one", "5")
    new = Machine("m-3")
    found = facts_of(MachinesAnswer((moved, new)), Known(ONE, TWO))
    assert found == (MachineObserved(moved), MachineObserved(new), MachineGone("m-2"))


def test_a_list_leaves_limits_as_they_are() -> None:
    listed = msgspec.structs.replace(TWO, limits=None)
    assert facts_of(MachinesAnswer((listed,)), Known(TWO)) == ()
    moved = msgspec.structs.replace(listed, fabric="2")
    assert facts_of(MachinesAnswer((moved,)), Known(TWO)) == (
        MachineObserved(msgspec.structs.replace(TWO, fabric="2")),
    )


def test_the_first_list_of_a_process_and_the_first_after_a_failure_are_told() -> None:
    assert facts_of(MachinesAnswer((ONE,)), Known(ONE, listed=False)) == (FabricAnswered("machines"),)
    assert facts_of(MachinesAnswer((ONE,)), Known(ONE, failing={"machines": "why"})) == (FabricAnswered("machines"),)
    assert facts_of(MachinesAnswer((ONE,)), Known(ONE)) == ()
    assert facts_of(MachinesAnswer(()), Known(ONE, listed=False)) == (MachineGone("m-1"), FabricAnswered("machines"))


def test_limits() -> None:
    answer = LimitsAnswer("m-1", {"A": Limit(4, 1)})
    assert facts_of(answer, Known(ONE)) == (MachineObserved(Machine("m-1", "one", "0", {"A": Limit(4, 1)})),)
    assert facts_of(LimitsAnswer("m-2", {"A": Limit(4)}), Known(TWO)) == ()
    assert facts_of(LimitsAnswer("m-2", None), Known(TWO)) == (MachineObserved(Machine("m-2", "two", "1")),)
    assert facts_of(answer, Known(failing={"limits/m-1": "why"})) == (FabricAnswered("limits/m-1"),)


def test_stock() -> None:
    stock = Stock("0", "A", 3)
    named = Stock("0", "A", 1, (FreeDevice("d-1"), FreeDevice("d-2", False)), True)
    assert facts_of(StockAnswer(stock), Known()) == (StockObserved("0", "A", 3),)
    assert facts_of(StockAnswer(stock), Known(stock=[stock])) == ()
    assert facts_of(StockAnswer(stock), Known(stock=[stock], doubted=True)) == (StockObserved("0", "A", 3),)
    assert facts_of(StockAnswer(named), Known(stock=[stock], failing={"stock/0/A": "why"})) == (
        StockObserved("0", "A", 1, named.devices, True),
        FabricAnswered("stock/0/A"),
    )


def test_a_failure_is_told_once_without_secrets() -> None:
    error = FabricOdd("the token=hunter2 is odd", where="fm.machines", fix="look")
    answer = NoAnswer("stock/0/A", error)
    assert facts_of(answer, Known()) == (FabricFailed("stock/0/A", "fm.machines: the token=[removed] is odd; look"),)
    assert facts_of(answer, Known(failing={"stock/0/A": "of another request"})) == ()


def test_entries_that_are_left_out_are_told_once_and_when_all_can_be_read_again() -> None:
    answer = NoAnswer("entries", FabricOdd("field resources.3.device.deviceID is missing", where="nec.resources"))
    told = (FabricFailed("entries", "nec.resources: field resources.3.device.deviceID is missing"),)
    assert facts_of(answer, Known()) == told
    assert facts_of(answer, Known(failing={"entries": "another one"})) == ()
    assert facts_of(EntriesAnswer(), Known(failing={"entries": "another one"})) == (FabricAnswered("entries"),)
    assert facts_of(EntriesAnswer(), Known()) == ()


def test_another_fault_of_an_inventory_is_told_though_the_last_one_still_stands() -> None:
    answer = NoAnswer("machines", InventoryFault("machines is not a list", where="inventory a.yaml"))
    told = "inventory a.yaml: machines is not a list"
    assert facts_of(answer, Known(failing={"machines": "inventory a.yaml: is empty"})) == (
        FabricFailed("machines", told),
    )
    assert facts_of(answer, Known(failing={"machines": told})) == ()


def test_who_is_not_in_a_list_that_is_not_whole_is_not_gone() -> None:
    fault = FabricOdd("field data.machines.1.fabric_id is missing", where="fm.machines")
    moved = msgspec.structs.replace(ONE, fabric="9")
    view = Known(ONE, TWO)
    assert facts_of(MachinesAnswer((moved,), fault), view) == (
        MachineObserved(moved),
        FabricFailed("machines", str(fault)),
    )


# -- docs/fabric.md says what is


PAGE = Path(__file__).parents[3] / "docs" / "fabric.md"
CLIENTS = Path(__file__).parents[3] / "adapters" / "dds_adapters" / "fabric"


def test_the_inventory_of_the_page_can_be_read(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "inventory.yaml").write_text(block, encoding="utf-8")
    provider = open_provider(FabricSettings("file", inventory=tmp_path / "inventory.yaml"))
    first, second, third = provider.machines()
    assert (second.uuid, third.fabric) == ("node:worker-2", "")
    assert provider.limits(first, [A100]) == {A100.model: Limit(4, 0)}
    assert (provider.stock(first, A100).free, provider.stock(first, H100).free) == (8, 1)


def test_the_page_names_every_api_call_and_field_of_an_inventory() -> None:
    text = PAGE.read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in CLIENTS.rglob("*.py"))
    calls = set(re.findall(r'"((?:im|fm|cm|nec)\.[a-z]+)"', source))
    assert len(calls) == 8
    assert {call for call in calls if f"| `{call}` |" not in text} == set()
    assert {api for api in APIS if f"| `{api}` |" not in text} == set()
    fields = {name for form in (MachineEntry, LimitEntry, DevicesEntry, DeviceEntry) for name in form.model_fields}
    assert {name for name in fields if not re.search(rf"`(machines\[\]\.)?{name}`", text)} == set()
