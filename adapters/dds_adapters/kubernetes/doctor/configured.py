"""The ConfigMap, each part by itself, and its models against the pools and drivers that the cluster really has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dds_adapters.kubernetes import config
from dds_adapters.kubernetes.cluster import Refused, Unreachable
from dds_adapters.kubernetes.doctor.api import pool_slices
from dds_adapters.kubernetes.doctor.findings import Finding, error, note, ok, several, warning
from dds_adapters.kubernetes.doctor.patient import Patient, Unreadable
from dds_adapters.kubernetes.reading import Fault
from dds_core.model import Config, Slice
from dds_core.pools import model_of_pool

_CHECK = "config map"
_POOL = re.compile(r".+-fabric\d+")
"""How a pool of the fabric's publisher is named: <k8s-device-name>-fabric<id>."""


def config_map(patient: Patient) -> Iterator[Finding]:
    """Whether it is there, and each part of it."""
    name = f"{patient.namespace}/{config.NAME}"
    try:
        found, faults = patient.configuration()
    except Refused as refused:
        if refused.code != 404:
            raise
        mend = "create it with device-info, label-prefix and fabric-id-range, or give its namespace with --namespace"
        yield error(_CHECK, f"there is no ConfigMap {name}: no model is known, nothing is ours", mend)
        return
    except Fault as whole:
        yield error(_CHECK, f"{name}, {whole.field}: {whole.reason}", "correct the ConfigMap")
        return
    for fault in faults:
        yield _of_fault(name, fault)
    yield from _of_content(name, found)


def _of_fault(name: str, fault: Fault) -> Finding:
    """A bad entry leaves its model as it was, a part that is bad as a whole what was in force; everything else stands."""
    what, mend = f"{name}, {fault.field}: {fault.reason}", f"correct {fault.field} there"
    if fault.field.startswith(f"{config.DEVICE_INFO}["):
        return warning(_CHECK, f"{what} (the model stays as it was, if it was in force)", mend)
    if fault.field == "data.mode":
        return warning(_CHECK, what, mend)
    return error(_CHECK, what, mend)


def _of_content(name: str, found: Config) -> Iterator[Finding]:
    if not found.models:
        yield error(_CHECK, f"{name} names no model that can be used: nothing is ours", f"correct {config.DEVICE_INFO}")
    else:
        models = several(model.model for model in found.models)
        yield ok(_CHECK, f"{name}: models {models}; label prefix {found.prefix}")
    if found.mode:
        what = f"{name} says mode {found.mode}: no higher mode is in force, whatever the policy says"
        yield note(_CHECK, what, "remove mode there once the brake is not needed any more")


def models(patient: Patient) -> Iterator[Finding]:
    """A model without a pool, and a pool without a model."""
    check, found = "models", patient.config_or_usual()
    pools = {one.pool: model for one in pool_slices(patient) if (model := model_of_pool(found, one.driver, one.pool))}
    for model in found.models:
        mine = sorted(pool for pool, owner in pools.items() if owner is model)
        if mine:
            yield ok(check, f"{model.model}: published in {several(mine)}")
        else:
            what = f"{model.model}: no pool {model.device}-fabric<id> of driver {model.driver} is published"
            yield warning(check, what, "see whether the publisher runs and the fabric has free devices of the model")
    whole = _is_whole(patient)
    for pool in sorted({one.pool for one in patient.slices() if _orphan(one, found)}):
        if whole:
            what = f"pool {pool} belongs to no model of the ConfigMap: nobody attaches its devices"
            mend = f"add the model to {config.DEVICE_INFO}, with the pool's driver, or withdraw the pool"
        else:
            what = f"pool {pool} belongs to no model of the ConfigMap that can be read"
            mend = f"correct {config.DEVICE_INFO} first; its model may be in force still"
        yield warning(check, what, mend)


def _is_whole(patient: Patient) -> bool:
    """Whether every entry of device-info can be read."""
    try:
        return not any(fault.field.startswith(config.DEVICE_INFO) for fault in patient.configuration()[1])
    except Fault:
        return False
    except (Refused, Unreadable, Unreachable):
        return True


def _orphan(one: Slice, found: Config) -> bool:
    ours = bool(_POOL.fullmatch(one.pool)) or any(device.binding for device in one.devices.values())
    return not one.node and ours and model_of_pool(found, one.driver, one.pool) is None


def drivers(patient: Patient) -> Iterator[Finding]:
    """Whether each driver lists devices of nodes: an attached device is found there and nowhere else."""
    for driver in sorted({model.driver for model in patient.config_or_usual().models}):
        nodes = {one.node for one in patient.slices() if one.driver == driver and one.node}
        if nodes:
            yield ok("drivers", f"{driver} publishes devices of {len(nodes)} nodes")
        else:
            what = f"{driver} publishes slices of no node: an attached device would never be seen"
            yield warning("drivers", what, "see whether the vendor's driver runs on the nodes of the fabric")
