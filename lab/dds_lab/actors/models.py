"""The device models of the fabrics, and the ConfigMap `composable-dra-dds` from which scaler and publisher read them.

Nothing is validated here: scenarios are validated before, and a malformed ConfigMap raises `BadConfig`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from dds_core.errors import InputError
from dds_lab.client import Object

NAMESPACE = "composable-dra"
NAME = "composable-dra-dds"
PREFIX = "cohdi.io"


class BadConfig(InputError):
    """The ConfigMap cannot be read."""


@dataclass(frozen=True)
class Model:
    """One entry of device-info. `attributes`: the `dra-attributes` of pool devices. `type`: the fabric's res-type.
    `request_type`: the type of ComposabilityRequests ("" if the entry has none)."""

    index: int
    model: str
    device: str
    driver: str = "gpu.nvidia.com"
    attributes: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[int, ...] = ()
    type: str = "gpu"
    request_type: str = ""


@dataclass(frozen=True)
class DeviceInfo:
    """The parsed ConfigMap."""

    models: tuple[Model, ...]
    prefix: str = PREFIX
    fabrics: tuple[int, ...] = (0,)


def config_map(info: DeviceInfo) -> Object:
    entries = [
        {
            "index": one.index,
            "cdi-model-name": one.model,
            "dra-attributes": dict(one.attributes),
            "label-key-model": one.device,
            "driver-name": one.driver,
            "k8s-device-name": one.device,
            "cannot-coexist-with": list(one.conflicts),
            **({"res-type": one.type} if one.type != "gpu" else {}),
            **({"request-type": one.request_type} if one.request_type else {}),
        }
        for one in info.models
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {
            "device-info": json.dumps(entries),
            "fabric-id-range": json.dumps(list(info.fabrics)),
            "label-prefix": info.prefix,
        },
    }


def read_config_map(obj: Object) -> DeviceInfo:
    """Parse the ConfigMap. Raises BadConfig."""
    data = obj.get("data") or {}
    try:
        entries = yaml.safe_load(data["device-info"])
        fabrics = yaml.safe_load(data.get("fabric-id-range", "[0]"))
        models = tuple(_model(entry) for entry in _list(entries))
        return DeviceInfo(models, data.get("label-prefix", PREFIX), tuple(int(one) for one in _list(fabrics)))
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise BadConfig(
            f"device-info cannot be read ({type(error).__name__})",
            where=f"{NAMESPACE}/{NAME}",
            fix="correct the ConfigMap",
        ) from error


def _list(found: Any) -> Iterable[Any]:
    if not isinstance(found, list):
        raise TypeError("no list")
    return found


def _model(entry: Any) -> Model:
    return Model(
        index=int(entry["index"]),
        model=str(entry["cdi-model-name"]),
        device=str(entry["k8s-device-name"]),
        driver=str(entry["driver-name"]),
        attributes={str(name): str(value) for name, value in (entry.get("dra-attributes") or {}).items()},
        conflicts=tuple(int(one) for one in entry.get("cannot-coexist-with") or ()),
        type=str(entry.get("res-type", "gpu")),
        request_type=str(entry.get("request-type", "")),
    )
