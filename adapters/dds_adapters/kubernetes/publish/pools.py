"""Writes the slices of one pool as decided, and checks each answer for what the API server really stored.

A slice that is already right is not written. Only slices with dds's mark are changed or deleted; with `adopt` also slices of the
pool that carry no mark. If the answer shows a device without its binding conditions, dds deletes that slice before anything else,
because the scheduler would hand the device out at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from dds_adapters.kubernetes.decode.decoding import MANAGED_BY as LABEL
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.publish.decode import pool_slice
from dds_adapters.kubernetes.write.live_object import Ended, Live, LiveWrite, Ref, Server, live_of
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.model import Requirement
from dds_core.publisher.describe import devices_of, digest_of, node_selector, selector
from dds_core.publisher.events import DROPPED
from dds_core.publisher.model import MANAGED_BY, PoolModel, SliceLayout

SLICES = "resourceslices"
FIRST_VERSION = "resource.k8s.io/v1beta1"
"""Served alone only by old releases without binding conditions; its devices have another form."""
OWNERS = "ownerReferences"
"""Removed from an adopted slice, which would otherwise be deleted together with its maker."""
NOT_KEPT = "FieldsDropped"
OWNED_BY_OTHER = "SliceOwnedByOther"


@dataclass(frozen=True, slots=True)
class PublishPool(LiveWrite):
    """PoolPublished: write these slices, each device described by `model`, and first delete the slices in `drop` (uid by
    name)."""

    driver: str
    pool: str
    fabric: str
    prefix: str
    model: PoolModel
    generation: int
    slices: tuple[SliceLayout, ...]
    taint: str = ""
    drop: tuple[tuple[str, str], ...] = ()
    adopt: bool = False

    def _once(self, server: Server) -> Result:
        """Read everything first: if another owner has one of the names, nothing of the pool is written."""
        version = server.version_of(SLICES)
        if version == FIRST_VERSION:
            return Declined(0, DROPPED, f"{version} has no binding conditions; a release from 1.34 has")
        wanted = [self._wanted(one) for one in self.slices]
        going = list(_going(server, self.driver, self.pool, self.drop, self.adopt))
        there = [(one, self._found(server, one)) for one in wanted]
        changed = [(one, live) for one, live in there if live is None or not one.is_shown(live.raw)]
        for gone in going:
            server.delete(gone, unchanged=True)
        for one, live in sorted(changed, key=lambda pair: pair[1] is None):  # existing slices first
            one.write(server, live, version)
        return Done(written=bool(going or changed))

    def _wanted(self, layout: SliceLayout) -> WantedSlice:
        spec: dict[str, Any] = {
            "driver": self.driver,
            "pool": {"name": self.pool, "generation": self.generation, "resourceSliceCount": len(self.slices)},
            "nodeSelector": node_selector(self.prefix, self.model.device, self.fabric),
            "devices": devices_of(self.model, layout.devices, self.taint, layout.closed, self.prefix),
        }
        where = selector(self.prefix, self.model.device, self.fabric)
        return WantedSlice(layout, spec, where, digest_of(spec["devices"]))

    def _found(self, server: Server, one: WantedSlice) -> Live | None:
        live = server.find(Ref(SLICES, one.layout.name))
        if live is None:
            return None
        if live.deleting:
            raise Ended(Later(f"{live.ref} is being deleted"))
        if not _is_of(live, self.driver, self.pool) or not _is_ours(live, self.adopt):
            by = live.labels.get(LABEL) or "nobody named"
            text = f"{live.ref} is there already and not ours (made by {by}): delete it, or rename the model"
            raise Ended(Declined(409, OWNED_BY_OTHER, text))
        return live


@dataclass(frozen=True, slots=True)
class WithdrawPool(LiveWrite):
    """PoolWithdrawn: delete these slices of the pool (uid by name)."""

    driver: str
    pool: str
    drop: tuple[tuple[str, str], ...]
    adopt: bool = False

    def _once(self, server: Server) -> Result:
        going = list(_going(server, self.driver, self.pool, self.drop, self.adopt))
        for live in going:
            server.delete(live, unchanged=True)
        return Done(written=bool(going))


@dataclass(frozen=True, slots=True)
class WantedSlice:
    """A slice to publish. `spec` is its JSON, `selector` its node selector, `digest` that of its devices."""

    layout: SliceLayout
    spec: dict[str, Any]
    selector: tuple[Requirement, ...]
    digest: str

    def is_shown(self, raw: bytes) -> bool:
        """Whether the object is like this already."""
        try:
            found = pool_slice(raw)
        except Fault:
            return False
        pool = self.spec["pool"]
        said = (found.driver, found.pool, found.generation, found.slices, found.node, found.selector, found.digest)
        meant = (self.spec["driver"], pool["name"], pool["generation"], pool["resourceSliceCount"], "", self.selector)
        return found.owner == MANAGED_BY and said == (*meant, self.digest)

    def write(self, server: Server, live: Live | None, version: str) -> None:
        """Create or replace it, then check what the API server stored."""
        ref = Ref(SLICES, self.layout.name)
        whole: dict[str, Any] = msgspec.json.decode(live.raw) if live is not None else {"metadata": {"name": ref.name}}
        meta = {key: value for key, value in whole["metadata"].items() if key != OWNERS}
        labels = {**(meta.get("labels") or {}), LABEL: MANAGED_BY}
        body = {
            **whole,
            "apiVersion": version,
            "kind": "ResourceSlice",
            "metadata": {**meta, "labels": labels},
            "spec": self.spec,
        }
        answer = server.put(live, body) if live is not None else server.create(ref, body)
        self._read_back(server, live_of(ref, answer))

    def _read_back(self, server: Server, kept: Live) -> None:
        """Compare the answer with what was sent."""
        if self.is_shown(kept.raw):
            return
        if _has_ordinary(kept):
            server.delete(kept)
            text = f"{kept.ref} was kept without binding conditions and deleted (gate DRADeviceBindingConditions)"
            raise Ended(Declined(422, DROPPED, text))
        text = f"{kept.ref} is kept otherwise than it was sent ({self._lost(kept)}): gates or an admission webhook"
        raise Ended(Declined(422, NOT_KEPT, text))

    def _lost(self, kept: Live) -> str:
        """Names of the fields that were stored differently."""
        spec = msgspec.json.decode(kept.raw).get("spec") or {}
        names = {key for key in self.spec if key != "devices" and spec.get(key) != self.spec[key]}
        for sent, there in zip(self.spec["devices"][:1], (spec.get("devices") or [])[:1], strict=False):
            names |= {f"devices.{key}" for key in sent if _alone(sent, key) != _alone(there, key)}
        return ", ".join(sorted(names)) or "its devices"


def _alone(device: dict[str, Any], key: str) -> str:
    return digest_of([{key: device[key]}] if key in device else [])


def _has_ordinary(live: Live) -> bool:
    try:
        return bool(pool_slice(live.raw).ordinary)
    except Fault:
        return False


def _going(server: Server, driver: str, pool: str, drop: tuple[tuple[str, str], ...], adopt: bool) -> Iterator[Live]:
    """The slices to delete that still exist. Raises Ended (Obsolete) if one belongs to another owner by now."""
    for name, uid in drop:
        live = server.find(Ref(SLICES, name, uid=uid))
        if live is None or live.uid != uid or live.deleting:
            continue
        if not _is_ours(live, adopt) or not _is_of(live, driver, pool):
            raise Ended(Obsolete(f"{live.ref} is not ours any more"))
        yield live


def _is_ours(live: Live, adopt: bool) -> bool:
    owner = live.labels.get(LABEL, "")
    return owner == MANAGED_BY or (adopt and not owner)


def _is_of(live: Live, driver: str, pool: str) -> bool:
    """Whether it is a network-attached slice of that pool (driver, pool and node of a slice never change)."""
    spec = msgspec.json.decode(live.raw).get("spec") or {}
    return (spec.get("driver"), (spec.get("pool") or {}).get("name")) == (driver, pool) and not spec.get("nodeName")
