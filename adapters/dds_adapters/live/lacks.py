"""What a cluster that was seen whole lacks, so that nothing can be served although nothing fails: said once, in a line each.

Pure; it looks at the picture and asks nobody. What is refused or cannot be read is told where that happens.
"""

from __future__ import annotations

from dds_adapters.kubernetes.config import NAME
from dds_core.errors import DdsError
from dds_core.picture import Picture
from dds_core.pools import model_of_pool

_SWITCH = (
    "switch DRADeviceBindingConditions on in API server and scheduler (on by default from 1.36), then publish anew"
)


def lacks(picture: Picture, where: str, namespace: str) -> list[DdsError]:
    """`where` is the API server's address, `namespace` that of the ConfigMap."""
    found = []
    if not picture.config.uid:
        what = "is not there, so no device is known as one of a fabric and nothing is attached"
        fix = "create it with device-info, or name its namespace with --namespace"
        found.append(DdsError(what, where=f"{where} ConfigMap {namespace}/{NAME}", fix=fix))
    elif not picture.config.models:
        what = "names no model that can be used, so nothing is attached"
        found.append(DdsError(what, where=f"{where} ConfigMap {namespace}/{NAME}", fix="give device-info its models"))
    bare = _without_conditions(picture)
    if bare:
        what = "has devices without bindingConditions: pods would start without waiting for their device"
        found.append(DdsError(what, where=f"{where} ResourceSlice {bare}", fix=_SWITCH))
    return found


def _without_conditions(picture: Picture) -> str:
    """The first published slice of a pool of ours that has lost them, as on an API server that drops them; "" for none."""
    pools = (
        one for one in picture.slices.rows.values() if model_of_pool(picture.config, one.driver, one.pool) is not None
    )
    bare = (one.name for one in pools if one.devices and not any(device.binding for device in one.devices.values()))
    return min(bare, default="")
