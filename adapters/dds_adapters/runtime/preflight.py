"""What is missing in a fully listed cluster, so that dds can do nothing although nothing fails. Each is logged once, in a line.

It only reads the state. Errors of requests are reported where they occur.
"""

from __future__ import annotations

from dds_adapters.kubernetes.decode.config import NAME
from dds_core.errors import DdsError
from dds_core.publisher.state import PoolState
from dds_core.scaler.model import model_of_pool
from dds_core.scaler.state import State

_SWITCH = "switch DRADeviceBindingConditions on in API server and scheduler (on by default from 1.36)"


def preflight(state: State, where: str, namespace: str) -> list[DdsError]:
    """What a scaler lacks. `where` is the API server's address, `namespace` that of the ConfigMap."""
    nothing = "no device is known as one of a fabric and nothing is attached"
    found = _of_config(
        bool(state.settings.config.uid),
        bool(state.settings.config.models),
        f"{where} ConfigMap {namespace}/{NAME}",
        nothing,
    )
    bare = _without_conditions(state)
    if bare:
        what = "has devices without bindingConditions: pods would start without waiting for their device"
        found.append(DdsError(what, where=f"{where} ResourceSlice {bare}", fix=f"{_SWITCH}, then publish anew"))
    return found


def pool_lacks(state: PoolState, where: str, namespace: str) -> list[DdsError]:
    """What a publisher lacks."""
    at = f"{where} ConfigMap {namespace}/{NAME}"
    found = _of_config(state.config is not None, bool(state.models), at, "nothing is published")
    if not state.cluster.capabilities.binding_conditions:
        what = "drops bindingConditions: pods would start without waiting for their device, so nothing is published"
        found.append(DdsError(what, where=f"{where} resourceslices", fix=f"{_SWITCH}; dds then publishes the pools"))
    machines, hosts = state.fabric.machines_by_uuid.rows, state.cluster.hosts.rows.values()
    if machines and hosts and not any(state.machine_of(host) for host in hosts):
        what = f"none of {len(hosts)} nodes is one of the fabric's {len(machines)} machines, so no pool reaches a node"
        fix = "compare spec.providerID of the nodes with the UUIDs that the fabric names"
        found.append(DdsError(what, where=f"{where} nodes", fix=fix))
    return found


def _of_config(there: bool, models: bool, where: str, nothing: str) -> list[DdsError]:
    if not there:
        fix = "create it with device-info, or name its namespace with --namespace"
        return [DdsError(f"is not there, so {nothing}", where=where, fix=fix)]
    if not models:
        return [
            DdsError(f"names no model that can be used, so {nothing}", where=where, fix="give device-info its models")
        ]
    return []


def _without_conditions(state: State) -> str:
    """The first published slice of a pool of dds without binding conditions, because the API server dropped them; "" for none."""
    pools = (
        one
        for one in state.inventory.slices.rows.values()
        if model_of_pool(state.settings.config, one.driver, one.pool) is not None
    )
    bare = (one.name for one in pools if one.devices and not any(device.binding for device in one.devices.values()))
    return min(bare, default="")
