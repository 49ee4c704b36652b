"""Whether a device could satisfy a claim: a careful "no" only where the class's selectors plainly name another driver, or another
value of an attribute that the device has.

A wrong "yes" delays a detach; a wrong "no" could take a device from under a pod. So anything that is not understood counts
as "yes".
"""

from __future__ import annotations

import re

from dds_core.model import Claim, Device, DeviceClass, DeviceKey
from dds_core.scaler.state import Picture

_DRIVER = re.compile(r"""device\.driver\s*==\s*(["'])([^"']*)\1""")
_ATTRIBUTE = re.compile(
    r"""device\.attributes\[(["'])(?P<domain>[^"']+)\1\]\.(?P<name>\w+)\s*==\s*(["'])(?P<value>[^"'\\]*)\4"""
)
_BRANCHES = ("||", "?", "!")
_UNKNOWN = Device()


def could_satisfy(picture: Picture, claim: Claim, key: DeviceKey) -> bool:
    """Whether some request of the claim could be given the device `key`."""
    if not claim.requests:
        return True
    named = {one.name: one for one in picture.classes.rows.values()}
    device = picture.device(key) or _UNKNOWN
    for request in claim.requests:
        for name in request.classes:
            found = named.get(name)
            if found is None or not excludes(found, key[0], device):
                return True
    return False


def excludes(device_class: DeviceClass, driver: str, device: Device = _UNKNOWN) -> bool:
    """Whether a selector of the class demands, without any alternative, another driver than this, or another text as one of the
    device's attributes."""
    for expression in device_class.selectors:
        if any(sign in expression for sign in _BRANCHES):
            continue
        if any(name != driver for _, name in _DRIVER.findall(expression)):
            return True
        if any(_differs(term, driver, device) for term in _terms(expression)):
            return True
    return False


def _terms(expression: str) -> list[str]:
    """What has to be true all at once; none where brackets may make something else of it."""
    return [] if "(" in expression else [term.strip() for term in expression.split("&&")]


def _differs(term: str, driver: str, device: Device) -> bool:
    found = _ATTRIBUTE.fullmatch(term)
    if found is None:
        return False
    domain, name = found["domain"], found["name"]
    has = device.attributes.get(f"{domain}/{name}")
    if has is None and domain == driver:
        has = device.attributes.get(name)
    return isinstance(has, str) and has != found["value"]
