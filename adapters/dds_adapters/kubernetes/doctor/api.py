"""What the API server keeps of the fields that the hand-over lives on, and what the scheduler makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.decode import MANAGED_BY
from dds_adapters.kubernetes.doctor.findings import Finding, error, note, ok, unknown, warning
from dds_adapters.kubernetes.doctor.patient import Patient
from dds_adapters.kubernetes.watched import DRA
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Slice
from dds_core.policy import Policy, lower
from dds_core.pools import model_of_pool
from dds_core.publishing.model import MANAGED_BY as PUBLISHER

READY = "FabricDeviceReady"
FIELDS = ("bindingConditions", "bindingFailureConditions")
_SWITCH = (
    "switch DRADeviceBindingConditions on in API server and scheduler (on by default from 1.36), then publish anew"
)
_SLICES = path_of("resourceslices", f"{DRA}/v1")


def binding_conditions(patient: Patient) -> Iterator[Finding]:
    """By a slice that is created without being kept; where that is not allowed, by the slices that are published."""
    check = "binding conditions"
    if "resourceslices" not in patient.served(f"{DRA}/v1"):
        yield from _read_back(check, patient, f"{DRA}/v1 is not served, so nothing could be tried")
        return
    try:
        made = patient.decoded(_SLICES, patient.dry_create(_SLICES, example()))
    except Refused as refused:
        yield from _read_back(check, patient, f"a slice on trial was refused ({refused.code})")
        return
    devices: list[dict[str, Any]] = (made.get("spec") or {}).get("devices") or [{}]
    lost = [name for name in FIELDS if not devices[0].get(name)]
    if lost:
        yield error(check, f"the API server drops {' and '.join(lost)} of a slice without a word", _SWITCH)
    else:
        yield ok(check, "the API server keeps binding conditions of a slice (tried by dry-run)")


def _read_back(check: str, patient: Patient, why: str) -> Iterator[Finding]:
    pools = pool_slices(patient)
    kept = [one for one in pools if any(device.binding for device in one.devices.values())]
    if kept:
        yield ok(check, f"published slice {kept[0].name} has binding conditions ({why})")
    elif any(one.devices for one in pools):
        yield error(check, f"published slice {pools[0].name} has no binding conditions ({why})", _SWITCH)
    else:
        yield unknown(
            check, f"{why}, and no pool slice is published yet", "look again once the publisher has published one"
        )


def pool_slices(patient: Patient) -> list[Slice]:
    """Slices of the pools of our models, by name."""
    config = patient.config_or_usual()
    found = [one for one in patient.slices() if model_of_pool(config, one.driver, one.pool) is not None]
    return sorted(found, key=lambda one: one.name)


def example() -> dict[str, Any]:
    """A slice that no driver would ever publish, with one device as a publisher makes them."""
    term = {"matchExpressions": [{"key": "dds.cohdi.io/doctor", "operator": "In", "values": ["never"]}]}
    device = {
        "name": "example",
        "bindingConditions": [READY],
        "bindingFailureConditions": [RESCHEDULE, FAILED_CONDITION],
    }
    return {
        "apiVersion": f"{DRA}/v1",
        "kind": "ResourceSlice",
        # The mark without which the publisher's admission policy lets nothing of its account pass.
        "metadata": {"name": "dds-doctor", "labels": {MANAGED_BY: PUBLISHER}},
        "spec": {
            "driver": "doctor.dds.cohdi.io",
            "pool": {"name": "dds-doctor", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "devices": [device],
        },
    }


def scheduler_gates(patient: Patient) -> Iterator[Finding]:
    """No API tells a scheduler's gates; the first allocation of a pool device does, since it copies the conditions."""
    check, without = "scheduler gates", ""
    config = patient.config_or_usual()
    for claim in patient.claims():
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.binding:
                yield ok(check, f"claim {claim.namespace}/{claim.name} was allocated with binding conditions")
                return
            if model_of_pool(config, result.driver, result.pool) is not None:
                without = f"{claim.namespace}/{claim.name}"
    if without:
        mend = "switch DRADeviceBindingConditions on in the scheduler; the pod would start without its device"
        yield error(check, f"claim {without} has a pool device without binding conditions", mend)
    else:
        yield unknown(check, "unknown until the first allocation of a pool device shows them")


def taint_rules(patient: Patient) -> Iterator[Finding]:
    """The fence around a victim. A rule that is served may still be obeyed by nobody."""
    check = "taint rules"
    served = taint_rule_version(patient)
    if served:
        what = f"DeviceTaintRule is served as {served}; whether the scheduler obeys it was not verified"
        yield note(check, what, "see that DRADeviceTaintRules is on in the scheduler too")
        return
    what = f"DeviceTaintRule is not served: {_without_fence(patient.policy)}"
    mend = f"serve {DRA}/v1beta2 (1.36) or v1alpha3 with runtime-config and switch DRADeviceTaintRules on"
    detaches = lower(patient.policy.mode, patient.config_or_usual().mode) == "detach"
    yield warning(check, what, mend) if detaches else note(check, what, mend)


def taint_rule_version(patient: Patient) -> str:
    """The version in which DeviceTaintRules are served, "" for none."""
    try:
        return patient.version_of("devicetaintrules")
    except Refused as refused:
        if refused.code != 404:
            raise
        return ""


def _without_fence(policy: Policy) -> str:
    if policy.detach_without_fence == "never":
        return "no device is detached, as the policy says (detach_without_fence: never)"
    return "a victim is fenced by watching alone, so that the scheduler may take it in the last moment"
