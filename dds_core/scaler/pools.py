"""What the slices of a pool amount to: the newest generation, whether it is complete, and its devices.

A consumer uses only slices of the pool's highest generation and takes nothing from a pool that is not complete, as the
scheduler's allocator does (Kubernetes 1.36, structured allocator).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dds_core.model import Config, Device, Model, Record, Requirement, Slice

PoolKey = tuple[str, str]
"""(driver, pool)."""

BLOCKING = ("NoSchedule", "NoExecute")
"""The effects of a taint by which the scheduler leaves a device alone."""

_FABRIC = "-fabric"


class Pool(Record, frozen=True):
    """A pool as published, its devices in the order of their names, `free` of them without a taint that keeps them from the
    scheduler. `usable` is false while it is incomplete or names a device twice: then nothing new is taken from it, and what is
    missing counts as unknown, not as gone. `owner` is that of its slices."""

    generation: int
    usable: bool
    devices: dict[str, Device]
    node: str = ""
    selector: tuple[Requirement, ...] = ()
    all_nodes: bool = False
    owner: str = ""
    free: int = 0


def gather(slices: Iterable[Slice]) -> Pool | None:
    """The pool that these slices, all of one driver and pool name, make up; None without any."""
    seen = list(slices)
    if not seen:
        return None
    newest = max(s.generation for s in seen)
    current = sorted((s for s in seen if s.generation == newest), key=lambda s: s.name)
    devices: dict[str, Device] = {}
    total = 0
    for one in current:
        total += len(one.devices)
        devices.update(one.devices)
    first = current[0]
    devices = dict(sorted(devices.items()))
    usable = len(current) >= first.slices and total == len(devices)
    free = sum(not is_tainted(device) for device in devices.values())
    return Pool(newest, usable, devices, first.node, first.selector, first.all_nodes, first.owner, free)


def is_tainted(device: Device) -> bool:
    """Whether a taint of the device's slice keeps the scheduler from it."""
    return any(taint.effect in BLOCKING for taint in device.taints)


def reaches(pool: Pool, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node of this name, with these labels, satisfies the pool's node selector."""
    return all(_holds(r, {r.key: name} if r.key == "metadata.name" else labels) for r in pool.selector)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    try:
        number, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def text_attribute(device: Device, driver: str, name: str) -> str:
    """A string attribute by its plain or driver-qualified name; "" when absent or not a string (never a match)."""
    for key in (name, f"{driver}/{name}"):
        value = device.attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def model_of_pool(config: Config, driver: str, pool: str) -> Model | None:
    """The model whose devices a pool publisher lists under this name, `<k8s-device-name>-fabric<id>`."""
    word, found, fabric = pool.rpartition(_FABRIC)
    if not found or not fabric:
        return None
    return next((m for m in config.models if m.device == word and m.driver == driver), None)


def model_of_device(config: Config, driver: str, device: Device) -> Model | None:
    """The model whose dra-attributes the device carries; empty ones (a pool's `uuid: ""`) do not count."""
    for model in config.models:
        wanted = {name: value for name, value in model.attributes.items() if value}
        if model.driver == driver and wanted and all(text_attribute(device, driver, n) == v for n, v in wanted.items()):
            return model
    return None
