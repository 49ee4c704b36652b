"""The rooms of the publisher's state, with indexes that hooks of the tables keep; and `dirty`: what the rules must look at again.
Indexes are never stored: they are rebuilt from the rows."""

from __future__ import annotations

from typing import Any

from dds_core.events import Capabilities
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.state import Index, Room, StateBase, Table
from dds_core.model import GOING, Claim, DeviceKey, FabricResource
from dds_core.publisher.model import Absent, Host, Machine, PoolConfig, PoolKey, PoolRow, PoolSlice, Stock, by_name
from dds_core.publisher.policy import PublishPolicy

StockKey = tuple[str, str]
"""(fabric, cdi-model-name)."""


class Dirty:
    """What the rules must look at again: pools, nodes by name, or everything; `due`: deadlines (kind, of) to recompute."""

    __slots__ = ("due", "everything", "hosts", "pools")

    def __init__(self) -> None:
        self.pools: set[PoolKey] = set()
        self.hosts: set[str] = set()
        self.due: set[tuple[str, str]] = set()
        self.everything = False

    def __bool__(self) -> bool:
        return bool(self.pools or self.hosts or self.due or self.everything)

    def take(self) -> Dirty:
        """Return a copy and become clean."""
        taken = Dirty()
        taken.add(self)
        self.clear()
        return taken

    def add(self, other: Dirty) -> None:
        self.pools |= other.pools
        self.hosts |= other.hosts
        self.due |= other.due
        self.everything = self.everything or other.everything

    def clear(self) -> None:
        self.pools, self.hosts, self.due, self.everything = set(), set(), set(), False


class Cluster(Room):
    """What is observed of the cluster, and what its API server can do (`capabilities`). `under_way`: devices that are ordered and
    may come, by model."""

    configs: Table[str, PoolConfig]
    hosts: Table[str, Host]
    slices: Table[str, PoolSlice]
    claims: Table[str, Claim]
    resources: Table[str, FabricResource]

    observed = {PoolConfig: "configs", Host: "hosts", PoolSlice: "slices", Claim: "claims", FabricResource: "resources"}
    scalars = {"capabilities": Capabilities}

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.capabilities = Capabilities()
        self.slices_of: Index[PoolKey, str] = Index()
        self.local_slices: Index[str, str] = Index()
        self.holders: Index[DeviceKey, str] = Index()
        self.held_in: Index[PoolKey, DeviceKey] = Index()
        self.claims_at: Index[str, str] = Index()
        self.keys_of: Index[str, DeviceKey] = Index()
        self.resources_on: Index[str, str] = Index()
        self.under_way: Index[str, str] = Index()
        self.hosts_of: Index[str, str] = Index()
        self.slices.watch(self._slice_changed)
        self.claims.watch(self._claim_changed)
        self.resources.watch(self._resource_changed)
        self.hosts.watch(self._host_changed)

    def _slice_changed(self, uid: str, old: PoolSlice | None, new: PoolSlice | None) -> None:
        for row, change in ((old, "discard"), (new, "add")):
            if row is None:
                continue
            if row.node:
                getattr(self.local_slices, change)(row.node, uid)
                for name, uuid in row.uuids.items():
                    getattr(self.keys_of, change)(uuid, (row.driver, row.pool, name))
            else:
                getattr(self.slices_of, change)((row.driver, row.pool), uid)

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        if old is not None and old.allocation is not None:
            self.claims_at.discard(old.allocation.node, uid)
        if new is not None and new.allocation is not None:
            self.claims_at.add(new.allocation.node, uid)
        for key in results_of(old):
            self.holders.discard(key, uid)
            if not self.holders[key]:
                self.held_in.discard(key[:2], key)
        for key in results_of(new):
            self.holders.add(key, uid)
            self.held_in.add(key[:2], key)

    def _resource_changed(self, uid: str, old: FabricResource | None, new: FabricResource | None) -> None:
        for row, on_node, on_its_way in (
            (old, self.resources_on.discard, self.under_way.discard),
            (new, self.resources_on.add, self.under_way.add),
        ):
            if row is not None:
                on_node(row.node, uid)
                if is_under_way(row):
                    on_its_way(row.model, uid)

    def _host_changed(self, uid: str, old: Host | None, new: Host | None) -> None:
        for row, change in ((old, self.hosts_of.discard), (new, self.hosts_of.add)):
            if row is not None:
                for machine in machines_of(row):
                    change(machine, uid)


class Fabric(Room):
    """What fabrics and their managers say. `failures`: why a question had no answer. `uncounted`: devices that have arrived since
    their fabric last counted. `listed_at`: when machines were last listed."""

    machines_by_uuid: Table[str, Machine]
    stocks: Table[StockKey, Stock]
    uncounted: Table[str, StockKey]
    failures: Table[str, str]
    absent: Table[str, Absent]

    scalars = {"listed_at": int}

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.listed_at = 0
        self.machines_in: Index[str, str] = Index()
        self.machines_by_uuid.watch(self._machine_changed)

    def _machine_changed(self, uuid: str, old: Machine | None, new: Machine | None) -> None:
        if old is not None:
            self.machines_in.discard(old.fabric, uuid)
        if new is not None:
            self.machines_in.add(new.fabric, uuid)


class Rooms(StateBase[Any]):
    """The cluster, the fabrics and the pools that are published."""

    cluster: Cluster
    fabric: Fabric
    pools: Table[PoolKey, PoolRow]

    policy: PublishPolicy
    dirty: Dirty

    def __init__(self) -> None:
        super().__init__()
        self.policy = PublishPolicy()
        self.dirty = Dirty()
        self.cluster = Cluster(self)
        self.fabric = Fabric(self)
        self.pools_in: Index[str, PoolKey] = Index()
        self.labels_of: Index[str, tuple[str, str]] = Index()
        self.pools.watch(self._pool_changed)
        self.notes.labelled.watch(self._labelled_changed)
        self.fabric.absent.watch(lambda name, old, new: self.dirty.due.add((DeadlineKind.GONE, name)))
        self.notes.fired_deadlines.watch(lambda key, old, new: self.dirty.due.add(key))

    def _pool_changed(self, key: PoolKey, old: PoolRow | None, new: PoolRow | None) -> None:
        if old is not None:
            self.pools_in.discard(old.fabric, key)
        if new is not None:
            self.pools_in.add(new.fabric, key)

    def _labelled_changed(self, key: tuple[str, str], old: str | None, new: str | None) -> None:
        if new is None:
            self.labels_of.discard(key[0], key)
        else:
            self.labels_of.add(key[0], key)


def has_arrived(one: FabricResource) -> bool:
    """Whether the operator knows which device it is."""
    return bool(one.uuid or one.fabric_id)


def is_under_way(one: FabricResource) -> bool:
    """Whether a device is ordered and may come."""
    return one.state not in GOING and not one.deleting and not has_arrived(one)


def machines_of(host: Host) -> list[str]:
    """The names that a fabric may have for a node's machine; the first that it has counts."""
    return [host.machine, by_name(host.name)] if host.machine else [by_name(host.name)]


def results_of(claim: Claim | None) -> list[DeviceKey]:
    """The devices that a claim is allocated, without admin access."""
    allocation = claim.allocation if claim is not None else None
    return [one.key for one in allocation.results if not one.admin] if allocation is not None else []
