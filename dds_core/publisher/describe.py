"""How a device is published (the API's JSON, resource.k8s.io/v1), names of pools, slices and devices, and digests: one normal
form of slices, to compare what is wanted with what is there. Nothing here knows which devices there are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dds_core.errors import InputError
from dds_core.matching.quantities import parse
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Requirement
from dds_core.publisher.model import Attribute, Capacity, PoolModel

READY = "FabricDeviceReady"
"""Binding condition of a device that has to be attached first."""
BINDING = (READY,)
FAILURE = (RESCHEDULE, FAILED_CONDITION)
NO_SCHEDULE = "NoSchedule"
DIGEST_BYTES = 16

_encode = msgspec.json.Encoder(order="deterministic").encode
_KINDS = {"string": "string", "integer": "int", "boolean": "bool", "version": "version"}


def pool_name(device: str, fabric: str) -> str:
    """Name of the pool of a model (k8s-device-name) in a fabric, the same as existing scalers use."""
    return f"{device}-fabric{fabric}"


def selector(prefix: str, device: str, fabric: str) -> tuple[Requirement, ...]:
    """Nodes of the fabric that may take the model."""
    return (
        Requirement(f"{prefix}/{device}", "In", ("true",)),
        Requirement(f"{prefix}/fabric", "In", (fabric,)),
    )


def node_selector(prefix: str, device: str, fabric: str) -> dict[str, Any]:
    """The same as JSON (spec.nodeSelector)."""
    expressions = [
        {"key": one.key, "operator": one.operator, "values": list(one.values)}
        for one in selector(prefix, device, fabric)
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def device_of(model: PoolModel, name: str, taint: str = "") -> dict[str, Any]:
    """A device of the pool. `taint` is the key of a NoSchedule taint, "" for none."""
    found: dict[str, Any] = {"name": name}
    if model.attributes:
        found["attributes"] = {key: _attribute(one) for key, one in sorted(model.attributes.items())}
    if model.capacity:
        found["capacity"] = {key: _capacity(one) for key, one in sorted(model.capacity.items())}
    found["bindsToNode"] = True
    found["bindingConditions"] = list(BINDING)
    found["bindingFailureConditions"] = list(FAILURE)
    if model.shared:
        found["allowMultipleAllocations"] = True
    if taint:
        found["taints"] = [{"key": taint, "effect": NO_SCHEDULE}]
    return found


def devices_of(
    model: PoolModel, names: Iterable[str], taint: str = "", closed: Iterable[str] = (), prefix: str = ""
) -> list[dict[str, Any]]:
    """The devices of a slice. `taint`: for all of them; without it, those that are `closed` have a taint of their own."""
    template, special = device_of(model, "", taint), device_of(model, "", taint or let_go(prefix))
    marked = frozenset(closed)
    return [{**(special if name in marked else template), "name": name} for name in names]


def let_go(prefix: str) -> str:
    """Key of the taint of a device that its claim is about to give back."""
    return f"{prefix}/let-go"


def _attribute(one: Attribute) -> dict[str, Any]:
    return {word: value for field, word in _KINDS.items() if (value := getattr(one, field)) is not None}


def _capacity(one: Capacity) -> dict[str, Any]:
    policy: dict[str, Any] = {}
    if one.default:
        policy["default"] = one.default
    if one.valid_values:
        policy["validValues"] = list(one.valid_values)
    if one.valid_range is not None:
        bounds = {"min": one.valid_range.min, "max": one.valid_range.max, "step": one.valid_range.step}
        policy["validRange"] = {key: value for key, value in bounds.items() if value}
    return {"value": one.value} | ({"requestPolicy": policy} if policy else {})


def as_exclusive(model: PoolModel) -> PoolModel:
    """The model for an API that drops what makes a device shared: one claim takes all of it."""
    capacity = {key: Capacity(one.value) for key, one in model.capacity.items()}
    return msgspec.structs.replace(model, shared=False, capacity=capacity)


# -- the normal form -----------------------------------------------------------------------------------------------------


def digest_of(devices: Iterable[Mapping[str, Any]]) -> str:
    """A digest (32 hex digits) of the devices of a slice, in order.

    What the server adds or spells in another way does not count: when a taint was added, how a quantity is written, empty fields.
    """
    return _digest(map(_normal, devices))


def digest_of_pool(
    model: PoolModel, names: Iterable[str], taint: str = "", closed: Iterable[str] = (), prefix: str = ""
) -> str:
    """The digest of `devices_of`, computed faster."""
    template, special = _normal(device_of(model, "-", taint)), _normal(device_of(model, "-", taint or let_go(prefix)))
    marked = frozenset(closed)
    return _digest({**(special if name in marked else template), "name": name} for name in names)


def _digest(devices: Iterable[Mapping[str, Any]]) -> str:
    digest = hashlib.sha256()
    for one in devices:
        digest.update(_encode(one))
        digest.update(b"\n")
    return digest.digest()[:DIGEST_BYTES].hex()


def _normal(device: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in device.items() if value not in (None, False, [], {}, "")}
    if isinstance(capacity := found.get("capacity"), Mapping):
        found["capacity"] = {key: _normal_capacity(one) for key, one in capacity.items()}
    if isinstance(taints := found.get("taints"), list):
        found["taints"] = [_normal_taint(one) for one in taints]
    return found


def _normal_taint(one: Any) -> Any:
    if not isinstance(one, Mapping):
        return one
    return {key: value for key, value in one.items() if key != "timeAdded" and value}


def _normal_capacity(one: Any) -> Any:
    if isinstance(one, Mapping):
        return {key: _normal_capacity(value) for key, value in one.items() if value not in (None, [], {}, "")}
    if isinstance(one, list):
        return [_normal_capacity(value) for value in one]
    try:
        return str(parse(str(one)))
    except InputError:
        return one


# -- names ----------------------------------------------------------------------------------------------------------------

VENDOR_WORDS = frozenset({"gpu"})
"""k8s-device-names that a vendor uses for its own devices (gpu-0): its plugin looks up a device by its name alone."""
_POOLED = "pool-"
"""Follows such a word in the names of a pool's devices; no device id may begin so (`need.stem`)."""
_LONGEST = 63
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


def stem_of(device: str, local: Iterable[str] = ()) -> str:
    """What the names of a pool's devices begin with. `local`: names that a vendor lists on nodes; the pool uses none of them."""
    if device in VENDOR_WORDS or any(_is_numbered(name, device) for name in local):
        return f"{device}-{_POOLED[:-1]}"
    return device


def _is_numbered(name: str, stem: str) -> bool:
    head, dash, rest = name.rpartition("-")
    return bool(dash) and head == stem and rest.isdigit()


def name_of(stem: str, number: int) -> str:
    """The name of a counted device."""
    return f"{stem}-{number}"


def number_of(stem: str, name: str) -> int | None:
    """The number in the name of a counted device, None for another name."""
    return int(name[len(stem) + 1 :]) if _is_numbered(name, stem) else None


def name_of_id(stem: str, identity: str) -> str:
    """The name of a device that the fabric names: its id if it is a valid part of a name (DNS label), else a short form that no
    other id has. Never the name of a counted device, nor one that begins as if the pool had the other stem."""
    text = identity.lower()
    name = f"{stem}-{text}"
    usual = not text.isdigit() and not text.startswith(_POOLED)
    if _LABEL.fullmatch(text) and text == identity and len(name) <= _LONGEST and usual:
        return name
    mark = hashlib.sha256(identity.encode()).hexdigest()[:10]
    readable = re.sub(r"[^a-z0-9]+", "-", text).strip("-")[: max(0, _LONGEST - len(stem) - 13)].strip("-")
    return f"{stem}-{readable}-x{mark}" if readable and not readable.startswith(_POOLED) else f"{stem}-x{mark}"


def in_order(names: Iterable[str]) -> list[str]:
    """Names in natural order, 2 before 10."""
    return sorted(names, key=_natural)


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isdigit() else (name, -1)


def slice_name(pool: str, driver: str, index: int) -> str:
    """Object name of a slice; slices of a pool are used in the order of their names."""
    return f"{pool}-{driver.replace('.', '-')}-{index:03d}"
