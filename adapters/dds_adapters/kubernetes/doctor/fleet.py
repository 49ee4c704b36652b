"""Nodes, pools and who publishes them: labels that parse, pools that are whole, devices that can be handed over."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from dds_adapters.kubernetes.decode import MANAGED_BY
from dds_adapters.kubernetes.doctor.api import pool_slices
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, several, warning
from dds_adapters.kubernetes.doctor.patient import Patient
from dds_adapters.kubernetes.doctor.signed import ManagedField, writers
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Config, Device, Node, Slice
from dds_core.pools import gather

_LIMIT = re.compile(r"(.+)-size-(max|min)")
_NUMBER = re.compile(r"[0-9]{1,9}")


# -- nodes -------------------------------------------------------------------------------------------------------------


def nodes(patient: Patient) -> Iterator[Finding]:
    """The label of the fabric, and the labels that limit a model."""
    config = patient.config_or_usual()
    label, found = f"{config.prefix}/fabric", patient.nodes()
    on = [one for one in found if label in one.labels]
    if on:
        yield ok("nodes", f"{len(on)} of {len(found)} nodes have the label {label}")
    elif patient.publishing is not None and patient.publishing.label_nodes:
        yield note("nodes", f"none of {len(found)} nodes has the label {label} yet: the publisher writes it")
    else:
        mend = "let the publisher label the nodes of each fabric, or see that label-prefix is right"
        yield error(
            "nodes", f"none of {len(found)} nodes has the label {label}: nothing can be attached anywhere", mend
        )
    for node in sorted(on, key=lambda one: one.name):
        yield from _fabric(node, label, config)
    for node in sorted(found, key=lambda one: one.name):
        yield from _limits(node, config)


def _fabric(node: Node, label: str, config: Config) -> Iterator[Finding]:
    value = node.labels[label]
    if not _NUMBER.fullmatch(value):
        what = f"node {node.name}: {label} is no number"
        yield warning("nodes", what, "write the id of its fabric there")
    elif config.fabrics and int(value) not in config.fabrics:
        what = f"node {node.name}: {label}={value} is none of the fabrics in fabric-id-range"
        yield warning("nodes", what, "correct the label or the ConfigMap")


def _limits(node: Node, config: Config) -> Iterator[Finding]:
    """As the scaler reads them: what is no number counts as absent."""
    known = {model.device for model in config.models}
    limits: dict[str, dict[str, int]] = defaultdict(dict)
    for label, value in sorted(node.labels.items()):
        prefix, _, rest = label.rpartition("/")
        form = _LIMIT.fullmatch(rest)
        if prefix != config.prefix or form is None:
            continue
        if form[1] not in known:
            yield note("nodes", f"node {node.name}: {label} names no device of the ConfigMap", "remove or correct it")
        elif not _NUMBER.fullmatch(value):
            what = f"node {node.name}: {label} is no whole number and counts as absent"
            yield warning("nodes", what, "write decimal digits, such as 4")
        else:
            limits[form[1]][form[2]] = int(value)
    for device, ends in limits.items():
        if ends.get("min", 0) > ends.get("max", ends.get("min", 0)):
            what = f"node {node.name}: {device} has a minimum of {ends['min']} above its maximum of {ends['max']}"
            yield warning("nodes", what, "correct its labels -size-min and -size-max")


# -- pools -------------------------------------------------------------------------------------------------------------


def pools(patient: Patient) -> Iterator[Finding]:
    """Each pool of our models: complete, waited for, and with the condition by which a pod is handed over."""
    slices: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    for one in pool_slices(patient):
        slices[one.driver, one.pool].append(one)
    for (_, name), some in sorted(slices.items()):
        pool = gather(some)
        if pool is None:
            continue
        if not pool.usable:
            what = f"pool {name} is incomplete in generation {pool.generation}: the scheduler takes nothing from it"
            yield error(
                "pools", what, "see why the publisher does not finish; two publishers on one driver do this too"
            )
        faults = _unusable(name, list(pool.devices.values()))
        yield from faults
        if pool.usable and not faults:
            yield ok("pools", f"pool {name} is complete: {many(len(pool.devices), 'device')}")


def _unusable(name: str, devices: list[Device]) -> list[Finding]:
    found = []
    bare = sum(not one.binding for one in devices)
    if bare:
        what = f"pool {name}: {bare} devices have no binding conditions, pods would start without them"
        found.append(
            error("pools", what, "see the finding about binding conditions, then let the publisher publish anew")
        )
    waited = [one for one in devices if one.binding]
    for condition, outcome, level in (
        (RESCHEDULE, "no pod can be handed over to an attached device", error),
        (FAILED_CONDITION, "an attach that fails is told by the time-out alone", warning),
    ):
        without = sum(condition not in one.failure for one in waited)
        if without:
            what = f"pool {name}: {without} devices do not list {condition}: {outcome}"
            found.append(level("pools", what, f"add {condition} to the publisher's bindingFailureConditions"))
    return found


# -- publishers --------------------------------------------------------------------------------------------------------


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    managed_fields: list[ManagedField] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    driver: str = ""
    node_name: str = ""


class _Signed(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_signed = msgspec.json.Decoder(_Signed)


def _publishers(meta: _Meta) -> set[str]:
    """Who keeps a slice. What was taken over still names in its managedFields who made it; there the mark counts."""
    owner = (meta.labels or {}).get(MANAGED_BY, "")
    return {foreign(owner)} if owner else set(writers(meta.managed_fields))


def publishers(patient: Patient) -> Iterator[Finding]:
    """Two cluster-level publishers of one driver delete each other's slices: the upstream helper takes all slices of its driver
    that are of no node for its own (k8s.io/dynamic-resource-allocation/resourceslice)."""
    ours = {model.driver for model in patient.config_or_usual().models}
    managers: dict[str, set[str]] = defaultdict(set)
    for raw in patient.everything("resourceslices"):
        try:
            one = _signed.decode(raw)
        except msgspec.DecodeError:
            continue
        if one.spec.driver in ours and not one.spec.node_name:
            managers[one.spec.driver] |= _publishers(one.metadata)
    for driver, names in sorted(managers.items()):
        if len(names) > 1:
            what = (
                f"{len(names)} publishers write pools of {driver} ({several(names)}): each deletes the other's slices"
            )
            yield warning("publishers", what, "let only one of them publish the driver's pools")
        elif names:
            yield ok("publishers", f"{several(names)} alone publishes the pools of {driver}")
