"""Which devices of a node's pool are the same piece of hardware. dds attaches and detaches hardware; claims hold its faces: the
whole device, partitions, or virtual functions.

Two devices of a pool are faces of the same hardware if they draw on one counter set, or have the same value in any of the
attributes that the driver's policy names (a partition's `parentUUID` is its GPU's `uuid`). A virtual function
without a parent may be that of any device under its PCIe root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from dds_core.matching.quantities import amount
from dds_core.model import Device, Record, text_attribute
from dds_core.scaler.policy import DriverPolicy

VIRTUAL = "vf"
ROOT = "resource.kubernetes.io/pcieRoot"


class Face(Record, frozen=True):
    """What a device is a face of. `uuids`: under which the hardware may be known, the likeliest first. `others`: names of its
    other faces in the pool. `part`: it is not the whole hardware."""

    uuids: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    part: bool = False

    @property
    def uuid(self) -> str:
        return self.uuids[0] if self.uuids else ""


class Traits(Record, frozen=True):
    """What a device says of its hardware by itself. `tokens`: values that only one piece of hardware of the node has. `root`:
    PCIe root of a physical device; `below`: that of a virtual function. `alone`: its face if no other device is one."""

    uuid: str
    tokens: frozenset[str]
    root: str
    below: str
    alone: Face


def traits_of(driver: str, device: Device, knobs: DriverPolicy) -> Traits:
    own, root = text_attribute(device, driver, knobs.uuid_attribute), text_attribute(device, driver, ROOT)
    kind = text_attribute(device, driver, "type")
    parents = [text_attribute(device, driver, name) for name in knobs.parent_attributes]
    tokens = {own, *parents, *(text_attribute(device, driver, name) for name in knobs.hardware_attributes)} - {""}
    tokens |= {f"counters/{name}" for name in device.consumes}
    parent = next(filter(None, parents), "")
    uuid, virtual = parent or own, kind == VIRTUAL
    alone = Face((uuid,) if uuid else (), part=kind in knobs.partition_types or bool(parent))
    return Traits(uuid, frozenset(tokens), "" if virtual else root, root if virtual else "", alone)


def faces_of(devices: Mapping[str, Device], traits: Mapping[str, Traits]) -> dict[str, Face]:
    """The face that each device of a node's pool is, by name."""
    together = sum(len(one.tokens) for one in traits.values()) > len({t for one in traits.values() for t in one.tokens})
    if not together and not any(one.below for one in traits.values()):
        return {name: one.alone for name, one in traits.items()}
    groups = _groups(traits)
    others = {name: {one for one in groups[name] if one != name} for name in devices}
    owners = {name: set(others[name]) for name in devices}
    for function, owner in _virtual_functions(traits, groups):
        others[owner].add(function)
        owners[function].add(owner)
    several = {id(group): group for group in groups.values() if len(group) > 1}
    most = {key: _most(devices[name] for name in group) for key, group in several.items()}
    return {
        name: Face(
            tuple(dict.fromkeys(traits[one].uuid for one in (name, *sorted(owners[name])) if traits[one].uuid)),
            tuple(sorted(others[name])),
            traits[name].alone.part or _is_less(device, most.get(id(groups[name]), {})),
        )
        for name, device in devices.items()
    }


def _virtual_functions(traits: Mapping[str, Traits], groups: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """(virtual function without parent, candidate parent)."""
    for function in sorted(name for name, one in traits.items() if one.below):
        if all(traits[name].below for name in groups[function]):
            yield from ((function, name) for name, one in traits.items() if one.root == traits[function].below)


def _most(devices: Iterable[Device]) -> dict[tuple[str, str], Fraction]:
    """For each counter the most that any of these devices draws."""
    most: dict[tuple[str, str], Fraction] = {}
    for device in devices:
        for counter, value in _drawn(device):
            most[counter] = max(value, most.get(counter, value))
    return most


def _is_less(device: Device, most: Mapping[tuple[str, str], Fraction]) -> bool:
    """Whether the device draws less on a counter than another of its hardware."""
    return any(value < most.get(counter, value) for counter, value in _drawn(device))


def _drawn(device: Device) -> Iterator[tuple[tuple[str, str], Fraction]]:
    for name, counters in device.consumes.items():
        for counter, text in counters.items():
            value = amount(text)
            if value is not None:
                yield (name, counter), value


def uuid_of(driver: str, device: Device, knobs: DriverPolicy) -> str:
    """The UUID of the hardware by the device's own attributes, "" if they do not tell."""
    names = (*knobs.parent_attributes, knobs.uuid_attribute)
    return next(filter(None, (text_attribute(device, driver, name) for name in names)), "")


def _groups(traits: Mapping[str, Traits]) -> dict[str, list[str]]:
    """For each name those that share a token with it, directly or through others; members share one list."""
    groups: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for name, one in traits.items():
        groups[name] = [name]
        for token in sorted(one.tokens):
            other = first.setdefault(token, name)
            mine, theirs = groups[name], groups[other]
            if mine is not theirs:
                theirs += mine
                groups.update(dict.fromkeys(mine, theirs))
    return groups
