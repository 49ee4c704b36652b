"""Checks of the publisher's side of the cluster: what of device-info is published, what the API server stores, who owns the
pools.

The fabric's manager is checked in `fabric`.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, several, unknown, warning
from dds_adapters.kubernetes.publish.device_info import KEYS
from dds_adapters.kubernetes.publish.probe import probe
from dds_core.publisher.model import MANAGED_BY, PoolConfig, PoolSlice

REFERENCE = "composable-dra-driver"
"""Name of the reference publisher's Deployment in its chart."""
READ = (*config.KEYS, *KEYS)
"""All keys of an entry of device-info that the scaler or the publisher reads."""
LIKE = 0.7
"""Similarity (at most 1) from which an unread key counts as a misspelt one."""
GATES = {"device_taints": "DRADeviceTaints", "shared_devices": "DRAConsumableCapacity"}


# -- device-info -----------------------------------------------------------------------------------------------------------


def device_info(context: ExaminationContext) -> Iterator[Finding]:
    """Faults that only the publisher finds; the check of the ConfigMap reports the others."""
    check = "device info"
    try:
        found, faults = context.pool_configuration()
        known = {fault.field for fault in context.configuration()[1]}
    except Fault:
        return  # the check of the ConfigMap reports it
    except Refused as refused:
        if refused.code != 404:
            raise
        return
    for fault in faults:
        if fault.field not in known:
            what = f"{fault.field}: {fault.reason} (its model stays as it was; what was never good is not published)"
            yield warning(check, what, f"correct {fault.field} in {context.namespace}/{config.NAME}")
    yield from _misspelt(check, context)
    for model in found.models:
        kind = "shared, " if model.shared else ""
        what = f"{model.model}: {kind}{many(len(model.attributes), 'attribute')} and {many(len(model.capacity), 'capacity')}"
        yield ok(check, f"{what} are published of each device of {model.driver}")


def _misspelt(check: str, context: ExaminationContext) -> Iterator[Finding]:
    """Keys that are not read and look like one that is. Other unknown keys are allowed."""
    for name, entry in context.written_entries():
        for key in entry:
            near = () if key in READ else difflib.get_close_matches(key, READ, 1, LIKE)
            if near:
                what = f"{foreign(name)}: nobody reads the key {foreign(key)}"
                yield warning(check, what, f"write {near[0]}, if that is meant; else take it out")


# -- fields of devices -----------------------------------------------------------------------------------------------------


def kept_fields(context: ExaminationContext) -> Iterator[Finding]:
    """Whether the API server stores taints and shares, by a dry run."""
    check, models = "device fields", context.pools_or_usual().models
    driver = next((model.driver for model in models), "doctor.dds.cohdi.io")
    found = probe(context.api, context.version_of("resourceslices"), driver)
    shared = [model.model for model in models if model.shared]
    for field, what, lost, needed in (
        ("device_taints", "taints of devices", "a pool that cools down is withdrawn instead of tainted", False),
        ("shared_devices", "what makes a device shared", f"{several(shared) or 'none'} published as exclusive", shared),
    ):
        if getattr(found, field):
            yield ok(check, f"the API server keeps {what} (tried by dry-run)")
            continue
        said, mend = f"the API server drops {what}: {lost}", f"switch {GATES[field]} on in API server and scheduler"
        yield warning(check, said, mend) if needed else note(check, said, mend)


# -- owners of pools -------------------------------------------------------------------------------------------------------


def owners(context: ExaminationContext) -> Iterator[Finding]:
    """The owner of each pool of the configured models, by the marks on its slices; and whether the reference driver runs."""
    check, settings = "pool owners", context.publishing
    adopts = settings is not None and settings.adopt == "reference"
    pools: dict[str, list[PoolSlice]] = defaultdict(list)
    for one in context.published():
        if not one.node and of_model(context.pools_or_usual(), one):
            pools[one.pool].append(one)
    for name, slices in sorted(pools.items()):
        yield _of_pool(check, name, {one.owner for one in slices}, adopts)
    if not pools:
        yield note(check, "no pool of the ConfigMap's models is published yet")
    yield from _reference(check, context)


def of_model(found: PoolConfig, one: PoolSlice) -> bool:
    """Whether a slice is of a pool of a configured model in any fabric."""
    head, fabric, _ = one.pool.rpartition("-fabric")
    return bool(fabric) and any((model.driver, model.device) == (one.driver, head) for model in found.models)


def _of_pool(check: str, pool: str, marks: set[str], adopts: bool) -> Finding:
    if marks == {MANAGED_BY}:
        return ok(check, f"pool {pool} is ours")
    others = marks - {MANAGED_BY, ""}
    if others:
        what = f"pool {pool} has slices of {several(map(foreign, others))}: nothing of it is published by us"
        return error(check, what, "end that publisher and delete its slices of the pool")
    if adopts:
        return note(check, f"pool {pool} has slices of nobody named, which are taken over (adopt: reference)")
    what = (
        f"pool {pool} has slices of nobody named (the reference driver leaves such): nothing of it is published by us"
    )
    return error(check, what, "end the reference driver, then set adopt: reference in the publisher's policy")


def _reference(check: str, context: ExaminationContext) -> Iterator[Finding]:
    """By its Deployment. It treats every slice of its drivers that is not of a node as its own, and deletes dds's slices."""
    path = path_of("deployments", "apps/v1", context.namespace, REFERENCE)
    try:
        spec = context.decoded(path, context.get(path)).get("spec") or {}
    except Refused as refused:
        if refused.code != 404:
            yield unknown(check, f"whether the reference driver runs could not be seen ({refused.code})")
        return
    if spec.get("replicas") == 0:
        yield ok(check, f"the reference driver is there and has no pods (Deployment {REFERENCE})")
        return
    what = f"the reference driver seems to run: Deployment {REFERENCE} in {context.namespace}"
    if context.publishing is None or context.publishing.mode == "observe":
        yield note(check, what, "in mode publish only one of both may run: it deletes the other's slices")
    else:
        yield error(check, f"{what}; it deletes our slices, and we make them again", "scale it to 0 first")
