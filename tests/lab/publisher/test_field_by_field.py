"""One inventory, published by the reference's publisher and by ours: every row of the table in docs/differences.md is true, and
every field that either of them writes has a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from dds_core.scaler.policy import Policy
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from tests.support.commands import REPOSITORY
from tests.support.publishing import change_models, publishing, written

CLUSTER = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
  - {model: NVIDIA GPU, device: gpu, product: H100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 4, NVIDIA GPU: 2}}
  - {id: 7, devices: {NVIDIA A100: 130, NVIDIA GPU: 1}}
nodes:
  - {count: 2, fabric: 1}
  - {first: 2, count: 1, fabric: 7}
"""
A100, GPU = "nvidia-a100-fabric1", "gpu-fabric1"
LABEL = "cohdi.io/fabric"
MORE: dict[str, Any] = {
    "attributes": {"cores": {"int": 6912}, "secure": {"bool": True}, "driverVersion": {"version": "1.2.3"}},
    "capacity": {"memory": "40Gi"},
    "allow-multiple-allocations": True,
}
Object = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What one of them has published: slices by pool, at first and after a device went out of the pool; the labels of nodes."""

    first: Mapping[str, list[Object]]
    changed: Mapping[str, list[Object]]
    labels: Mapping[str, str]

    def slice(self, pool: str = A100, changed: bool = False) -> Object:
        (found,) = (self.changed if changed else self.first)[pool]
        return found

    def devices(self, pool: str = A100) -> list[Object]:
        return list(self.slice(pool)["spec"]["devices"])


def _slices(lab: Lab) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for one in lab.client("admin").list("resourceslices"):
        if "nodeName" not in one["spec"]:
            found.setdefault(one["spec"]["pool"]["name"], []).append(one)
    return found


def _labels(lab: Lab) -> dict[str, str]:
    nodes = lab.client("admin").list("nodes")
    return {one["metadata"]["name"]: (one["metadata"].get("labels") or {}).get(LABEL, "") for one in nodes}


def _take_labels_off(lab: Lab) -> None:
    for name in _labels(lab):
        lab.client("admin").patch("nodes", name, {"metadata": {"labels": {LABEL: None}}})


def _watched(lab: Lab) -> Seen:
    """Long enough for both, with a device that goes out of the pool in between."""
    lab.run(30)
    first = _slices(lab)
    lab.fabric.attach("node0000", "NVIDIA A100", lambda answer: None)
    lab.run(60)
    return Seen(first, _slices(lab), _labels(lab))


def _more(entries: list[Object]) -> None:
    entries[0].update(MORE)


@contextmanager
def _reference(scenario: Scenario, prepare: Callable[[Lab], None]) -> Iterator[Lab]:
    """A lab in which nobody but the reference's publisher is at work."""
    raw = scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"publisher": _PUBLISHER})})
    with Lab.virtual(raw) as lab:
        prepare(lab)
        yield lab


_PUBLISHER = type(written(CLUSTER).parts).model_fields["publisher"].get_default(call_default_factory=True)


@cache
def seen(who: str, more: bool = False) -> Seen:
    def prepare(lab: Lab) -> None:
        _take_labels_off(lab)
        if more:
            change_models(lab, _more)

    if who == "reference":
        with _reference(written(CLUSTER), prepare) as lab:
            return _watched(lab)
    with publishing(written(CLUSTER), prepare=lambda run: prepare(run.lab)) as run:
        return _watched(run.lab)


@cache
def _cooled() -> list[Object]:
    """Devices of our pool while a node asks that its model cools down; the scaler, which asks that, only looks on."""
    with publishing(written(CLUSTER), scaler=Policy()) as run:
        run.lab.run(30)
        run.lab.client("admin").patch(
            "nodes", "node0000", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": "true"}}}
        )
        run.lab.run(30)
        return [device for one in _slices(run.lab)[A100] for device in one["spec"]["devices"]]


# -- the table ---------------------------------------------------------------------------------------------------------

Read = Callable[[Seen], Any]
FIELDS: dict[str, Read] = {
    "`metadata.name`": lambda it: it.slice()["metadata"]["name"],
    "`metadata.labels`": lambda it: it.slice()["metadata"].get("labels"),
    "`spec.driver`": lambda it: it.slice()["spec"]["driver"],
    "`spec.pool.name`": lambda it: sorted(it.first),
    "`spec.pool.generation` at first": lambda it: it.slice()["spec"]["pool"]["generation"],
    "`spec.pool.generation` after a change of the count": lambda it: it.slice(changed=True)["spec"]["pool"][
        "generation"
    ],
    "`spec.pool.resourceSliceCount` up to 128 devices": lambda it: it.slice()["spec"]["pool"]["resourceSliceCount"],
    "`spec.nodeSelector`": lambda it: it.slice()["spec"]["nodeSelector"],
    "`devices[].name`": lambda it: [one["name"] for one in it.devices()],
    "`devices[].name` of a k8s-device-name `gpu`": lambda it: [one["name"] for one in it.devices(GPU)],
    "`devices[].attributes` of dra-attributes": lambda it: [one["attributes"] for one in it.devices()],
    "`devices[].bindsToNode`": lambda it: [one["bindsToNode"] for one in it.devices()],
    "`devices[].bindingConditions`": lambda it: [one["bindingConditions"] for one in it.devices()],
    "`devices[].bindingFailureConditions`": lambda it: [one["bindingFailureConditions"] for one in it.devices()],
    "label `<prefix>/fabric` of nodes": lambda it: it.labels,
}
"""By row what is compared."""


def _typed(devices: list[Object]) -> list[Object]:
    return [value for one in devices for value in one["attributes"].values() if "string" not in value]


ALONE: dict[str, Callable[[list[Object]], list[Any]]] = {
    "`devices[].attributes` of other types": _typed,
    "`devices[].capacity`": lambda devices: [one["capacity"] for one in devices if "capacity" in one],
    "`devices[].allowMultipleAllocations`": lambda devices: [
        one for one in devices if "allowMultipleAllocations" in one
    ],
    "`devices[].taints`": lambda devices: [one["taints"] for one in devices if "taints" in one],
}
"""By row what ours alone has."""


def rows() -> dict[str, str]:
    """By field what the page says of it."""
    text = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- compared: slices -->\n(.*?)<!-- end: compared -->", text, flags=re.DOTALL)
    lines = [[part.strip() for part in line.strip("|\n ").split(" | ")] for line in table.splitlines()[2:]]
    return {line[0]: line[-1] for line in lines}


def test_every_row_is_one_that_is_compared() -> None:
    said = rows()
    assert said.keys() == FIELDS.keys() | ALONE.keys()
    assert {name for name, word in said.items() if word == "dds alone"} == ALONE.keys()
    assert set(said.values()) == {"equal", "different", "dds alone"}


@pytest.mark.parametrize("field", FIELDS)
def test_the_row_is_true(field: str) -> None:
    reference, ours = (FIELDS[field](seen(who)) for who in ("reference", "ours"))
    assert ("equal" if reference == ours else "different") == rows()[field], (reference, ours)


@pytest.mark.parametrize("field", ALONE)
def test_ours_alone_has_it_and_only_when_it_is_asked_for(field: str) -> None:
    read = ALONE[field]
    assert read(seen("reference", more=True).devices()) == []
    assert read(seen("ours").devices()) == []
    asked = _cooled() if "taints" in field else seen("ours", more=True).devices()
    assert read(asked)


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    else:
        yield path


SERVERS_OWN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "annotations",
    "generateName",
)


def test_every_field_that_is_written_has_a_row() -> None:
    told = {re.findall(r"`([^`]+)`", name)[0].removeprefix("spec.") for name in rows()}
    for who in ("reference", "ours"):
        for one in [*seen(who, more=True).first[A100], *seen(who).changed[A100]]:
            metadata = {key: value for key, value in one["metadata"].items() if key not in SERVERS_OWN}
            for path in {*_leaves({"metadata": metadata}), *_leaves(one["spec"])}:
                assert any(path == name or re.match(rf"{re.escape(name)}[.\[]", path) for name in told), path


def test_each_fault_has_a_row_and_a_test() -> None:
    page = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    tests = (REPOSITORY / "tests/lab/publisher/test_d_faults.py").read_text(encoding="utf-8")
    faults = {str(number) for number in range(1, 14)}
    assert set(re.findall(r"^\| D(\d+) \|", page, flags=re.MULTILINE)) == faults
    assert set(re.findall(r"^def test_d(\d+)_", tests, flags=re.MULTILINE)) == faults


# -- what the text below the table says --------------------------------------------------------------------------------


def test_beyond_128_devices_ours_makes_more_slices() -> None:
    found = seen("ours").first["nvidia-a100-fabric7"]
    assert [len(one["spec"]["devices"]) for one in found] == [128, 2]
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in found} == {2}


def test_names_are_as_the_table_writes_them() -> None:
    ours = seen("ours")
    assert ours.slice()["metadata"]["name"] == f"{A100}-gpu-nvidia-com-000"
    assert ours.slice()["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dds-publisher"}
    assert [one["name"] for one in ours.devices(GPU)] == ["gpu-pool-0", "gpu-pool-1"]
    assert [one["key"] for one in _cooled()[0]["taints"]] == ["cohdi.io/cooling"]
