"""The picture: everything the engine knows, folded from the log, with the indexes that keep work per change small.

One owner holds it and changes it only through `dds_core.fold.apply`. Indexes are derived from the rows by hooks and are
never stored. `dirty` names what the fold of the current group touched, so that `decide` looks at nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dds_core.lifecycle import WAITING
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    Config,
    Device,
    DeviceClass,
    DeviceKey,
    FabricResource,
    Model,
    Node,
    Observed,
    Pod,
    Result,
    Slice,
    TaintRule,
)
from dds_core.policy import Mode, Policy, lower
from dds_core.pools import Pool, PoolKey, gather, model_of_device, model_of_pool, text_attribute
from dds_core.rows import (
    Cell,
    ClaimLife,
    Cooling,
    DeviceLife,
    Failure,
    Fence,
    HandOverRow,
    Order,
    Rate,
    Refusal,
    Reservation,
    Timeout,
)
from dds_core.table import Hook, Index, Journal, Table

NO_CONFIG = Config(uid="")


class Dirty:
    """What has to be looked at again: claims and devices by uid, nodes by name, or everything. `freed` counts attaches that
    ended or are not ordered any more: others may have waited for the room."""

    __slots__ = ("claims", "devices", "everything", "freed", "nodes")

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.devices: set[str] = set()
        self.nodes: set[str] = set()
        self.everything = False
        self.freed = 0

    def __bool__(self) -> bool:
        return bool(self.claims or self.devices or self.nodes or self.freed or self.everything)

    def take(self) -> Dirty:
        """A copy of what is dirty; this one is clean afterwards."""
        taken = Dirty()
        taken.claims, taken.devices, taken.nodes = self.claims, self.devices, self.nodes
        taken.everything, taken.freed = self.everything, self.freed
        self.clear()
        return taken

    def add(self, other: Dirty) -> None:
        self.claims |= other.claims
        self.devices |= other.devices
        self.nodes |= other.nodes
        self.everything = self.everything or other.everything
        self.freed += other.freed

    def clear(self) -> None:
        self.claims, self.devices, self.nodes, self.everything, self.freed = set(), set(), set(), False, 0


class Picture:
    """The tables, the indexes over them, and questions that several rules ask."""

    def __init__(self) -> None:
        journal = self.journal = Journal()
        self.uid_named: dict[tuple[type[Observed], str, str], str] = {}
        self.claims: Table[str, Claim] = Table(journal, self._naming(Claim, self._claim_changed))
        self.pods: Table[str, Pod] = Table(journal, self._naming(Pod, self._pod_changed))
        self.nodes: Table[str, Node] = Table(journal, self._naming(Node, self._node_changed))
        self.slices: Table[str, Slice] = Table(journal, self._naming(Slice, self._slice_changed))
        self.classes: Table[str, DeviceClass] = Table(journal, self._naming(DeviceClass))
        self.rules: Table[str, TaintRule] = Table(journal, self._naming(TaintRule, self._rule_changed))
        self.configs: Table[str, Config] = Table(journal, self._naming(Config, self._config_changed))
        self.requests: Table[str, AttachRequest] = Table(journal, self._naming(AttachRequest, self._request_changed))
        self.resources: Table[str, FabricResource] = Table(
            journal, self._naming(FabricResource, self._resource_changed)
        )

        self._tables: dict[type[Observed], Table[str, Any]] = {
            Claim: self.claims,
            Slice: self.slices,
            DeviceClass: self.classes,
            TaintRule: self.rules,
            Node: self.nodes,
            Pod: self.pods,
            Config: self.configs,
            AttachRequest: self.requests,
            FabricResource: self.resources,
        }

        self.lives: Table[str, ClaimLife] = Table(journal, self._life_changed)
        self.devices: Table[str, DeviceLife] = Table(journal, self._device_changed)
        self.reservations: Table[str, Reservation] = Table(journal, self._reservation_changed)
        self.orders: Table[Cell, Order] = Table(journal, self._cell_changed)
        self.hand_overs: Table[str, HandOverRow] = Table(journal)
        self.failures: Table[str, Failure] = Table(journal, self._failure_changed)
        self.cooling: Table[Cell, Cooling] = Table(journal, self._cell_changed)
        self.fences: Table[str, Fence] = Table(journal, self._fence_changed)
        self.refusals: Table[tuple[str, str], Refusal] = Table(journal)
        self.timeouts: Table[str, Timeout] = Table(journal)
        self.labelled: Table[tuple[str, str], str] = Table(journal)
        self.unmarked: Table[str, int] = Table(journal)
        self.marks: Table[str, int] = Table(journal)
        self.erring: Table[str, int] = Table(journal)
        self.shown: Table[tuple[str, str], bytes] = Table(journal)
        self.passed: Table[tuple[str, str], int] = Table(journal)
        self.counters: Table[str, int] = Table(journal)
        self.rates: Table[str, Rate] = Table(journal)
        self.rejections: set[tuple[str, str, str]] = set()

        self.now = 0
        self.policy = Policy()
        self.taint_rules = ""
        self.synced = False
        self.synced_at = 0
        self.level_at = 0
        self.stale: set[str] = set()
        self.epoch = 0
        self.restarted = False
        self.reissue: Table[tuple[str, str], bool] = Table(journal)
        self.skew: int | None = None
        self.dirty = Dirty()

        self.claim_named: dict[tuple[str, str], str] = {}
        self.node_named: dict[str, str] = {}
        self.holders: Index[DeviceKey, str] = Index()
        self.claims_on: Index[str, str] = Index()
        self.claims_in_pool: Index[PoolKey, str] = Index()
        self.pods_naming: Index[tuple[str, str], str] = Index()
        self.pods_nominated: Index[str, str] = Index()
        self.slices_of: Index[PoolKey, str] = Index()
        self.pools: dict[PoolKey, Pool] = {}
        self.pools_at: Index[str, PoolKey] = Index()
        self.pools_of_model: Index[str, PoolKey] = Index()
        self.uuid_at: dict[DeviceKey, str] = {}
        self.keys_of: Index[str, DeviceKey] = Index()
        self.requests_at: Index[str, str] = Index()
        self.request_named: dict[str, str] = {}
        self.resources_at: Index[str, str] = Index()
        self.resources_of_uuid: Index[str, str] = Index()
        self.resources_of_request: Index[str, str] = Index()
        self.taken_as: Index[DeviceKey, str] = Index()
        self.returning: Index[str, str] = Index()
        self.reserved_uuid: Index[str, str] = Index()
        self.reservations_for: Index[str, str] = Index()
        self.reservations_at: Index[str, str] = Index()
        self.ready_uuid: Index[str, str] = Index()
        self.cooling_at: Index[str, Cell] = Index()
        self.failed_at: Index[str, str] = Index()
        self.under_way: set[str] = set()
        self.units_ordered = 0
        self.idle_of_model: Index[str, str] = Index()
        self.idle_at: Index[str, str] = Index()
        self.waiting_at: Index[str, str] = Index()
        self.limits: dict[Cell, tuple[int, int]] = {}
        self._pool_models: dict[PoolKey, Model | None] = {}
        self.drivers: frozenset[str] = frozenset()
        self.models: dict[str, Model] = {}
        self.rivals: dict[str, frozenset[str]] = {}
        self.config = NO_CONFIG
        self.mode: Mode = "observe"
        self.live = False

    # --- what adapters ask -------------------------------------------------------------------------------------------

    def table(self, kind: type[Observed]) -> Table[str, Any]:
        """The table of an object kind."""
        return self._tables[kind]

    def object(self, kind: type[Observed], uid: str) -> Observed | None:
        """The object as last observed, None when not known."""
        found: Observed | None = self.table(kind).get(uid)
        return found

    def uid_of(self, kind: type[Observed], namespace: str, name: str) -> str | None:
        """The uid of the object of that name, None when not known."""
        return self.uid_named.get((kind, namespace, name))

    def told(self, uid: str, field: str, reason: str) -> bool:
        """Whether this rejection is already a fact."""
        return (uid, field, reason) in self.rejections

    # --- what several rules ask --------------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        uid = self.node_named.get(name)
        return self.nodes.get(uid) if uid is not None else None

    def model(self, name: str) -> Model | None:
        return self.models.get(name)

    def _rivals_of(self, model: Model) -> frozenset[str]:
        """Models that may not share a node with this one, in whosever list it stands: it is symmetric."""
        return frozenset(
            other.model
            for other in self.config.models
            if other.index in model.conflicts or model.index in other.conflicts
        ) - {model.model}

    def device(self, key: DeviceKey) -> Device | None:
        pool = self.pools.get(key[:2])
        return pool.devices.get(key[2]) if pool is not None else None

    def somebody_waits(self, node: str) -> bool:
        """Whether a claim may wait for a device on the node."""
        return bool(self.waiting_at[node] or self.claims_on[""])

    def model_of_pool(self, key: PoolKey) -> Model | None:
        """The model whose devices the pool lists by its name, None for a node's own pool."""
        if key not in self._pool_models:
            self._pool_models[key] = model_of_pool(self.config, *key)
        return self._pool_models[key]

    def model_of_result(self, result: Result) -> Model | None:
        """The model of a pool device that the scheduler waits for, None when it is none of ours."""
        found = self.model_of_pool((result.driver, result.pool))
        if found is None:
            device = self.device(result.key)
            found = model_of_device(self.config, result.driver, device) if device is not None else None
        return found

    def pool_results(self, allocation: Allocation | None) -> list[tuple[int, Result, Model]]:
        """Our results that wait for binding conditions, with their place in the allocation."""
        found = []
        for place, result in enumerate(allocation.results if allocation is not None else ()):
            if result.binding and (model := self.model_of_result(result)) is not None:
                found.append((place, result, model))
        return found

    def local_results(self, allocation: Allocation | None) -> list[Result]:
        """Our results on devices that are on their node already."""
        return [
            r
            for r in (allocation.results if allocation is not None else ())
            if r.driver in self.drivers
            and not r.binding
            and not r.admin
            and self.model_of_pool((r.driver, r.pool)) is None
        ]

    def node_of(self, claim: Claim) -> str:
        """The node that the claim's devices are wanted on, "" when nothing says so.

        A pool device without bindsToNode leaves the allocation without a node; the pod's nomination then tells it.
        """
        if claim.allocation is None:
            return ""
        if claim.allocation.node:
            return claim.allocation.node
        names = {pod.node or pod.nominated for pod in self.pods_of(claim)} - {""}
        return min(names) if len(names) == 1 else ""

    def pods_of(self, claim: Claim) -> list[Pod]:
        """The pods that refer to the claim or are reserved for it, in a fixed order."""
        uids = self.pods_naming[(claim.namespace, claim.name)] | {c.uid for c in claim.consumers}
        pods = [pod for uid in uids if (pod := self.pods.get(uid)) is not None]
        return sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))

    def claims_of(self, pod: Pod) -> list[Claim]:
        """The claims of a pod, in pod order, the extended-resource claim last; those not made yet are left out."""
        names = [name for name in pod.claims.values() if name]
        if pod.extended_claim:
            names.append(pod.extended_claim)
        uids = [uid for name in names if (uid := self.claim_named.get((pod.namespace, name))) is not None]
        return [claim for uid in uids if (claim := self.claims.get(uid)) is not None]

    def resource_of(self, key: DeviceKey) -> FabricResource | None:
        """The resource behind a node-local device, None for a fixed one; an empty UUID matches nothing."""
        uuid = self.uuid_at.get(key, "")
        return self.resource_with(uuid) if uuid else None

    def resource_with(self, uuid: str) -> FabricResource | None:
        uids = self.resources_of_uuid[uuid]
        return self.resources.get(min(uids)) if uids else None

    def promised(self, uuid: str) -> frozenset[str] | set[str]:
        """Who a device is meant for: in live modes by our reservation, in observe by what stands ready for a claim."""
        return self.reserved_uuid[uuid] if self.live else self.ready_uuid[uuid]

    def replace_rejections(self, told: set[tuple[str, str, str]]) -> None:
        """They are no table, and a life that ends within a trial forgets some."""
        before = self.rejections
        if self.journal.on:
            self.journal.changes.append(lambda: setattr(self, "rejections", before))
        self.rejections = told

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Changes made inside leave no trace."""
        kept = Dirty()
        kept.add(self.dirty)
        self.journal.start()
        try:
            yield
        finally:
            self.journal.undo()
            self.dirty = kept

    # --- hooks: indexes and dirt -------------------------------------------------------------------------------------

    def _naming(self, kind: type[Observed], hook: Hook[str, Any] | None = None) -> Hook[str, Any]:
        """The hook of an observed table: the index by name, then its own."""
        named = self.uid_named

        def changed(uid: str, old: Any, new: Any) -> None:
            if old is not None:
                key = (kind, getattr(old, "namespace", ""), getattr(old, "name", ""))
                if named.get(key) == uid:
                    del named[key]
            if new is not None:
                named[(kind, getattr(new, "namespace", ""), getattr(new, "name", ""))] = uid
            if hook is not None:
                hook(uid, old, new)

        return changed

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        dirty = self.dirty
        for claim, gone in ((old, True), (new, False)):
            if claim is None:
                continue
            name = (claim.namespace, claim.name)
            if gone:
                if self.claim_named.get(name) == uid:
                    del self.claim_named[name]
            else:
                self.claim_named[name] = uid
            allocation = claim.allocation
            if allocation is None:
                continue
            change = Index.discard if gone else Index.add
            change(self.claims_on, allocation.node, uid)
            dirty.nodes.add(allocation.node or self.node_of(claim))
            for result in allocation.results:
                key = result.key
                change(self.holders, key, uid)
                change(self.claims_in_pool, key[:2], uid)
                self._device_touched(key)
        dirty.claims.add(uid)

    def _device_touched(self, key: DeviceKey) -> None:
        uuid = self.uuid_at.get(key)
        if uuid:
            self.dirty.devices |= self.resources_of_uuid[uuid]
        self.dirty.devices |= self.taken_as[key]  # its slice may be gone

    def _pod_changed(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        for pod, gone in ((old, True), (new, False)):
            if pod is None:
                continue
            change = Index.discard if gone else Index.add
            names = [*pod.claims.values(), pod.extended_claim]
            for name in names:
                if name:
                    change(self.pods_naming, (pod.namespace, name), uid)
                    claim = self.claim_named.get((pod.namespace, name))
                    if claim is not None:
                        self._touch_claim(claim)
            if pod.nominated:
                change(self.pods_nominated, pod.nominated, uid)
                self.dirty.nodes.add(pod.nominated)

    def _touch_claim(self, uid: str) -> None:
        self.dirty.claims.add(uid)
        claim = self.claims.get(uid)
        if claim is not None and claim.allocation is not None:
            self.dirty.nodes.add(self.node_of(claim))

    def _node_changed(self, uid: str, old: Node | None, new: Node | None) -> None:
        if old is not None and self.node_named.get(old.name) == uid:
            del self.node_named[old.name]
        if new is not None:
            self.node_named[new.name] = uid
        for node in (old, new):
            if node is not None:
                for model in self.models:
                    self.limits.pop((node.name, model), None)
                self.dirty.nodes.add(node.name)
                for resource in self.resources_at[node.name]:
                    self.dirty.claims |= self.returning[resource]

    def _slice_changed(self, uid: str, old: Slice | None, new: Slice | None) -> None:
        if old is not None:
            self.slices_of.discard((old.driver, old.pool), uid)
        if new is not None:
            self.slices_of.add((new.driver, new.pool), uid)
        for key in {(s.driver, s.pool) for s in (old, new) if s is not None}:
            self._gather_pool(key)

    def _gather_pool(self, key: PoolKey) -> None:
        before = self.pools.get(key)
        after = gather(s for uid in self.slices_of[key] if (s := self.slices.get(uid)) is not None)
        if before == after:
            return
        if after is None:
            self.pools.pop(key, None)
        else:
            self.pools[key] = after
        for pool, change in ((before, Index.discard), (after, Index.add)):
            if pool is not None and pool.node:
                change(self.pools_at, pool.node, key)
                self.dirty.nodes.add(pool.node)
            elif pool is not None and (model := self.model_of_pool(key)) is not None:
                change(self.pools_of_model, model.model, key)
        self._index_devices(key, before, after)
        for claim in self.claims_in_pool[key]:
            life = self.lives.get(claim)
            if life is not None and life.state in WAITING:
                self._touch_claim(claim)

    def _index_devices(self, key: PoolKey, before: Pool | None, after: Pool | None) -> None:
        """Keep name and UUID of a node's own devices together; only those that changed are touched."""
        old = before.devices if before is not None and before.node else {}
        new = after.devices if after is not None and after.node else {}
        attribute = self.policy.driver_of(key[0]).uuid_attribute
        for name, device in old.items():
            if new.get(name) is not device and (uuid := self.uuid_at.pop((*key, name), "")):
                self.keys_of.discard(uuid, (*key, name))
                self.dirty.devices |= self.resources_of_uuid[uuid]
        for name, device in new.items():
            if old.get(name) is not device and (uuid := text_attribute(device, key[0], attribute)):
                self.uuid_at[(*key, name)] = uuid
                self.keys_of.add(uuid, (*key, name))
                self.dirty.devices |= self.resources_of_uuid[uuid]

    def _rule_changed(self, uid: str, old: TaintRule | None, new: TaintRule | None) -> None:
        for rule in (old, new):
            if rule is not None:
                self.dirty.nodes |= (
                    self.pools_at.sets.keys() if not rule.pool else {rule.pool} & self.pools_at.sets.keys()
                )

    def _config_changed(self, uid: str, old: Config | None, new: Config | None) -> None:
        self.rebuild()

    def rebuild(self) -> None:
        """Take in the ConfigMap and the policy: the mode (the kill switch only lowers it), and what every pool means."""
        self.config = next(iter(self.configs.rows.values()), NO_CONFIG)
        self.mode = lower(self.policy.mode, self.config.mode)
        self.live = self.mode != "observe"
        self.drivers = frozenset(model.driver for model in self.config.models)
        self.models = {model.model: model for model in self.config.models}
        self.rivals = {model.model: self._rivals_of(model) for model in self.config.models}
        self.pools.clear()
        self._pool_models.clear()
        self.limits.clear()
        self.uuid_at.clear()
        self.keys_of.clear()
        self.pools_at.clear()
        self.pools_of_model.clear()
        for key in list(self.slices_of.sets):
            self._gather_pool(key)
        self.dirty.everything = True

    def _request_changed(self, uid: str, old: AttachRequest | None, new: AttachRequest | None) -> None:
        for request, gone in ((old, True), (new, False)):
            if request is None:
                continue
            if gone:
                self.requests_at.discard(request.node, uid)
                if self.request_named.get(request.name) == uid:
                    del self.request_named[request.name]
            else:
                self.requests_at.add(request.node, uid)
                self.request_named[request.name] = uid
            if request.node:
                self.dirty.nodes.add(request.node)
            for resource in self.resources_of_request[request.name]:
                self.dirty.claims |= self.returning[resource]

    def _resource_changed(self, uid: str, old: FabricResource | None, new: FabricResource | None) -> None:
        for resource, gone in ((old, True), (new, False)):
            if resource is None:
                continue
            change = Index.discard if gone else Index.add
            change(self.resources_at, resource.node, uid)
            change(self.resources_of_request, resource.request, uid)
            if resource.uuid:
                change(self.resources_of_uuid, resource.uuid, uid)
            self.dirty.nodes.add(resource.node)
        self.dirty.devices.add(uid)

    def _life_changed(self, uid: str, old: ClaimLife | None, new: ClaimLife | None) -> None:
        for life, gone in ((old, True), (new, False)):
            if life is None:
                continue
            if life.node:
                self.dirty.nodes.add(life.node)
            if life.state in WAITING:
                (self.waiting_at.discard if gone else self.waiting_at.add)(life.node, uid)
            for promise in life.promises:
                (self.ready_uuid.discard if gone else self.ready_uuid.add)(promise.uuid, uid)
            if life.state == "Detaching":
                for resource in life.devices:
                    (self.returning.discard if gone else self.returning.add)(resource, uid)
        self.dirty.claims.add(uid)

    def _device_changed(self, uid: str, old: DeviceLife | None, new: DeviceLife | None) -> None:
        if new is not None and new.state == "Attaching":
            self.under_way.add(uid)
        elif uid in self.under_way:
            self.under_way.discard(uid)
            self.dirty.freed += 1
        self.dirty.devices.add(uid)
        self.dirty.claims |= self.returning[uid]
        if old is not None and old.key is not None:
            self.taken_as.discard(old.key, uid)
        if new is not None and new.key is not None:
            self.taken_as.add(new.key, uid)
        resource = self.resources.get(uid)
        if resource is not None:
            self.dirty.nodes.add(resource.node)
        if old is not None and old.state == "Idle":
            self.idle_of_model.discard(old.model, uid)
            self.idle_at.discard(old.node, uid)
        if new is not None and new.state == "Idle":
            self.idle_of_model.add(new.model, uid)
            self.idle_at.add(new.node, uid)

    def _reservation_changed(self, key: str, old: Reservation | None, new: Reservation | None) -> None:
        for row, gone in ((old, True), (new, False)):
            if row is not None:
                for promise in row.promises:
                    (self.reserved_uuid.discard if gone else self.reserved_uuid.add)(promise.uuid, key)
                (self.reservations_for.discard if gone else self.reservations_for.add)(row.claim, key)
                (self.reservations_at.discard if gone else self.reservations_at.add)(row.node, key)
                self.dirty.nodes.add(row.node)
                self.dirty.claims.add(row.claim)

    def _failure_changed(self, claim: str, old: Failure | None, new: Failure | None) -> None:
        if old is not None:
            self.failed_at.discard(old.node, claim)
        if new is not None:
            self.failed_at.add(new.node, claim)
            self.dirty.nodes.add(new.node)

    def _fence_changed(self, resource: str, old: Fence | None, new: Fence | None) -> None:
        self.dirty.devices.add(resource)

    def _cell_changed(self, cell: Cell, old: Any, new: Any) -> None:
        if isinstance(old, Order):
            self.units_ordered -= old.more
            self.dirty.freed += old.more
        if isinstance(new, Order):
            self.units_ordered += new.more
        if isinstance(new or old, Cooling):
            (self.cooling_at.add if new is not None else self.cooling_at.discard)(cell[0], cell)
        self.dirty.nodes.add(cell[0])

    def touch_everything(self) -> None:
        """A level pass looks at the whole fleet."""
        self.dirty.claims |= self.claims.rows.keys() | self.lives.rows.keys()
        self.dirty.devices |= self.resources.rows.keys() | self.devices.rows.keys()
        self.dirty.nodes |= self.node_named.keys() | {life.node for life in self.lives.rows.values() if life.node}


def sorted_claims(claims: Iterable[Claim]) -> list[Claim]:
    """Claims in the order in which they are served: age, then name."""
    return sorted(claims, key=lambda c: (c.created, c.namespace, c.name, c.uid))
