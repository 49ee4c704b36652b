"""Who else is at work in the cluster: the reference scaler above all. Two that act on the same claims undo each other's work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.doctor.findings import Finding, foreign, note, ok, several, unknown, warning
from dds_adapters.kubernetes.doctor.patient import Patient, instant_of
from dds_adapters.kubernetes.doctor.signed import ManagedField, writers
from dds_core.model import OWNER, OWNER_LABEL

_CHECK = "beside"
REFERENCE_LEASE = "2313b367.co.hdi"
"""Name of the reference scaler's Lease, when it is started with --leader-elect."""
DEPLOYMENT = "dds-controller-manager"
"""Name of the reference scaler's Deployment as its chart makes it."""
STALE = 300_000_000
"""Microseconds after which a Lease that nobody renews is one that was left behind."""


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    managed_fields: list[ManagedField] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


_object = msgspec.json.Decoder(_Object)


def beside(patient: Patient) -> Iterator[Finding]:
    """The reference by its Lease and Deployment, anybody by the requests that are not ours."""
    mode = patient.policy.mode
    say = note if mode == "observe" else warning
    mend = "run this one in mode observe beside it, or stop the other first"
    seen = unclear = False
    for name, path, works in (
        (
            f"Lease {REFERENCE_LEASE}",
            path_of("leases", "coordination.k8s.io/v1", patient.namespace, REFERENCE_LEASE),
            _held,
        ),
        (f"Deployment {DEPLOYMENT}", path_of("deployments", "apps/v1", patient.namespace, DEPLOYMENT), _wanted),
    ):
        try:
            spec = patient.decoded(path, patient.get(path)).get("spec") or {}
        except Refused as refused:
            unclear |= refused.code != 404
            continue
        if works(spec, patient.now()):
            seen = True
            holder = foreign(str(spec.get("holderIdentity") or ""))
            held = f", held by {holder}" if holder else ""
            yield say(_CHECK, f"the reference scaler seems to run: {name} in {patient.namespace}{held}", mend)
    others = _requesters(patient)
    if others:
        yield note(
            _CHECK, f"requests for devices were made by others too: {several(others)}", "see `adoption` in the policy"
        )
    if unclear and not seen:
        yield unknown(_CHECK, "whether the reference scaler runs could not be seen (not permitted)")
    elif not seen and not others:
        yield ok(_CHECK, f"no other scaler was found in {patient.namespace}")


def _held(lease: dict[str, Any], now: int) -> bool:
    """Whether somebody has renewed it lately, as far as it tells."""
    renewed = instant_of(lease.get("renewTime"))
    return bool(lease.get("holderIdentity")) and (renewed is None or now - renewed < STALE)


def _wanted(deployment: dict[str, Any], now: int) -> bool:
    """Whether it is to have any pods."""
    return deployment.get("replicas") != 0


def _requesters(patient: Patient) -> set[str]:
    """Who wrote the requests that are not ours; nobody where they cannot be listed."""
    names: set[str] = set()
    try:
        requests = patient.everything("composabilityrequests")
    except Refused:
        return names
    for raw in requests:
        try:
            meta = _object.decode(raw).metadata
        except msgspec.DecodeError:
            continue
        if (meta.labels or {}).get(OWNER_LABEL) != OWNER:
            names |= set(writers(meta.managed_fields)[:1]) or {"somebody who left no name"}
    return names
