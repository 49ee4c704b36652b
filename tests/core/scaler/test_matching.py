"""Whether a device could satisfy a claim: "no" only where a class plainly demands another driver."""

import pytest

from dds_core.matching.quantities import amount
from dds_core.model import Claim, ClaimRequest, Config, Device, DeviceClass, Model
from dds_core.scaler.model import model_of_pool
from dds_core.scaler.rules.release import could_satisfy, excludes
from tests.support.world import GPU, World

OTHER = 'device.driver == "nic.example.com"'
KEY = (GPU, "node0", "gpu-0")


@pytest.mark.parametrize(
    ("expression", "excluded"),
    [
        (OTHER, True),
        ("device.driver=='nic.example.com'", True),
        (f"{OTHER} && device.attributes['x'].fast", True),
        (f'device.driver == "{GPU}"', False),
        (f'{OTHER} || device.driver == "{GPU}"', False),
        (f"!({OTHER})", False),
        (f"cond ? {OTHER} : true", False),
        ("device.driver.startsWith('nic')", False),
        ("true", False),
        ("", False),
    ],
)
def test_what_is_not_understood_counts_as_yes(expression: str, excluded: bool) -> None:
    assert excludes(DeviceClass("c", "nics", (expression,)), GPU) == excluded


PRODUCT = f'device.attributes["{GPU}"].productName'


@pytest.mark.parametrize(
    ("expression", "excluded"),
    [
        (f'{PRODUCT} == "NVIDIA H100"', True),
        (f'device.driver == "{GPU}" && {PRODUCT}=="NVIDIA H100"', True),
        (f"device.attributes['{GPU}'].productName == 'NVIDIA H100'", True),
        (f'{PRODUCT} == "NVIDIA A100"', False),
        (f'{PRODUCT} == "NVIDIA H100" || {PRODUCT} == "NVIDIA A100"', False),
        (f'!({PRODUCT} == "NVIDIA H100")', False),
        (f'({PRODUCT} == "NVIDIA H100" && true) == false', False),
        (f'{PRODUCT} == "NVIDIA H100" == false', False),
        (f'"NVIDIA H100" == {PRODUCT}', False),
        (f'{PRODUCT} != "NVIDIA A100"', False),
        (f'device.attributes["{GPU}"].unknown == "x"', False),
        ('device.attributes["other.example.com"].productName == "NVIDIA H100"', False),
        ('device.attributes["vendor.example.com"].kind == "fast"', True),
        (f'device.attributes["{GPU}"].memory == "x"', False),
    ],
)
def test_a_class_that_plainly_asks_for_another_model_cannot_take_it(expression: str, excluded: bool) -> None:
    attributes: dict[str, str | int | bool] = {
        "productName": "NVIDIA A100",
        "vendor.example.com/kind": "slow",
        "memory": 40,
    }
    assert excludes(DeviceClass("c", "gpus", (expression,)), GPU, Device(attributes=attributes)) == excluded


def test_one_request_that_could_take_it_is_enough() -> None:
    world = World()
    world.observe(DeviceClass("c1", "nics", (OTHER,)))
    world.observe(DeviceClass("c2", "gpus", (f'device.driver == "{GPU}"',)))
    asks = {
        (): True,
        ("nics",): False,
        ("nics", "gpus"): True,
        ("unknown",): True,
    }
    for classes, could in asks.items():
        requests = (ClaimRequest("r", classes),) if classes else ()
        assert could_satisfy(world.picture, Claim("c", requests=requests), KEY) == could, classes
    two = (ClaimRequest("a", ("nics",)), ClaimRequest("b", ("gpus",)))
    assert could_satisfy(world.picture, Claim("c", requests=two), KEY)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40Gi", 40 * 2**30),
        ("2500Mi", 2500 * 2**20),
        ("1e3", 1000),
        ("1.5k", 1500),
        ("7", 7),
        ("-2", -2),
        ("3.", 3),
        (".5M", 500_000),
    ],
)
def test_quantities_are_exact(text: str, value: int) -> None:
    assert amount(text) == value


@pytest.mark.parametrize(("small", "large"), [("100m", "1"), ("999Mi", "1Gi"), ("1G", "1Gi"), ("1n", "1u")])
def test_quantities_compare(small: str, large: str) -> None:
    assert (amount(small) or 0) < (amount(large) or 0)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "0x10", "1e", "∞", "1Gi "])
def test_what_is_no_quantity_is_none(text: str) -> None:
    assert amount(text) is None


# -- which model's devices a pool lists, by the name that publishers give it


_A = Model(0, "NVIDIA A100", "nvidia-a100", "gpu.nvidia.com")
_ODD = Model(1, "Odd", "on-fabric1", "gpu.nvidia.com")


@pytest.mark.parametrize(
    ("pool", "model"),
    [
        ("nvidia-a100-fabric0", _A),
        ("nvidia-a100-fabric12", _A),
        ("nvidia-a100-fabricrack-2", _A),
        ("on-fabric1-fabric3", _ODD),
        ("nvidia-a100-fabric", None),
        ("nvidia-a100", None),
        ("nvidia-h100-fabric0", None),
    ],
)
def test_the_name_says_model_and_fabric(pool: str, model: Model | None) -> None:
    config = Config("c", models=(_A, _ODD))
    assert model_of_pool(config, "gpu.nvidia.com", pool) == model
    assert model_of_pool(config, "other.example.com", pool) is None
