"""The examples of device models: read without a fault, published by the lab's API server, and found by the claims beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from dds_adapters.kubernetes.decode.config import entries, model, read_config
from dds_adapters.kubernetes.publish.device_info import read_pool_config
from dds_adapters.kubernetes.write.tasks import Done
from dds_core.matching.allocator import Allocator
from dds_core.matching.from_api import read_claim, read_class, read_slice
from dds_core.matching.results import Allocation
from dds_core.model import Node, Slice
from dds_core.publisher.describe import device_of, pool_name
from dds_core.publisher.model import PoolModel
from tests.adapters.kubernetes.publish.booth import Booth, layouts, pool
from tests.adapters.kubernetes.samples import raw_of

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples" / "device-info").glob("*.yaml"))
PAGE = (ROOT / "docs" / "device-info.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def documents(path: Path) -> dict[str, Any]:
    """The objects of a file, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def config_map(text: str) -> dict[str, Any]:
    meta = {"name": "composable-dra-dds", "namespace": "composable-dra", "uid": "u-1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"device-info": text}}


def models(obj: dict[str, Any]) -> tuple[PoolModel, ...]:
    """The models of a ConfigMap, which neither program finds fault with."""
    obj["metadata"].setdefault("uid", "u-1")
    found, faults = read_pool_config(raw_of(obj), None)
    scalers, same = read_config(raw_of(obj), None)
    assert (faults, same) == ((), ())
    assert [one.model for one in scalers.models] == [one.model for one in found.models]
    return found.models


def model_of(path: Path) -> PoolModel:
    (one,) = models(documents(path)["ConfigMap"])
    return one


def published(booth: Booth, model: PoolModel) -> Slice:
    """The one slice of a pool with two devices."""
    name = pool_name(model.device, "1")
    assert booth.carry_out(pool(2, model=model, slices=layouts(2, model=model, pool=name))) == Done()
    (made,) = booth.slices()
    return read_slice(made)


def taken(slices: Slice, found: dict[str, Any], model: PoolModel, claims: int = 1) -> tuple[Allocation, ...]:
    """What so many claims of the example get on a node of the fabric; nothing when one gets none."""
    node = Node("", "n1", {f"cohdi.io/{model.device}": "true", "cohdi.io/fabric": "1"})
    ids = iter(f"share-{number}" for number in range(100))
    allocator = Allocator([slices], [read_class(found["DeviceClass"])], share_id=lambda: next(ids))
    spec = found["ResourceClaimTemplate"]["spec"]["spec"]
    meta = {"namespace": "default"}
    wanted = [read_claim({"metadata": {"name": f"c{n}", **meta}, "spec": spec}) for n in range(claims)]
    return allocator.allocate(node, wanted).allocations


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_published_and_its_claim_gets_a_device(path: Path) -> None:
    booth, found, model = Booth(), documents(path), model_of(path)
    booth.admin.create("deviceclasses", found["DeviceClass"])
    booth.admin.create("resourceclaimtemplates", found["ResourceClaimTemplate"])
    (allocation,) = taken(published(booth, model), found, model)
    (result,) = allocation.results
    assert result.key == (model.driver, f"{model.device}-fabric1", f"{model.device}-0")
    assert result.binding == ("FabricDeviceReady",)


def test_memory_is_taken_in_steps_by_many_claims() -> None:
    path = next(one for one in EXAMPLES if one.stem == "cxl-memory")
    found, model = documents(path), model_of(path)
    made = published(Booth(), model)
    allocations = taken(made, found, model, 16)  # eight of 63 Gi on each of the two devices
    assert {one.results[0].consumed["memory"] for one in allocations} == {"63Gi"}
    assert sorted(one.results[0].device for one in allocations) == ["cxl-512-0"] * 8 + ["cxl-512-1"] * 8
    asked = found["ResourceClaimTemplate"]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    for amount, gets in (("300Gi", None), ("256Gi", "256Gi"), (None, "16Gi")):
        asked["capacity"] = {"requests": {"memory": amount}} if amount else {}
        got = [one.results[0].consumed["memory"] for one in taken(made, found, model)]
        assert got == ([gets] if gets else [])


def test_each_example_asks_for_what_it_is() -> None:
    texts = {path.stem: documents(path)["ConfigMap"]["data"]["device-info"] for path in EXAMPLES}
    asked = {name: [one.type for one in entries(text, model)[0]] for name, text in texts.items()}
    assert asked == {"a100": [""], "h100": [""], "nic": [""], "cxl-memory": ["cxlmemory"]}


def test_all_examples_go_together() -> None:
    texts = [documents(path)["ConfigMap"]["data"]["device-info"] for path in EXAMPLES]
    assert len(models(config_map("".join(texts)))) == len(EXAMPLES) == 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_the_examples_as_they_are(path: Path) -> None:
    assert documents(path)["ConfigMap"]["data"]["device-info"] in BLOCKS
    assert f"`examples/device-info/{path.name}`" in PAGE


def test_the_parts_that_the_page_shows_are_good() -> None:
    entry = {
        "index": 1, "cdi-model-name": "A", "k8s-device-name": "a", "driver-name": "a.example",
        "cannot-coexist-with": [], "dra-attributes": {"productName": "A"},
    }  # fmt: skip
    parts = [one for one in BLOCKS if one.startswith(("attributes:", "capacity:", "allow-"))]
    assert len(parts) == 3
    for part in parts:
        indented = "".join(f"  {line}\n" for line in part.splitlines())
        head = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in entry.items() if key != "index")
        assert len(models(config_map(f"- index: 1\n{head}{indented}"))) == 1


def test_the_device_that_the_page_shows_is_the_one_that_is_published() -> None:
    (shown,) = [one for one in BLOCKS if one.startswith("name:")]
    path = next(one for one in EXAMPLES if one.stem == "a100")
    assert yaml.safe_load(shown) == msgspec.to_builtins(device_of(model_of(path), "nvidia-a100-40-0"))
