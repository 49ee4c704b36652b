"""docs/fabric.md says what is."""

from __future__ import annotations

import re
from pathlib import Path

from dds_adapters.fabric import APIS, FabricSettings, open_provider
from dds_adapters.fabric.file import DeviceEntry, DevicesEntry, LimitEntry, MachineEntry
from dds_core.publisher.model import Limit
from tests.adapters.fabric.rig import A100, H100

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
