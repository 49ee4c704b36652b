"""Whether a device could satisfy a claim: a careful "no" only where the class's selectors plainly name another driver.

A wrong "yes" delays a detach; a wrong "no" could take a device from under a pod. So anything that is not understood counts
as "yes".
"""

from __future__ import annotations

import re

from dds_core.model import Claim, DeviceClass, DeviceKey
from dds_core.picture import Picture

_DRIVER = re.compile(r"""device\.driver\s*==\s*(["'])([^"']*)\1""")
_BRANCHES = ("||", "?", "!")


def could_satisfy(picture: Picture, claim: Claim, key: DeviceKey) -> bool:
    """Whether some request of the claim could be given the device `key`."""
    if not claim.requests:
        return True
    named = {one.name: one for one in picture.classes.rows.values()}
    for request in claim.requests:
        for name in request.classes:
            found = named.get(name)
            if found is None or not excludes(found, key[0]):
                return True
    return False


def excludes(device_class: DeviceClass, driver: str) -> bool:
    """Whether a selector of the class demands, without any alternative, a driver other than this."""
    for expression in device_class.selectors:
        if any(sign in expression for sign in _BRANCHES):
            continue
        if any(name != driver for _, name in _DRIVER.findall(expression)):
            return True
    return False
