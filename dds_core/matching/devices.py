"""A device of a slice as the choice of devices reads it: its attributes, how selectors see it, and where it differs from
another."""

from __future__ import annotations

from dds_core.matching.cel import Attribute, DeviceView
from dds_core.matching.quantities import parse
from dds_core.matching.versions import Version
from dds_core.model import Device


def lookup(device: Device, name: str, driver: str) -> Attribute | None:
    """The attribute with this fully qualified name. An attribute published without a domain has the driver's domain."""
    if name not in device.attributes:
        domain, _, name = name.partition("/")
        if domain != driver or name not in device.attributes:
            return None
    value = device.attributes[name]
    return Version(value) if name in device.versions else value


def view_of(device: Device, driver: str) -> DeviceView:
    """The device as selectors see it."""
    attributes = {
        name: Version(value) if name in device.versions else value for name, value in device.attributes.items()
    }
    capacity = {name: parse(text) for name, text in device.capacity.items()}
    return DeviceView(driver, attributes if device.versions else device.attributes, capacity, device.shared)


def differences(promised: Device, listed: Device) -> list[str]:
    """In words the values that a pool promises of a model and a node's driver lists otherwise. What only one of them has does not
    count, nor does an empty attribute, which is filled in when the device is there."""
    both = [name for name, value in sorted(promised.attributes.items()) if name in listed.attributes and value != ""]
    told = [(name, _told(promised, name), _told(listed, name)) for name in both]
    amounts = [(name, text, listed.capacity.get(name, text)) for name, text in sorted(promised.capacity.items())]
    told += [one for one in amounts if parse(one[1]) != parse(one[2])]
    return [f"{name} {mine}, the driver lists {theirs}" for name, mine, theirs in told if mine != theirs]


def _told(device: Device, name: str) -> str:
    return f"{device.attributes[name]}{' (a version)' if name in device.versions else ''}"
