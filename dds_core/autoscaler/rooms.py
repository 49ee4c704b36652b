"""The rooms of the autoscaler's state, with indexes that hooks of the tables keep; and `dirty`: what the rules must look at
again. Indexes are never stored: they are rebuilt from the rows."""

from __future__ import annotations

from typing import Any

from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.autoscaler.records import Advice, Leaving, Load, Order, Server, Shown, Worker
from dds_core.events import Event
from dds_core.kit.state import Hook, Index, Room, StateBase, Table
from dds_core.model import AttachRequest, Claim, Config, DeviceClass, DeviceKey, FabricResource, Slice, TaintRule


class Dirty:
    """What the rules must look at again: orders, servers and nodes, calls of Cluster Autoscaler to answer, or everything."""

    __slots__ = ("asked", "everything", "nodes", "orders", "servers")

    def __init__(self) -> None:
        self.orders: set[str] = set()
        self.servers: set[str] = set()
        self.nodes: set[str] = set()
        self.asked: list[Event] = []
        self.everything = False

    def __bool__(self) -> bool:
        return bool(self.orders or self.servers or self.nodes or self.asked or self.everything)

    def take(self) -> Dirty:
        """Return a copy and become clean."""
        taken = Dirty()
        taken.add(self)
        self.clear()
        return taken

    def add(self, other: Dirty) -> None:
        self.orders |= other.orders
        self.servers |= other.servers
        self.nodes |= other.nodes
        self.asked += other.asked
        self.everything = self.everything or other.everything

    def clear(self) -> None:
        self.orders, self.servers, self.nodes, self.asked, self.everything = set(), set(), set(), [], False


class Cluster(Room):
    """What is observed of nodes, pods, claims, devices and servers. `pending`: pods without a node, but for daemon sets'."""

    configs: Table[str, Config]
    workers: Table[str, Worker]
    loads: Table[str, Load]
    claims: Table[str, Claim]
    slices: Table[str, Slice]
    classes: Table[str, DeviceClass]
    taint_rules: Table[str, TaintRule]
    requests: Table[str, AttachRequest]
    resources: Table[str, FabricResource]
    servers: Table[str, Server]

    observed = {
        Config: "configs",
        Worker: "workers",
        Load: "loads",
        Claim: "claims",
        Slice: "slices",
        DeviceClass: "classes",
        TaintRule: "taint_rules",
        AttachRequest: "requests",
        FabricResource: "resources",
        Server: "servers",
    }

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.worker_of: dict[str, str] = {}
        self.server_of: dict[str, str] = {}
        self.server_for: dict[str, str] = {}
        self.holders: Index[DeviceKey, str] = Index()
        self.claims_on: Index[str, str] = Index()
        self.loads_on: Index[str, str] = Index()
        self.pending: set[str] = set()
        self.slices_on: Index[str, str] = Index()
        self.requests_at: Index[str, str] = Index()
        self.resources_at: Index[str, str] = Index()
        self.workers.watch(self._worker_changed)
        self.servers.watch(self._server_changed)
        self.claims.watch(self._claim_changed)
        self.loads.watch(self._load_changed)
        self.slices.watch(_on_node(self.slices_on))
        self.requests.watch(_on_node(self.requests_at))
        self.resources.watch(_on_node(self.resources_at))

    def _worker_changed(self, uid: str, old: Worker | None, new: Worker | None) -> None:
        if old is not None and self.worker_of.get(old.provider_id) == uid:
            del self.worker_of[old.provider_id]
        if new is not None and new.provider_id:
            self.worker_of[new.provider_id] = uid

    def _server_changed(self, uid: str, old: Server | None, new: Server | None) -> None:
        for row in (old, new):
            if row is None:
                continue
            for found, key in ((self.server_of, row.provider_id), (self.server_for, row.order)):
                if row is old and found.get(key) == uid:
                    del found[key]
                elif row is new and key:
                    found[key] = uid

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        for claim, of_device, of_node in (
            (old, self.holders.discard, self.claims_on.discard),
            (new, self.holders.add, self.claims_on.add),
        ):
            if claim is not None and claim.allocation is not None:
                of_node(claim.allocation.node, uid)
                for one in claim.allocation.results:
                    if not one.admin:
                        of_device(one.key, uid)

    def _load_changed(self, uid: str, old: Load | None, new: Load | None) -> None:
        _move(self.loads_on, uid, _place(old), _place(new))
        (self.pending.add if new is not None and new.is_pending and not new.daemon else self.pending.discard)(uid)


class Rooms(StateBase[Any]):
    """The cluster, what the autoscaler has decided, and what a change makes its rules look at again."""

    cluster: Cluster
    orders: Table[str, Order]
    leaving: Table[str, Leaving]
    groups: Table[str, Shown]
    opening: Table[str, int]
    advice: Table[str, Advice]
    counters: Table[str, int]

    policy: AutoscalePolicy
    dirty: Dirty

    def __init__(self) -> None:
        super().__init__()
        self.policy = AutoscalePolicy()
        self.dirty = Dirty()
        self.cluster = Cluster(self)
        self.cluster.workers.watch(self._worker_wakes)
        self.cluster.servers.watch(self._server_wakes)
        self.orders.watch(lambda name, old, new: self.dirty.orders.add(name))
        self.leaving.watch(lambda uid, old, new: self.dirty.servers.add(uid))

    def _worker_wakes(self, uid: str, old: Worker | None, new: Worker | None) -> None:
        if new is not None:
            self.dirty.nodes.add(uid)
        for row in (old, new):
            server = self.cluster.server_of.get(row.provider_id) if row is not None else None
            if server is not None:
                self._look_at(server)

    def _server_wakes(self, uid: str, old: Server | None, new: Server | None) -> None:
        for row in (one for one in (old, new) if one is not None):
            if row.order:
                self.dirty.orders.add(row.order)
            node = self.cluster.worker_of.get(row.provider_id)
            if node is not None:  # it may have registered before its provider reports it
                self.dirty.nodes.add(node)
        self.dirty.servers.add(uid)

    def _look_at(self, server: str) -> None:
        self.dirty.servers.add(server)
        row = self.cluster.servers.get(server)
        if row is not None and row.order:
            self.dirty.orders.add(row.order)


def _place(load: Load | None) -> str | None:
    """The node on which the pod counts."""
    return (load.node or load.nominated) if load is not None and not load.is_over else None


def _on_node(index: Index[str, str]) -> Hook[str, Any]:
    return lambda uid, old, new: _move(index, uid, _node(old), _node(new))


def _node(row: Slice | AttachRequest | FabricResource | None) -> str | None:
    return row.node if row is not None else None


def _move(index: Index[str, str], uid: str, old: str | None, new: str | None) -> None:
    if old:
        index.discard(old, uid)
    if new:
        index.add(new, uid)
