"""Quantities, and which model a pool lists."""

import pytest

from dds_core.matching.quantities import amount
from dds_core.model import Config, Model
from dds_core.scaler.model import model_of_pool


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
