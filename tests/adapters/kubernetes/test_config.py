"""The ConfigMap: every rule, entry by entry, and what stands when a part of it is bad."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_adapters.kubernetes.decode.config import read_config
from dds_core.model import Config, Model
from tests.adapters.kubernetes.samples import raw_of, sample

A100 = Model(1, "A100 40G", "nvidia-a100-40", "gpu.nvidia.com", {"productName": "NVIDIA A100 40GB PCIe"}, (2,))
INFO = "data.device-info"


def entry(**changes: Any) -> dict[str, Any]:
    """A good entry; `...` takes a key out, underscores in keys stand for dashes."""
    whole: dict[str, Any] = {
        "index": 1,
        "cdi-model-name": "A100 40G",
        "dra-attributes": {"productName": "NVIDIA A100 40GB PCIe"},
        "driver-name": "gpu.nvidia.com",
        "k8s-device-name": "nvidia-a100-40",
        "cannot-coexist-with": [2],
    }
    whole.update({key.replace("_", "-"): value for key, value in changes.items()})
    return {key: value for key, value in whole.items() if value is not ...}


OTHER = entry(index=2, cdi_model_name="H100", k8s_device_name="nvidia-h100", cannot_coexist_with=[])


def read(previous: Config | None = None, **data: Any) -> tuple[Config, list[tuple[str, str]]]:
    obj = sample("configmaps")
    for key, value in data.items():
        obj["data"][key.replace("_", "-")] = value
    obj["data"] = {key: value for key, value in obj["data"].items() if value is not ...}
    config, faults = read_config(raw_of(obj), previous)
    return config, [(fault.field, fault.reason) for fault in faults]


def read_entries(*entries: Any) -> tuple[tuple[Model, ...], list[tuple[str, str]]]:
    config, faults = read(device_info=json.dumps(entries))
    return config.models, faults


def test_a_good_one() -> None:
    assert read() == (Config("u-1", "cohdi.io", (A100,), (1,), "attach"), [])


def test_what_may_be_left_out() -> None:
    config, faults = read(label_prefix=..., fabric_id_range=..., mode=...)
    assert (config.prefix, config.fabrics, config.mode, faults) == ("cohdi.io", (), "", [])


def test_block_style_yaml_reads_the_same() -> None:
    text = """
# what the fabric has
- index: 1
  cdi-model-name: A100 40G
  dra-attributes:
    productName: "NVIDIA A100 40GB PCIe"
  label-key-model: unused
  driver-name: gpu.nvidia.com
  k8s-device-name: nvidia-a100-40
  cannot-coexist-with:
  - 2
"""
    config, faults = read(device_info=text)
    assert (config.models, faults) == ((A100,), [])


LONG = "a" * 64
BAD_ENTRIES: list[tuple[dict[str, Any], str, str]] = [
    ({"index": ...}, ".index", "is not a whole number from 0 to 10000"),
    ({"index": -1}, ".index", "is not a whole number from 0 to 10000"),
    ({"index": 10_001}, ".index", "is not a whole number from 0 to 10000"),
    ({"index": "1"}, ".index", "is not a whole number from 0 to 10000"),
    ({"index": True}, ".index", "is not a whole number from 0 to 10000"),
    ({"index": 1.5}, ".index", "is not a whole number from 0 to 10000"),
    ({"driver_name": ...}, ".driver-name", "is not a DNS subdomain of at most 63 characters"),
    ({"driver_name": "GPU.nvidia.com"}, ".driver-name", "is not a DNS subdomain of at most 63 characters"),
    ({"driver_name": "gpu..com"}, ".driver-name", "is not a DNS subdomain of at most 63 characters"),
    ({"driver_name": LONG}, ".driver-name", "is not a DNS subdomain of at most 63 characters"),
    ({"k8s_device_name": ...}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "Nvidia"}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "a.b"}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "-a"}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "a\n"}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "ä"}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"k8s_device_name": "a" * 51}, ".k8s-device-name", "is not a DNS label of at most 50 characters"),
    ({"dra_attributes": ...}, ".dra-attributes", "is not a mapping"),
    ({"dra_attributes": ["productName"]}, ".dra-attributes", "is not a mapping"),
    ({"dra_attributes": {"type": "gpu"}}, ".dra-attributes.productName", "is missing"),
    (
        {"dra_attributes": {"productName": LONG + "a"}},
        ".dra-attributes.productName",
        "is not a text of at most 64 bytes (put numbers in quotes)",
    ),
    (
        {"dra_attributes": {"productName": 5}},
        ".dra-attributes.productName",
        "is not a text of at most 64 bytes (put numbers in quotes)",
    ),
    (
        {"dra_attributes": {"productName": "a", "-b": "c"}},
        ".dra-attributes",
        "has a name that is not a qualified name, [domain/]name",
    ),
    (
        {"dra_attributes": {"productName": "a", "B/c/d": "c"}},
        ".dra-attributes",
        "has a name that is not a qualified name, [domain/]name",
    ),
    (
        {"dra_attributes": {"productName": "a"} | {f"a{i}": "b" for i in range(32)}},
        ".dra-attributes",
        "has more than 32 entries",
    ),
    ({"cannot_coexist_with": ...}, ".cannot-coexist-with", "is missing (an empty list says: coexists with all)"),
    ({"cannot_coexist_with": 2}, ".cannot-coexist-with", "is not a list of at most 100 indexes"),
    ({"cannot_coexist_with": list(range(101))}, ".cannot-coexist-with", "is not a list of at most 100 indexes"),
    ({"cannot_coexist_with": [10_001]}, ".cannot-coexist-with", "an index is not a whole number from 0 to 10000"),
    ({"cannot_coexist_with": ["2"]}, ".cannot-coexist-with", "an index is not a whole number from 0 to 10000"),
    ({"request_type": "tpu"}, ".request-type", "is not gpu or cxlmemory"),
    ({"request_type": ["gpu"]}, ".request-type", "is not gpu or cxlmemory"),
]


@pytest.mark.parametrize(("changes", "field", "reason"), BAD_ENTRIES)
def test_a_bad_entry_is_named_and_the_others_stand(changes: dict[str, Any], field: str, reason: str) -> None:
    models, faults = read_entries(entry(**changes), OTHER)
    assert [one.model for one in models] == ["H100"]
    assert faults == [(f"{INFO}[A100 40G]{field}", reason)]


SLIPS: list[tuple[dict[str, Any], bool]] = [
    ({"driver_name": "Not A Name"}, False),
    ({"cdi_model_name": ..., "index": "x"}, False),
    ({"cdi_model_name": 5, "k8s_device_name": []}, False),
    ({"index": 2}, False),
    ({"index": 2}, True),
    ({"cdi_model_name": "H100"}, False),
]


@pytest.mark.parametrize(("slip", "first"), SLIPS)
def test_a_slip_of_the_pen_takes_no_model_away(slip: dict[str, Any], first: bool) -> None:
    """The publisher goes on listing its devices, so that claims for it keep coming."""
    before, _ = read(device_info=json.dumps([entry(), OTHER]))
    slipped = [entry(**slip), OTHER] if first else [OTHER, entry(**slip)]
    config, faults = read(before, device_info=json.dumps(slipped))
    assert {one.model for one in config.models} == {"A100 40G", "H100"} and len(faults) == 1
    assert first or A100 in config.models


L40 = entry(index=5, cdi_model_name="L40", k8s_device_name="l40", driver_name="Not A Name")


@pytest.mark.parametrize(
    "written",
    [
        [entry(), L40],
        [entry(cdi_model_name="A100 4OG", k8s_device_name="Not A Name"), OTHER],
        [entry(cdi_model_name="", k8s_device_name="Not A Name"), OTHER],
    ],
)
def test_what_an_entry_that_nobody_knows_may_be_goes_on_being_served(written: list[Any]) -> None:
    """The publisher withdraws no pool for lack of a model then, and claims for its devices keep coming until it is mended."""
    before, _ = read(device_info=json.dumps([entry(), OTHER]))
    slipped, _ = read(before, device_info=json.dumps(written))
    assert {one.model for one in slipped.models} == {"A100 40G", "H100"}
    mended, _ = read(slipped, device_info=json.dumps([entry()]))
    assert mended.models == (A100,)


def test_a_model_that_is_taken_out_is_gone_when_what_is_broken_is_another() -> None:
    before, _ = read(device_info=json.dumps([entry(), OTHER]))
    config, _ = read(before, device_info=json.dumps([entry(driver_name="")]))
    assert config.models == (A100,)
    assert read(before, device_info="[]")[0].models == ()


@pytest.mark.parametrize("name", [..., "", 5, "a" * 1001])
def test_an_entry_without_a_usable_model_is_named_by_its_place(name: Any) -> None:
    models, faults = read_entries(OTHER, entry(cdi_model_name=name))
    assert len(models) == 1
    assert faults == [(f"{INFO}[1].cdi-model-name", "is not a text of 1 to 1000 bytes")]


def test_limits_that_are_just_kept() -> None:
    models, faults = read_entries(
        entry(
            index=10_000,
            cdi_model_name="ä" * 500,
            driver_name="a" * 63,
            k8s_device_name="a" * 50,
            dra_attributes={"productName": "a" * 64, "example.com/other": ""} | {f"a{i}": "b" for i in range(30)},
            cannot_coexist_with=list(range(100)),
        ),
        entry(index=0, cannot_coexist_with=[]),
    )
    assert (len(models), faults) == (2, [])


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("index", {"index": 1}),
        ("cdi-model-name", {"cdi_model_name": "A100 40G"}),
        ("k8s-device-name", {"k8s_device_name": "nvidia-a100-40"}),
    ],
)
def test_of_two_with_one_identity_the_first_stands(key: str, changes: dict[str, Any]) -> None:
    second = entry(**({"index": 2, "cdi_model_name": "H100", "k8s_device_name": "nvidia-h100"} | changes))
    models, faults = read_entries(entry(), second)
    assert [one.index for one in models] == [1]
    assert faults == [(f"{INFO}[{second['cdi-model-name']}].{key}", "is that of an entry before it")]


def test_a_rejected_entry_takes_nobodys_identity() -> None:
    models, faults = read_entries(entry(driver_name=""), entry())
    assert models == (A100,) and len(faults) == 1


@pytest.mark.parametrize("other", [None, 5, "text", ["index"]])
def test_an_entry_that_is_no_mapping(other: Any) -> None:
    models, faults = read_entries(entry(), other)
    assert (models, faults) == ((A100,), [(f"{INFO}[1]", "is not a mapping")])


def test_a_key_given_twice() -> None:
    one, two = json.dumps(entry()), json.dumps(OTHER)
    config, faults = read(device_info=f'[{one[:-1]}, "index": 7}}, {two}]')
    assert [m.model for m in config.models] == ["H100"] and faults == [(f"{INFO}[A100 40G]", "gives index twice")]
    twice = json.dumps(entry()).replace('{"productName"', '{"productName": "a", "productName"')
    assert read(device_info=f"[{twice}]")[1] == [(f"{INFO}[A100 40G].dra-attributes", "gives an attribute twice")]


BAD_TEXTS = [
    (..., "is missing"),
    ("", "is not a list"),
    ("index: 1", "is not a list"),
    ("- a\n- b: c: d", "is not YAML (line 2)"),
    ("- a\n--- \n- b", "holds more than one YAML document"),
    ("- &a [1]\n- *a", "is not usable YAML: aliases (*name) are not allowed"),
    ("- !!python/object/apply:os.system [ls]", "is not usable YAML: tags (!name) are not allowed"),
    ("- !thing 5", "is not usable YAML: tags (!name) are not allowed"),
    ("- {[a]: b}", "is not usable YAML: a key is not text (put it in quotes)"),
    ("- {1: b}", "is not usable YAML: a key is not text (put it in quotes)"),
    ("[" * 9 + "]" * 9, "is nested more than 8 levels deep"),
    ("[" * 200_000, "is nested more than 8 levels deep"),
    ("# " + "a" * 256 * 1024, "is longer than 256 KiB"),
    ("- \x07", "is not YAML"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_TEXTS)
def test_a_list_that_cannot_be_read_leaves_what_was(text: Any, reason: str) -> None:
    before = Config("u-1", "cohdi.io", (A100,), (1,), "attach")
    config, faults = read(before, device_info=text)
    assert (config, faults) == (before, [(INFO, reason)])
    assert read(device_info=text)[0].models == ()


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert read(device_info="\n".join(lines))[1] == [(INFO, "is not usable YAML: aliases (*name) are not allowed")]


@pytest.mark.parametrize("text", ["yes", "2026-11-21", "1:30", "0x10", "1_000", "1e3", "010", "0o17", ".inf"])
def test_plain_words_stay_text(text: str) -> None:
    info = json.dumps([entry()]).replace('"NVIDIA A100 40GB PCIe"', text)
    config, faults = read(device_info=info)
    assert (config.models[0].attributes, faults) == ({"productName": text}, [])


@pytest.mark.parametrize("prefix", ["", "a" * 101, "Cohdi.io", "a..b", "-a", "a_b", "cohdi.io/", "a\n"])
def test_a_bad_prefix_leaves_what_was(prefix: str) -> None:
    fault = ("data.label-prefix", "is not a DNS subdomain of at most 100 characters")
    config, faults = read(Config("u-1", "example.com"), label_prefix=prefix)
    assert (config.prefix, config.models, faults) == ("example.com", (A100,), [fault])
    assert read(label_prefix=prefix)[0].prefix == "cohdi.io"


@pytest.mark.parametrize("text", ["1", "[a]", "[1.5]", "[true]", "{}", "", json.dumps(list(range(101)))])
def test_bad_fabrics_leave_what_was(text: str) -> None:
    config, faults = read(Config("u-1", fabrics=(7,)), fabric_id_range=text)
    assert (config.fabrics, config.models) == ((7,), (A100,))
    assert faults == [("data.fabric-id-range", "is not a list of at most 100 whole numbers")]


@pytest.mark.parametrize("mode", ["observe", "attach", "detach"])
def test_the_kill_switch(mode: str) -> None:
    config, faults = read(mode=mode)
    assert (config.mode, faults) == (mode, [])


@pytest.mark.parametrize("mode", ["off", "Observe", "observe ", "stop"])
def test_a_mistyped_kill_switch_stops(mode: str) -> None:
    config, faults = read(mode=mode)
    assert config.mode == "observe" and config.models == (A100,)
    assert faults == [("data.mode", "is not observe, attach, detach: taken as observe")]


def test_several_faults_at_once_leave_the_good_parts() -> None:
    config, faults = read(device_info=json.dumps([entry(), entry(index=-1)]), label_prefix="A", fabric_id_range="x")
    assert config.models == (A100,)
    assert [field for field, _ in faults] == ["data.label-prefix", "data.fabric-id-range", f"{INFO}[A100 40G].index"]
