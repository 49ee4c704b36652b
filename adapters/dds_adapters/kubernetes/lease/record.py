"""The Lease object as an elector reads and writes it. It must never change what it does not own: labels, owners and fields of
the object that are not the election's go back as they came.

Source of the fields: coordination.k8s.io/v1, LeaseSpec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dds_core.errors import DdsError
from dds_core.timeline.clock import rfc3339

API_VERSION = "coordination.k8s.io/v1"
RELEASED_SECONDS = 1
"""The duration of a record that nobody holds; the API server refuses 0."""


class UnexpectedLease(DdsError):
    """The object is none that an election can be held on; it is neither taken nor changed."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str


class _Lease(msgspec.Struct, rename="camel"):
    kind: str
    metadata: _Meta
    spec: _Spec | None = None


@dataclass(frozen=True)
class Written:
    """What an elector writes into the record. Instants are text: people read them, and we compare them for equality only."""

    holder: str
    seconds: int
    acquired: str
    renewed: str
    transitions: int


@dataclass(frozen=True)
class Record:
    """A Lease as it was read. `seconds` is 0 where the object does not say how long it is held."""

    uid: str
    version: str
    holder: str
    seconds: int
    acquired: str
    renewed: str
    transitions: int
    body: dict[str, Any]

    def same_as(self, other: Record | None) -> bool:
        """Whether nobody has written the election's part in between; labels and versions do not count."""
        return other is not None and (self.uid, self.body.get("spec")) == (other.uid, other.body.get("spec"))


def read(raw: bytes, where: str) -> Record:
    """Decode an answer of the API server. Raises UnexpectedLease for whatever is not a Lease that can be contended for."""
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
        lease = msgspec.convert(body, _Lease)
    except (ValueError, RecursionError) as error:
        raise _unexpected(f"the API server answers with something else than a Lease ({error})", where) from None
    spec = lease.spec or _Spec()
    if lease.kind != "Lease" or not lease.metadata.uid or not lease.metadata.resource_version:
        raise _unexpected("the API server answers with something else than a Lease", where)
    if spec.strategy:
        raise _unexpected(f"its holder is chosen by strategy {spec.strategy}", where)
    return Record(
        uid=lease.metadata.uid,
        version=lease.metadata.resource_version,
        holder=spec.holder_identity or "",
        seconds=max(0, spec.lease_duration_seconds or 0),
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=max(0, spec.lease_transitions or 0),
        body=body,
    )


def new(written: Written, namespace: str, name: str) -> bytes:
    """The body that creates the object."""
    shape = {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": _spec(written),
    }
    return msgspec.json.encode(shape)


def changed(record: Record, written: Written) -> bytes:
    """The body that updates the object, under the version that was read; all other fields are as they were."""
    spec = {**(record.body.get("spec") or {}), **_spec(written)}
    return msgspec.json.encode({**record.body, "spec": spec})


def instant(at: int) -> str:
    """Microseconds as a MicroTime, such as 2026-11-21T02:11:05.761412Z."""
    return rfc3339(at)


def _spec(written: Written) -> dict[str, Any]:
    return {
        "holderIdentity": written.holder,
        "leaseDurationSeconds": written.seconds,
        "acquireTime": written.acquired,
        "renewTime": written.renewed or None,
        "leaseTransitions": written.transitions,
    }


def _unexpected(what: str, where: str) -> UnexpectedLease:
    return UnexpectedLease(what, where=where, fix="give another name, or delete the object if nobody needs it")
