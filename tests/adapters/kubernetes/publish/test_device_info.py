"""The ConfigMap as the publisher reads it: every key, every rule, and what stands when a part of it is bad."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes.decode.config import read_config
from dds_adapters.kubernetes.publish.device_info import read_pool_config
from dds_core.publisher.model import Attribute, Capacity, PoolConfig, PoolModel, Range
from tests.adapters.kubernetes.samples import raw_of, sample
from tests.adapters.kubernetes.test_config import entry

PLACE = "data.device-info[A100 40G]"
NAME = Attribute(string="NVIDIA A100 40GB PCIe")
A100 = PoolModel(1, "A100 40G", "nvidia-a100-40", "gpu.nvidia.com", "gpu", {"productName": NAME})
OTHER = entry(index=2, cdi_model_name="H100", k8s_device_name="nvidia-h100")


def config_map(**data: Any) -> dict[str, Any]:
    obj = sample("configmaps")
    obj["data"].update({key.replace("_", "-"): value for key, value in data.items()})
    obj["data"] = {key: value for key, value in obj["data"].items() if value is not ...}
    return obj


def read(previous: PoolConfig | None = None, **data: Any) -> tuple[PoolConfig, list[tuple[str, str]]]:
    config, faults = read_pool_config(raw_of(config_map(**data)), previous)
    return config, [(fault.field, fault.reason) for fault in faults]


def read_entries(*entries: Any) -> tuple[tuple[PoolModel, ...], list[tuple[str, str]]]:
    config, faults = read(device_info=json.dumps(entries))
    return config.models, faults


def the(**changes: Any) -> PoolModel:
    models, faults = read_entries(entry(**changes))
    assert faults == []
    return models[0]


def fault(**changes: Any) -> tuple[str, str]:
    """What is wrong with an entry; the one after it stands, and so it does where nothing but the reference's keys is read."""
    models, faults = read_entries(entry(**changes), OTHER)
    assert [one.model for one in models] == ["H100"]
    ((field, reason),) = faults
    assert field.startswith(PLACE)
    return field.removeprefix(PLACE), reason


def test_an_entry_of_the_reference_is_published_as_texts() -> None:
    assert read() == (PoolConfig("u-1", "cohdi.io", (A100,), "attach"), [])


def test_empty_texts_stay() -> None:
    """The reference's chart has an empty uuid, so that selectors on it find the name."""
    assert the(dra_attributes={"productName": "A", "type": "gpu", "uuid": ""}).attributes == {
        "productName": Attribute(string="A"),
        "type": Attribute(string="gpu"),
        "uuid": Attribute(string=""),
    }


def test_attributes_of_every_type() -> None:
    given = {
        "brand": {"string": "Nvidia"},
        "numa": {"int": -1},
        "ecc": {"bool": False},
        "cudaComputeCapability": {"version": "8.0.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }
    assert the(attributes=given).attributes == {
        "productName": NAME,
        "brand": Attribute(string="Nvidia"),
        "numa": Attribute(integer=-1),
        "ecc": Attribute(boolean=False),
        "cudaComputeCapability": Attribute(version="8.0.0"),
        "resource.kubernetes.io/pcieRoot": Attribute(string="pci0000:00"),
    }


def test_capacities_in_one_spelling() -> None:
    given = {"memory": "81920Mi", "cores": 64, "share": 1.5, "multiprocessors": {"value": "108"}}
    assert the(capacity=given).capacity == {
        "memory": Capacity("80Gi"),
        "cores": Capacity("64"),
        "share": Capacity("1500m"),
        "multiprocessors": Capacity("108"),
    }


def test_shares_with_values_or_a_range() -> None:
    found = the(
        allow_multiple_allocations=True,
        res_type="memory",
        capacity={
            "a": {"value": "40Gi", "requestPolicy": {"default": "5Gi", "validValues": ["5Gi", "10240Mi", "40Gi"]}},
            "b": {
                "value": "10Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}},
            },
            "c": {"value": "10Gi", "requestPolicy": {"default": "1Mi", "validRange": {"min": "1Mi"}}},
            "d": {"value": 8, "requestPolicy": {"default": 2}},
            "e": {"value": 8, "requestPolicy": {}},
            "f": 9,
        },
    )
    assert (found.shared, found.type) == (True, "memory")
    assert found.capacity == {
        "a": Capacity("40Gi", "5Gi", ("5Gi", "10Gi", "40Gi")),
        "b": Capacity("10Gi", "1Gi", valid_range=Range("1Gi", "8Gi", "1Gi")),
        "c": Capacity("10Gi", "1Mi", valid_range=Range("1Mi")),
        "d": Capacity("8", "2"),
        "e": Capacity("8"),
        "f": Capacity("9"),
    }


LONG = "a" * 33
TYPES = "is not a mapping of one type (string, int, bool, version) to a value"
IDENTIFIER = "has a name that is not [domain/]identifier, with an identifier of letters, digits and _, at most 32"
QUANTITY = "is not a quantity, as 80Gi, 1500m or 64, of at least 0"


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        (["a"], "", "is not a mapping"),
        ({"a": "b"}, ".a", TYPES),
        ({"a": {}}, ".a", TYPES),
        ({"a": {"string": "x", "int": 1}}, ".a", TYPES),
        ({"a": {"strings": ["x"]}}, ".a", "is of a type that is not known (known: string, int, bool, version)"),
        ({"a": {"string": 5}}, ".a", "is not a text of at most 64 bytes (put numbers in quotes)"),
        ({"a": {"string": "ä" * 33}}, ".a", "is not a text of at most 64 bytes (put numbers in quotes)"),
        ({"a": {"int": "5"}}, ".a", "is not a whole number of 64 bits"),
        ({"a": {"int": True}}, ".a", "is not a whole number of 64 bits"),
        ({"a": {"int": 2**63}}, ".a", "is not a whole number of 64 bits"),
        ({"a": {"int": 1.5}}, ".a", "is not a whole number of 64 bits"),
        ({"a": {"bool": 1}}, ".a", "is not true or false"),
        ({"a": {"version": "1.2"}}, ".a", "is not a semantic version (three numbers, as 1.2.3)"),
        ({"a": {"version": "v1.2.3"}}, ".a", "is not a semantic version (three numbers, as 1.2.3)"),
        ({"a": {"version": "01.2.3"}}, ".a", "is not a semantic version (three numbers, as 1.2.3)"),
        ({"a": {"version": 8}}, ".a", "is not a text of at most 64 bytes (put it in quotes)"),
        ({"a-b": {"int": 1}}, "", IDENTIFIER),
        ({"1a": {"int": 1}}, "", IDENTIFIER),
        ({LONG: {"int": 1}}, "", IDENTIFIER),
        ({"/a": {"int": 1}}, "", IDENTIFIER),
        ({"Domain/a": {"int": 1}}, "", IDENTIFIER),
        ({f"{'d' * 64}/a": {"int": 1}}, "", IDENTIFIER),
        ({"x/y/a": {"int": 1}}, "", IDENTIFIER),
        ({"productName": {"string": "B"}}, ".productName", "is given before (without a domain it is the driver's)"),
        (
            {"gpu.nvidia.com/productName": {"string": "B"}},
            ".gpu.nvidia.com/productName",
            "is given before (without a domain it is the driver's)",
        ),
    ],
)
def test_a_bad_attribute(given: Any, field: str, reason: str) -> None:
    assert fault(attributes=given) == (f".attributes{field}", reason)


def test_a_text_that_the_api_would_refuse_by_its_name() -> None:
    """The reference publishes it, and the API server then refuses the slice."""
    assert fault(dra_attributes={"productName": "A", "my-name": "b"}) == (".dra-attributes", IDENTIFIER)


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ("80Gi", "", "is not a mapping"),
        ({"a b": 1}, "", IDENTIFIER),
        ({"m": 1, "gpu.nvidia.com/m": 2}, ".gpu.nvidia.com/m", "is given before (without a domain it is the driver's)"),
        ({"m": "80GB"}, ".m", QUANTITY),
        ({"m": ""}, ".m", QUANTITY),
        ({"m": "-1Gi"}, ".m", QUANTITY),
        ({"m": True}, ".m", QUANTITY),
        ({"m": None}, ".m", QUANTITY),
        ({"m": ["1"]}, ".m", QUANTITY),
        ({"m": {}}, ".m.value", QUANTITY),
        ({"m": {"value": 1, "requestpolicy": {}}}, ".m", "has another key than value, requestPolicy"),
        (
            {"m": {"value": 8, "requestPolicy": {"default": 1}}},
            ".m.requestPolicy",
            "is for devices with allow-multiple-allocations: true",
        ),
    ],
)
def test_a_bad_capacity(given: Any, field: str, reason: str) -> None:
    assert fault(capacity=given) == (f".capacity{field}", reason)


@pytest.mark.parametrize(
    ("policy", "field", "reason"),
    [
        ([], "", "is not a mapping"),
        ({"Default": 1}, "", "has another key than default, validValues, validRange"),
        ({"default": 1, "validValues": [1], "validRange": {"min": 1}}, "", "has both validValues and validRange"),
        ({"validValues": [1]}, ".default", "is missing"),
        ({"validRange": {"min": 1}}, ".default", "is missing"),
        ({"default": 11}, ".default", "is more than the value"),
        ({"default": "x"}, ".default", QUANTITY),
        ({"default": 1, "validValues": []}, ".validValues", "is not a list of 1 to 10 quantities"),
        ({"default": 1, "validValues": list(range(11))}, ".validValues", "is not a list of 1 to 10 quantities"),
        ({"default": 1, "validValues": {"a": 1}}, ".validValues", "is not a list of 1 to 10 quantities"),
        ({"default": 1, "validValues": [1, 11]}, ".validValues[1]", "is more than the value"),
        ({"default": 1, "validValues": [1, 3, 2]}, ".validValues[2]", "is not larger than the one before it"),
        ({"default": 1, "validValues": [1, "1000m"]}, ".validValues[1]", "is not larger than the one before it"),
        ({"default": 4, "validValues": [1, 2]}, ".default", "is not one of validValues"),
        ({"default": 1, "validRange": [1]}, ".validRange", "is not a mapping"),
        ({"default": 1, "validRange": {}}, ".validRange.min", "is missing"),
        ({"default": 1, "validRange": {"min": 1, "most": 2}}, ".validRange", "has another key than min, max, step"),
        ({"default": 1, "validRange": {"min": 2}}, ".validRange.min", "is more than default"),
        ({"default": 1, "validRange": {"min": 1, "max": 11}}, ".validRange.max", "is more than the value"),
        ({"default": 4, "validRange": {"min": 1, "max": 3}}, ".default", "is more than validRange.max"),
        ({"default": 1, "validRange": {"min": 1, "step": 0}}, ".validRange.step", "is not above zero"),
        (
            {"default": 1, "validRange": {"min": 1, "step": 10}},
            ".validRange.step",
            "is too large: min and one step are more than the value",
        ),
        (
            {"default": 2, "validRange": {"min": 1, "step": 2}},
            ".default",
            "is not min and a number of whole steps",
        ),
        (
            {"default": 1, "validRange": {"min": 1, "max": 4, "step": 2}},
            ".validRange.max",
            "is not min and a number of whole steps",
        ),
    ],
)
def test_a_bad_request_policy(policy: Any, field: str, reason: str) -> None:
    given = {"m": {"value": 10, "requestPolicy": policy}}
    found = fault(capacity=given, allow_multiple_allocations=True)
    assert found == (f".capacity.m.requestPolicy{field}", reason)


@pytest.mark.parametrize("value", ["true", 1, []])
def test_bad_flags_and_words(value: Any) -> None:
    assert fault(allow_multiple_allocations=value) == (".allow-multiple-allocations", "is not true or false")
    assert value == "true" or fault(res_type=value) == (".res-type", "is not a word of at most 63 characters")


def test_no_more_values_than_a_device_may_have() -> None:
    texts = {"productName": "A"} | {f"t{n}": "x" for n in range(15)}
    typed = {f"a{n}": {"int": n} for n in range(8)}
    many = {f"c{n}": n for n in range(9)}
    assert fault(dra_attributes=texts, attributes=typed, capacity=many) == (
        "",
        "has more than 32 attributes and capacities together",
    )
    del many["c8"]
    assert len(the(dra_attributes=texts, attributes=typed, capacity=many).attributes) == 24


def test_what_stands_twice_is_told_and_its_entry_left_out() -> None:
    lines = """
- index: 1
  cdi-model-name: A100 40G
  dra-attributes: {productName: A}
  driver-name: gpu.nvidia.com
  k8s-device-name: a100
  cannot-coexist-with: []
"""
    for more, field, reason in (
        ("  capacity: {}\n  capacity: {}\n", "", "gives capacity twice"),
        ("  capacity: {memory: 1Gi, memory: 2Gi}\n", ".capacity", "gives a name twice"),
        ("  attributes: {a: {int: 1}, a: {int: 2}}\n", ".attributes", "gives a name twice"),
        ("  attributes: {a: {int: 1, int: 2}}\n", ".attributes.a", TYPES),
        ("  capacity: {memory: {value: 1, value: 2}}\n", ".capacity.memory", "gives value twice"),
    ):
        config, faults = read(device_info=lines + more)
        assert (config.models, faults) == ((), [(PLACE + field, reason)])


def test_plain_yaml_as_people_write_it() -> None:
    text = """
- index: 7
  cdi-model-name: CXL-512
  dra-attributes:
    productName: CXL memory 512 GiB
    type: memory
  attributes:
    numa: {int: 1}
    firmware: {version: 1.4.0}
  capacity:
    memory:
      value: 512Gi
      requestPolicy:
        default: 1Gi
        validRange: {min: 1Gi, step: 1Gi}
  allow-multiple-allocations: true
  res-type: cxl
  driver-name: cxl.example.com
  k8s-device-name: cxl-512
  cannot-coexist-with: []
"""
    config, faults = read(device_info=text)
    assert faults == []
    assert config.models == (
        PoolModel(
            index=7,
            model="CXL-512",
            device="cxl-512",
            driver="cxl.example.com",
            type="cxl",
            attributes={
                "productName": Attribute(string="CXL memory 512 GiB"),
                "type": Attribute(string="memory"),
                "numa": Attribute(integer=1),
                "firmware": Attribute(version="1.4.0"),
            },
            capacity={"memory": Capacity("512Gi", "1Gi", valid_range=Range("1Gi", "", "1Gi"))},
            shared=True,
        ),
    )
    scalers, same = read_config(raw_of(config_map(device_info=text)), None)
    assert [one.model for one in scalers.models] == ["CXL-512"] and same == ()


def test_the_scaler_takes_an_entry_whatever_the_publisher_thinks_of_its_own_keys() -> None:
    bad: list[dict[str, Any]] = [
        {"capacity": "none"}, {"attributes": 5}, {"allow_multiple_allocations": "often"}, {"res_type": []},
    ]  # fmt: skip
    for more in bad:
        fault(**more)
        raw = raw_of(config_map(device_info=json.dumps([entry(**more)])))
        config, faults = read_config(raw, None)
        assert (len(config.models), faults) == (1, ())


def test_what_is_bad_for_the_scaler_is_bad_for_the_publisher() -> None:
    assert fault(cannot_coexist_with=...)[0] == ".cannot-coexist-with"
    models, faults = read_entries(entry(), entry(capacity={"memory": "1Gi"}))
    assert models == (A100,) and faults == [(f"{PLACE}.index", "is that of an entry before it")]


def test_what_was_in_force_stands_for_what_is_bad_as_a_whole() -> None:
    before = PoolConfig("u-1", "old.example", (A100,), "attach")
    config, faults = read(before, device_info="{", label_prefix="No Prefix", mode="fast")
    assert config == PoolConfig("u-1", "old.example", (A100,), "observe")
    assert [field for field, _ in faults] == ["data.label-prefix", "data.device-info", "data.mode"]
    assert read(before, device_info=..., mode=...)[0].models == (A100,)


@pytest.mark.parametrize(
    ("slip", "first"),
    [
        ({"index": 2}, True),
        ({"index": 2}, False),
        ({"cdi_model_name": "H100"}, False),
        ({"index": 2, "cdi_model_name": "H100"}, False),
    ],
)
def test_what_is_copied_from_another_entry_takes_no_model_away(slip: dict[str, Any], first: bool) -> None:
    """Of two entries with one index or one name the first stands; the model of the other goes on as it was."""
    before, _ = read(device_info=json.dumps([entry(), OTHER]))
    slipped = [entry(**slip), OTHER] if first else [OTHER, entry(**slip)]
    config, faults = read(before, device_info=json.dumps(slipped))
    assert {one.model for one in config.models} == {"A100 40G", "H100"}
    assert len(faults) == 1 and not config.unread


def test_a_slip_of_the_pen_takes_no_model_away() -> None:
    before = PoolConfig("u-1", "cohdi.io", (A100,), "attach")
    names: list[dict[str, Any]] = [
        {"capacity": "much"},
        {"cdi_model_name": ..., "index": "x"},
        {"cdi_model_name": 5, "k8s_device_name": []},
        {"driver_name": "Not A Name"},
    ]
    for more in names:
        config, faults = read(before, device_info=json.dumps([entry(**more), OTHER]))
        assert sorted(one.model for one in config.models) == ["A100 40G", "H100"] and len(faults) == 1
        assert A100 in config.models
    assert A100 in read(before, device_info="[5]")[0].models


def test_a_model_that_is_taken_out_is_gone_whatever_else_is_broken() -> None:
    h100 = msgspec.structs.replace(A100, index=2, model="H100", device="nvidia-h100")
    before = PoolConfig("u-1", "cohdi.io", (A100, h100), "attach")
    config, _ = read(before, device_info=json.dumps([entry(capacity="much")]))
    assert config.models == (A100,)
    config, _ = read(before, device_info="[]")
    assert config.models == ()


def test_what_stood_before_gives_way_to_who_has_its_names_now() -> None:
    before = PoolConfig("u-1", "cohdi.io", (A100,), "attach")
    taken = entry(index=4, cdi_model_name="B")
    config, faults = read(before, device_info=json.dumps([taken, entry(index=3, capacity="much")]))
    assert [one.model for one in config.models] == ["B"] and len(faults) == 1


@pytest.mark.parametrize(
    ("broken", "known", "unread"),
    [
        (entry(k8s_device_name="A_100"), (), True),
        (entry(k8s_device_name="A_100"), (A100,), False),
        (entry(cdi_model_name="A100 80G", k8s_device_name="A_100"), (A100,), True),
        ("no entry", (), True),
        ("no entry", (A100,), False),
    ],
)
def test_that_an_entry_is_of_nobody_knows_which_model_is_remembered(
    broken: Any, known: tuple[PoolModel, ...], unread: bool
) -> None:
    """So that no pool goes because of it, on a log that does not know the model from before."""
    before = PoolConfig("u-1", models=known)
    config, faults = read(before, device_info=json.dumps([broken, OTHER]))
    assert config.unread is unread and faults
    assert read(config, device_info=json.dumps([OTHER]))[0].unread is False, "until all can be read"


def test_a_list_that_cannot_be_read_at_all_is_remembered_where_none_was_in_force() -> None:
    config, _ = read(None, device_info="}")
    assert config.unread and not config.models
    assert read(config, device_info="{")[0].unread
    assert not read(PoolConfig("u-1", models=(A100,)), device_info="}")[0].unread
