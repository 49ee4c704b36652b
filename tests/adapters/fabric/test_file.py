"""The inventory in a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dds_adapters.fabric import FabricError, FabricOdd, FabricSettings, Provider, open_provider
from dds_adapters.fabric.file import FileProvider
from dds_adapters.fabric.provider import FabricPartly
from dds_core.publisher.model import FreeDevice, Limit, Machine, Stock
from tests.adapters.fabric.rig import A100, H100

GOOD = """\
machines:
  - {uuid: 4B0D7A52-1, name: worker one, fabric: "0", limits: {"NVIDIA A100": {max: 4, min: 1}, "NVIDIA H100": {max: 2}}}
  - {node: worker-2, fabric: 0}
  - {node: worker-3}
fabrics:
  "0":
    "NVIDIA A100": 8
    "NVIDIA H100": {devices: [{id: GPU-slot-2, healthy: false}, {id: GPU-slot-1}]}
"""
ONE = Machine("4b0d7a52-1", "worker one", "0")


def write(path: Path, text: str) -> Path:
    """As an editor saves it: another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
    return path


def opened(path: Path, text: str = GOOD) -> Provider:
    return open_provider(FabricSettings("file", inventory=write(path / "inventory.yaml", text)))


def test_machines_stock_and_limits(tmp_path: Path) -> None:
    provider = opened(tmp_path)
    two, three = Machine("node:worker-2", "worker-2", "0"), Machine("node:worker-3", "worker-3")
    assert provider.machines() == (ONE, two, three)
    assert provider.stock(ONE, A100) == Stock("0", A100.model, 8, whole=True)
    slots = (FreeDevice("GPU-slot-1"), FreeDevice("GPU-slot-2", False))
    assert provider.stock(two, H100) == Stock("0", H100.model, 1, slots, True)
    assert provider.limits(ONE, [A100, H100]) == {A100.model: Limit(4, 1), H100.model: Limit(2, None)}
    assert provider.limits(ONE, [H100]) == {H100.model: Limit(2, None)}
    assert provider.limits(two, [A100]) == {}
    provider.close()


def test_a_model_that_the_fabric_does_not_have(tmp_path: Path) -> None:
    provider = opened(tmp_path, 'machines: [{node: a, fabric: "7"}]\nfabrics: {"7": {}}')
    [machine] = provider.machines()
    assert provider.stock(machine, A100) == Stock("7", A100.model, 0, whole=True)


@pytest.mark.parametrize("text", ["{}", "machines: []"])
def test_an_empty_inventory_is_one(tmp_path: Path, text: str) -> None:
    assert opened(tmp_path, text).machines() == ()


def test_a_change_counts_from_the_next_round_on(tmp_path: Path) -> None:
    provider = opened(tmp_path)
    write(tmp_path / "inventory.yaml", GOOD.replace('A100": 8', 'A100": 9'))
    assert provider.stock(ONE, A100).free == 8
    provider.machines()
    assert provider.stock(ONE, A100).free == 9


def test_a_broken_change_is_told_and_the_last_good_one_goes_on(tmp_path: Path) -> None:
    provider = opened(tmp_path)
    write(tmp_path / "inventory.yaml", GOOD.replace("max: 4", "max: four"))
    for _ in range(3):
        with pytest.raises(FabricOdd, match=r"machines\.0\.limits\.NVIDIA A100\.max: is not a whole number"):
            provider.machines()
        assert provider.stock(ONE, A100).free == 8
        with pytest.raises(FabricOdd, match="is not a whole number"):
            provider.limits(ONE, [A100])  # none would lift the known ones
    write(tmp_path / "inventory.yaml", GOOD)
    assert len(provider.machines()) == 3
    (tmp_path / "inventory.yaml").unlink()
    with pytest.raises(FabricOdd, match="cannot be read: No such file or directory"):
        provider.machines()
    assert provider.limits(ONE, [A100]) == {A100.model: Limit(4, 1)}
    write(tmp_path / "inventory.yaml", GOOD)
    assert len(provider.machines()) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machines: [", "is not YAML (line 2)"),
        ("a: 1\na: 2", "a key stands twice in a mapping (line 2)"),
        ('fabrics: {"0": {"A": 1, "A": 2}}', "a key stands twice in a mapping (line 1)"),
        ("[]", "yaml: is not a mapping"),
        ("", "is empty; write machines: []"),
        ("# nothing\n", "is empty"),
        ("machines: {}", "machines: is not a list"),
        ("servers: []", "servers: is no field that is known here"),
        ("machines: [{}]", "machines.0: give either uuid or node"),
        ("machines: [{uuid: a, node: b}]", "machines.0: give either uuid or node"),
        ("machines: [{uuid: 5}]", "machines.0.uuid: is not a text (put it in quotes)"),
        ("machines: [{uuid: ''}]", "machines.0.uuid: is not at most 253 letters, digits and . _ : -"),
        ("machines: [{node: a}, {node: a}]", "machines.1: the machine is given twice"),
        ("machines: [{uuid: a}, {uuid: A}]", "machines.1: the machine is given twice"),
        ("machines: [{node: a, fabric: '1'}]", "machines.0.fabric: fabrics has no such entry"),
        ("machines: [{node: a, limits: {A: {max: 1, min: 2}}}]", "machines.0.limits.A: min is above max"),
        ("fabrics: {'a b': {}}", "fabrics.a b: is not at most 63 small letters"),
        ("fabrics: {rack-fabric1: {}}", "holds -fabric, which stands before the id in the name of a pool"),
        ("fabrics: {true: {}}", "fabrics.1: is not a text"),
        ("fabrics: {'0': {A: -1}}", "fabrics.0.A: is below 0"),
        ("fabrics: {'0': {A: four}}", "fabrics.0.A: is not a whole number"),
        ("fabrics: {'0': {A: {device: []}}}", "fabrics.0.A.devices: is missing"),
        ("fabrics: {'0': {A: 1000000}}", "fabrics.0.A: is above 999,999"),
        ("fabrics: {'0': {A: {devices: [{id: x}, {id: x}]}}}", "a device is given twice"),
        ("fabrics: {'0': {A: {devices: [{id: ' x'}]}}}", "devices.0.id: is not 1 to 253 printable ASCII characters"),
        ("fabrics: !!python/object/apply:os.system ['true']", "is not YAML"),
        ("fabrics: {? [1] : 2}", "is not YAML"),
        ("--- 1\n--- 2", "is not YAML"),
        ("[" * 1_000_000, "is nested more than 16 levels deep (line 1)"),
        ("machines: &a [{node: a}]\nfabrics: *a", "aliases (*name) are not allowed (line 2)"),
        ("\x00", "is not YAML"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FabricError) as caught:
        opened(tmp_path, text).machines()
    message = str(caught.value)
    assert message.startswith(f"inventory {tmp_path / 'inventory.yaml'}: ")
    assert words in message and "\n" not in message
    assert "function" not in message and "counted" not in message and "named" not in message


def test_many_faults_are_told_at_once_and_counted(tmp_path: Path) -> None:
    with pytest.raises(FabricOdd, match=r"machines\.0\.uuid: .*; machines\.4\.uuid: .*; and 95 more"):
        opened(tmp_path, "machines: [" + "{uuid: 1}, " * 100 + "]").machines()


def test_an_entry_with_faults_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    text = """
machines: [{node: a, fabric: "0"}, {node: b, fabrik: "0"}, {node: c, fabric: "0"}, {node: [d]}]
fabrics: {"0": {"NVIDIA A100": {devices: [{id: x}, {id: " y"}, {id: z, healthy: maybe}, {id: w}]}}}
"""
    provider = opened(tmp_path, text)
    with pytest.raises(FabricPartly) as caught:
        provider.machines()
    assert [one.name for one in caught.value.machines] == ["a", "c"] and caught.value.lasting
    for place in (
        "machines.1",
        "machines.3.node",
        "fabrics.0.NVIDIA A100.devices.1.id",
        "NVIDIA A100.devices.2.healthy",
    ):
        assert place in str(caught.value)
    stock = provider.stock(caught.value.machines[0], A100)
    assert [one.id for one in stock.devices or ()] == ["w", "x"]


def test_all_models_that_are_counted(tmp_path: Path) -> None:
    provider = opened(tmp_path)
    assert isinstance(provider, FileProvider) and provider.models == {"NVIDIA A100", "NVIDIA H100"}


def test_what_is_no_text_or_far_too_long(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FabricOdd, match="is not YAML"):
        open_provider(FabricSettings("file", inventory=path))
    path.write_bytes(b"#" * (8 * 1024 * 1024 + 1))
    with pytest.raises(FabricOdd, match="is longer than 8 MiB"):
        open_provider(FabricSettings("file", inventory=path))
    with pytest.raises(FabricOdd, match="cannot be read: Is a directory; check path and permissions"):
        open_provider(FabricSettings("file", inventory=tmp_path))
