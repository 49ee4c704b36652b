"""The rooms of the scaler's state: tables of what belongs together, with the indexes over them; and `Dirty`: what the rules must
look at again (`dds_core.scaler.wakes` says what makes it so).

Indexes are never stored: hooks of the tables keep them up to date, and a load rebuilds them from the rows. With them the work per
change does not grow with the fleet. A room knows those that are given to it, and no others: `Settings` and `Demand` none, `Fleet`
the settings, `Failing` both of them, `Inventory` these and the demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import Mode, lower
from dds_core.kit.state import Index, Room, StateBase, Table
from dds_core.lifecycle import CLAIM_DETACHING, PENDING, WAITING
from dds_core.matching.allocator import Allocator, Fit, Gates
from dds_core.model import (
    BLOCKING,
    IMPLICIT,
    ONLINE,
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
    Taint,
    TaintRule,
    model_of_device,
)
from dds_core.scaler.hardware import Face, Traits, faces_of, traits_of
from dds_core.scaler.model import (
    COOLING,
    Cell,
    ClaimLife,
    Cooling,
    DeviceLife,
    Exchange,
    Failure,
    Fence,
    Guarded,
    HandOverRow,
    Hold,
    Listing,
    Look,
    Order,
    Pace,
    Pool,
    PoolKey,
    Rate,
    Reservation,
    Reuse,
    Spending,
    Timeout,
    described_as,
    gather,
    model_of_pool,
    release_of,
)
from dds_core.scaler.policy import Policy

Change = Callable[[Index[Any, Any], Any, Any], None]
"""`Index.add` or `Index.discard`."""


Fits = dict[tuple[str, ...], tuple[list[Allocation | None], Sequence[DeviceKey], Fit | None]]
"""For a group of claims (uids): their allocations and the devices that were offered last, and the allocator's answer."""

Answer = tuple[Fit | None, bool] | None
"""The best that fits, and whether it is all that was asked for; None if that was not decided."""
Answers = dict[tuple[str, ...], tuple[Any, Answer]]
"""For a group of claims (uids): what was asked last, and the answer."""


class Dirty:
    """What the rules must look at again: claims and devices by uid, nodes by name, or everything. `freed`: cells for
    which fewer devices are on their way than before; claims on other nodes may have waited for that."""

    __slots__ = ("claims", "devices", "everything", "freed", "nodes")

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.devices: set[str] = set()
        self.nodes: set[str] = set()
        self.everything = False
        self.freed: set[Cell] = set()

    def __bool__(self) -> bool:
        return bool(self.claims or self.devices or self.nodes or self.freed or self.everything)

    def take(self) -> Dirty:
        """Return a copy and become clean."""
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
        self.freed |= other.freed

    def clear(self) -> None:
        self.claims, self.devices, self.nodes = set(), set(), set()
        self.everything, self.freed = False, set()


# -- settings ----------------------------------------------------------------------------------------------------------

NO_CONFIG = Config(uid="")


class Settings(Room):
    """What policy and ConfigMap say together, and what is known of the API server: its release (`version`), whether devices can
    be guarded (`guards`; why not: `unguarded`; not known yet: `unanswered`), and how far its clock is ahead (`skew`,
    microseconds). `labels`: of nodes, for each model's device name the pool label and the one that closes the pool for a while;
    `known_labels`: these, and that of the fabric."""

    configs: Table[str, Config]

    observed = {Config: "configs"}
    scalars = {"skew": int | None, "version": str, "guards": str, "unguarded": str}

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.policy = Policy()
        self.config = NO_CONFIG
        self.mode: Mode = "observe"
        self.live = False
        self.drivers: frozenset[str] = frozenset()
        self.models: dict[str, Model] = {}
        self.rivals: dict[str, frozenset[str]] = {}
        self.labels: dict[str, tuple[str, str]] = {}
        self.known_labels = frozenset([f"{NO_CONFIG.prefix}/fabric"])
        self.skew: int | None = None
        self.version = ""
        self.guards = ""
        self.unguarded = ""
        self.unanswered = False

    def rebuild(self) -> None:
        """Apply the policy and the ConfigMap, which only lowers the mode (the kill switch)."""
        self.config = min(self.configs.rows.values(), key=lambda config: config.uid, default=NO_CONFIG)
        self.mode = lower(self.policy.mode, self.config.mode)
        self.live = self.mode != "observe"
        self.drivers = frozenset(model.driver for model in self.config.models)
        self.models = {model.model: model for model in self.config.models}
        self.rivals = {model.model: self._rivals_of(model) for model in self.config.models}
        stems = {model.device: f"{self.config.prefix}/{model.device}" for model in self.config.models}
        self.labels = {device: (stem, stem + COOLING) for device, stem in stems.items()}
        self.known_labels = frozenset([f"{self.config.prefix}/fabric", *chain.from_iterable(self.labels.values())])

    def _rivals_of(self, model: Model) -> frozenset[str]:
        """Models that may not share a node with this one, whichever of the two lists the other."""
        return frozenset(
            other.model
            for other in self.config.models
            if other.index in model.conflicts or model.index in other.conflicts
        ) - {model.model}

    def model(self, name: str) -> Model | None:
        return self.models.get(name)

    def request_type(self, model: Model) -> str:
        """The type of the ComposabilityRequests for a model: its own, else its driver's."""
        return model.type or self.policy.driver_of(model.driver).request_type

    @property
    def undoing_mode(self) -> Mode:
        """The mode of a decision that removes what dds has written: it is carried out even in mode observe."""
        return "attach" if self.mode == "observe" else self.mode


# -- demand ------------------------------------------------------------------------------------------------------------


class Demand(Room):
    """Claims and pods. `holders`: claims that are allocated a device; `having`: without admin access; `held_by`: holds (claims of
    dds). `asking`: pods that wait for an extended resource; `special_of`: by pod the claims that the scheduler made for one."""

    claims: Table[str, Claim]
    pods: Table[str, Pod]

    observed = {Claim: "claims", Pod: "pods"}

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self._named = state.named
        self.holders: Index[DeviceKey, str] = Index()
        self.having: Index[DeviceKey, str] = Index()
        self.held_by: Index[DeviceKey, str] = Index()
        self.claims_holding: Index[str, str] = Index()
        self.claims_on: Index[str, str] = Index()
        self.claims_in_pool: Index[PoolKey, str] = Index()
        self.claims_for: Index[str, str] = Index()
        self.pods_naming: Index[tuple[str, str], str] = Index()
        self.pods_nominated: Index[str, str] = Index()
        self.asking: set[str] = set()
        self.special_of: Index[str, str] = Index()
        self.prioritized = 0
        self.claims.watch(self._claim_changed)
        self.pods.watch(self._pod_changed)

    def claim_uid(self, namespace: str, name: str) -> str | None:
        """The uid of the claim of that name; None if there is none."""
        return self._named.get((Claim, namespace, name))

    def node_of(self, claim: Claim) -> str:
        """The node on which the claim's devices are wanted, "" if unknown. A pool device without bindsToNode leaves the
        allocation without a node; then the pod's nomination counts."""
        if claim.allocation is None:
            return ""
        if claim.allocation.node:
            return claim.allocation.node
        names = {pod.node or pod.nominated for pod in self.pods_of(claim)} - {""}
        return min(names) if len(names) == 1 else ""

    def pods_of(self, claim: Claim) -> list[Pod]:
        """The pods that refer to the claim or that it is reserved for, in a fixed order."""
        uids = set(self.pods_naming.get((claim.namespace, claim.name), ()))
        for consumer in claim.consumers:
            uids.add(consumer.uid)
        pods = [pod for uid in uids if (pod := self.pods.get(uid)) is not None]
        return pods if len(pods) < 2 else sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))

    def claims_of(self, pod: Pod) -> list[Claim]:
        """The claims of a pod, in pod order, the extended-resource claim last; without those not created yet."""
        names = [name for name in pod.claims if name]
        if pod.extended_claim:
            names.append(pod.extended_claim)
        uids = [uid for name in names if (uid := self.claim_uid(pod.namespace, name)) is not None]
        return [claim for uid in uids if (claim := self.claims.get(uid)) is not None]

    def scheduler_of(self, claim: Claim) -> str:
        """The schedulerName of the claim's pods, "" without any."""
        pods = self.pods_of(claim)
        return pods[0].scheduler if pods else ""

    def has_true_condition(self, uid: str, condition: str) -> bool:
        """Whether the claim exists and has the condition on one of its devices."""
        claim = self.claims.get(uid)
        return claim is not None and any(one[3] == condition for one in claim.true_conditions)

    def claims_naming(self, key: DeviceKey) -> set[str]:
        """The claims that are allocated the device, holds included, those with admin access not."""
        return {*self.having[key], *self.held_by[key]}

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        stays = old is not None and new is not None and (old.allocation, old.hold) == (new.allocation, new.hold)
        for claim, gone in ((old, True), (new, False)):
            if claim is None:
                continue
            change = Index.discard if gone else Index.add
            allocation = claim.allocation
            if claim.hold:
                self._keep_hold(claim, change)
                continue
            for consumer in claim.consumers:
                change(self.claims_for, consumer.uid, uid)
            if claim.extended and claim.owner:
                change(self.special_of, claim.owner, uid)
            if allocation is None:
                continue
            if not stays:
                change(self.claims_on, allocation.node, uid)
                self._keep_results(uid, allocation, change)

    def _keep_results(self, uid: str, allocation: Allocation, change: Change) -> None:
        for result in allocation.results:
            key = result.key
            change(self.holders, key, uid)
            if not result.admin:
                change(self.having, key, uid)
            change(self.claims_in_pool, key[:2], uid)

    def _keep_hold(self, claim: Claim, change: Change) -> None:
        """A hold is not a pod's claim: its devices are not in use. Without an allocation it holds nothing."""
        if claim.allocation is None:
            return
        change(self.claims_holding, claim.hold, claim.uid)
        for result in claim.allocation.results:
            change(self.held_by, result.key, claim.uid)

    def _pod_changed(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        for pod, gone in ((old, True), (new, False)):
            if pod is None:
                continue
            change = Index.discard if gone else Index.add
            self.prioritized += bool(pod.priority) * (-1 if gone else 1)
            names = [*pod.claims, pod.extended_claim]
            for name in names:
                if name:
                    change(self.pods_naming, (pod.namespace, name), uid)
            if pod.nominated:
                change(self.pods_nominated, pod.nominated, uid)
        (self.asking.add if new is not None and new.extended_resources else self.asking.discard)(uid)


# -- fleet -------------------------------------------------------------------------------------------------------------


def _counts(one: FabricResource | None) -> tuple[object, ...]:
    """What decides whether a requested device is still to come."""
    return (one.node, one.model, one.request, bool(one.uuid), one.leaving) if one is not None else ()


class Fleet(Room):
    """Nodes, requests and resources, and what is ordered. `staying`: by node, model and request the resources that do not leave,
    those with a UUID (True) and those without. `limits`, `reach`, `spoken_for` are caches of `rules.orders`."""

    nodes: Table[str, Node]
    requests: Table[str, AttachRequest]
    resources: Table[str, FabricResource]
    orders: Table[Cell, Order]
    rates: Table[str, Rate]

    observed = {Node: "nodes", AttachRequest: "requests", FabricResource: "resources"}

    def __init__(self, state: StateBase[Any], settings: Settings) -> None:
        super().__init__(state)
        self._named, self._settings = state.named, settings
        self.requests_at: Index[str, str] = Index()
        self.resources_at: Index[str, str] = Index()
        self.resources_of_uuid: Index[str, str] = Index()
        self.resources_of_request: Index[str, str] = Index()
        self.staying: Index[tuple[str, str, str, bool], str] = Index()
        self.online: set[str] = set()
        self.marked: set[str] = set()
        self.coming: dict[Cell, int] = {}
        self.units_coming = 0
        self.fewer_coming: set[Cell] = set()
        self.limits: dict[Cell, tuple[int, int]] = {}
        self.reach: dict[Cell, tuple[PoolKey, ...]] = {}
        self.spoken_for: Counter[tuple[str, tuple[PoolKey, ...]]] | None = None
        self.nodes.watch(self._node_changed)
        self.orders.watch(self._order_changed)
        self.requests.watch(self._request_changed)
        self.resources.watch(self._resource_changed)

    def node(self, name: str) -> Node | None:
        uid = self._named.get((Node, "", name))
        return self.nodes.get(uid) if uid is not None else None

    def node_names(self) -> set[str]:
        return {node.name for node in self.nodes.rows.values()}

    def request(self, name: str) -> AttachRequest | None:
        return self.requests.get(self._named.get((AttachRequest, "", name), ""))

    def resource_with(self, uuid: str, node: str) -> FabricResource | None:
        """The resource of a device that is on the node. Of several, one of this node counts before one of a node that lost the
        device, and a staying one before one of a device that was detached and attached again."""
        rows = [self.resources.rows[uid] for uid in self.resources_of_uuid[uuid]]
        return min(rows, key=lambda one: (one.node != node, one.leaving, one.uid), default=None)

    def is_taken_off(self, resource: FabricResource) -> bool:
        """Whether another resource of the node names the same device and is leaving: the device was detached and attached again,
        and the operator may detach it once more for the old resource."""
        rows = (self.resources.rows[uid] for uid in self.resources_of_uuid[resource.uuid] if uid != resource.uid)
        return any(one.node == resource.node and one.leaving for one in rows)

    def forget_reach(self) -> None:
        """Which pools a node reaches must be computed again."""
        self.reach.clear()
        self.spoken_for = None

    def _node_changed(self, uid: str, old: Node | None, new: Node | None) -> None:
        for node in (one for one in (old, new) if one is not None):
            for model in self._settings.models:
                self.limits.pop((node.name, model), None)
                self.reach.pop((node.name, model), None)
            self.spoken_for = None

    def _order_changed(self, cell: Cell, old: Order | None, new: Order | None) -> None:
        self.fewer_coming = set()
        self._count_coming(cell)

    def _request_changed(self, uid: str, old: AttachRequest | None, new: AttachRequest | None) -> None:
        self.fewer_coming = set()
        for request, gone in ((old, True), (new, False)):
            if request is None:
                continue
            (self.requests_at.discard if gone else self.requests_at.add)(request.node, uid)
            if request.node:
                self._count_coming((request.node, request.model))

    def _resource_changed(self, uid: str, old: FabricResource | None, new: FabricResource | None) -> None:
        self.fewer_coming = set()
        for resource, gone in ((old, True), (new, False)):
            if resource is None:
                continue
            change = Index.discard if gone else Index.add
            change(self.resources_at, resource.node, uid)
            change(self.resources_of_request, resource.request, uid)
            if resource.uuid:
                change(self.resources_of_uuid, resource.uuid, uid)
        (self.online.add if new is not None and new.state == ONLINE and not new.leaving else self.online.discard)(uid)
        (self.marked.add if new is not None and new.marked else self.marked.discard)(uid)
        if _counts(old) != _counts(new):
            for one, change in ((old, Index.discard), (new, Index.add)):
                if one is not None and not one.leaving:
                    change(self.staying, (one.node, one.model, one.request, bool(one.uuid)), uid)
            for cell in {(one.node, one.model) for one in (old, new) if one is not None}:
                self._count_coming(cell)

    def _count_coming(self, cell: Cell) -> None:
        """Count the devices of a cell that are requested or ordered and whose UUID is not known yet."""
        node, model = cell
        order = self.orders.get(cell)
        there = [self.requests.rows[uid] for uid in self.requests_at[node]]
        sizes = {one.name: one.size for one in there if one.model == model and not one.deleting}
        if order is not None:
            sizes[order.request] = order.size
        came = sum([len(self.staying.get((node, model, name, True), ())) for name in sizes])
        now, before = max(0, sum(sizes.values()) - came), self.coming.pop(cell, 0)
        if now:
            self.coming[cell] = now
        self.units_coming += now - before
        if now < before:
            self.fewer_coming.add(cell)
        reach = self.reach.get(cell)
        if reach is None:
            self.spoken_for = None
        elif self.spoken_for is not None:
            self.spoken_for[model, reach] += now - before


# -- health ------------------------------------------------------------------------------------------------------------


class Health(Room):
    """What is wrong, or slow. `erring`: since when an attach error stands; `sick`: since when a device with an id has an error
    that says nothing of the device; `unlisted`: since when no slice lists an attached device. `listings`: by node and driver.
    `paces`: by attach or detach, fabric and model. `fixed`, `unexplained`: listed devices by UUID that no resource names, with
    node and instant: they belong to the machine, or came after an order on the node. `late`: devices that have made no progress
    for long."""

    erring: Table[str, int]
    sick: Table[str, int]
    unlisted: Table[str, int]
    looks: Table[str, Look]
    listings: Table[tuple[str, str], Listing]
    paces: Table[tuple[str, str, str], Pace]
    fixed: Table[str, tuple[str, int]]
    unexplained: Table[str, tuple[str, int]]

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.late: set[str] = set()
        state.notes.fired_deadlines.watch(self._deadline_passed)

    def _deadline_passed(self, name: tuple[str, str], old: int | None, new: int | None) -> None:
        kind, uid = name
        if kind == DeadlineKind.PROGRESS:
            (self.late.add if new is not None else self.late.discard)(uid)


# -- failing -----------------------------------------------------------------------------------------------------------

POOL_COOL_DOWN_NODES = 2
"""So many failed nodes, a quarter of its fabric's at least, are the fabric's fault. One can be the node's own."""


class Failing(Room):
    """What came to nothing, and where nothing is ordered therefore. `cooled`: a cell's last cool-down for a reason of the node's
    own. `fabric_turned`: nodes whose fabric began or ceased to count as failing with the last change."""

    failures: Table[str, Failure]
    cooling: Table[Cell, Cooling]
    cooled: Table[Cell, Cooling]

    def __init__(self, state: StateBase[Any], settings: Settings, fleet: Fleet) -> None:
        super().__init__(state)
        self._settings, self._fleet = settings, fleet
        self.failed_at: Index[str, str] = Index()
        self.cooling_at: Index[str, Cell] = Index()
        self.fabric_of: dict[str, str] = {}
        self.fabric_failed: Index[tuple[str, str], str] = Index()
        self.fabric_size: Counter[str] = Counter()
        self.fabric_turned: set[str] = set()
        self.failures.watch(self._failure_changed)
        self.cooling.watch(self._cooling_changed)
        fleet.nodes.watch(self._node_changed)

    def place(self, node: str, model: str) -> tuple[str, str]:
        """(fabric, model): within it, it makes no difference which idle device is used."""
        return self.fabric_of.get(node, ""), model

    def fails(self, fabric: str, model: str) -> bool:
        """Whether the fabric has brought no device of the model to so many of its nodes, and to no node since, that the fabric
        counts as failing."""
        failed = len(self.fabric_failed[fabric, model])
        return failed >= POOL_COOL_DOWN_NODES and 4 * failed >= self.fabric_size[fabric]

    def rebuild(self) -> None:
        """Apply another ConfigMap, whose prefix is that of the nodes' labels."""
        for name in {*self._fleet.node_names(), *self.fabric_of}:
            self._place(name)

    def _node_changed(self, uid: str, old: Node | None, new: Node | None) -> None:
        self.fabric_turned = set()
        for node in (old, new):
            if node is not None:
                self._place(node.name)

    def _place(self, node: str) -> None:
        """Keep the fabric of the node's label up to date, and the node among those that this fabric failed."""
        found = self._fleet.node(node)
        fabric = found.labels.get(f"{self._settings.config.prefix}/fabric", "") if found is not None else ""
        if fabric == self.fabric_of.get(node, ""):
            return
        failed = [cell for cell in self.cooling_at[node] if self.cooling.rows[cell].of_fabric]
        for cell in failed:
            self._count_failed(cell, Index.discard)
        for name, more in ((self.fabric_of.get(node, ""), -1), (fabric, 1)):
            self.fabric_size[name] += more
            if not name or not self.fabric_size[name]:
                del self.fabric_size[name]
        if fabric:
            self.fabric_of[node] = fabric
        else:
            del self.fabric_of[node]
        for cell in failed:
            self._count_failed(cell, Index.add)

    def _failure_changed(self, claim: str, old: Failure | None, new: Failure | None) -> None:
        for failure, change in ((old, Index.discard), (new, Index.add)):
            if failure is not None:
                change(self.failed_at, failure.node, claim)

    def _cooling_changed(self, cell: Cell, old: Cooling | None, new: Cooling | None) -> None:
        self.fabric_turned = set()
        (self.cooling_at.add if new is not None else self.cooling_at.discard)(cell[0], cell)
        for row, change in ((old, Index.discard), (new, Index.add)):
            if row is not None and row.of_fabric:
                self._count_failed(cell, change)

    def _count_failed(self, cell: Cell, change: Change) -> None:
        """Add or remove a node to which its fabric brought no device of a model."""
        node, model = cell
        key = (self.fabric_of.get(node, ""), model)
        if not key[0]:
            return
        before = self.fails(*key)
        change(self.fabric_failed, key, node)
        if self.fails(*key) != before:
            self.fabric_turned |= self.fabric_failed[key]


# -- inventory ---------------------------------------------------------------------------------------------------------

LAST_TO_TAINT_WITHOUT_SELECTOR = (1, 37, 0)
"""The last release whose scheduler takes a taint rule without a selector for one of all devices; one that is not known does."""
_UNKNOWN = Face()


def shape_of(pool: Pool | None) -> tuple[object, ...]:
    """What decides who can have any device of a pool."""
    return (pool.usable, pool.node, pool.selector, pool.all_nodes, pool.owner) if pool is not None else ()


class Regathered(NamedTuple):
    """A pool after one of its slices has changed, and whether it is `changed` itself. `uuids`: of the node's own devices that
    changed; `names_held`: whether a claim has a name that came or went; `others`: whether the node's own devices are others."""

    key: PoolKey
    before: Pool | None
    after: Pool | None
    changed: bool = False
    uuids: Collection[str] = ()
    names_held: bool = False
    others: bool = False


class Inventory(Room):
    """What drivers and publishers list. `keys_of`: names by UUID; `keys_at`: by node and UUID. `regathered`: the pools of the
    slice that changed last."""

    slices: Table[str, Slice]
    classes: Table[str, DeviceClass]
    taint_rules: Table[str, TaintRule]

    observed = {Slice: "slices", DeviceClass: "classes", TaintRule: "taint_rules"}

    def __init__(self, state: StateBase[Any], settings: Settings, demand: Demand, fleet: Fleet) -> None:
        super().__init__(state)
        self._state, self._settings, self._demand, self._fleet = state, settings, demand, fleet
        self.slices_of: Index[PoolKey, str] = Index()
        self.pools: dict[PoolKey, Pool] = {}
        self.pools_at: Index[str, PoolKey] = Index()
        self.pools_of_model: Index[str, PoolKey] = Index()
        self.faces: dict[DeviceKey, Face] = {}
        self.keys_of: Index[str, DeviceKey] = Index()
        self.keys_at: Index[tuple[str, str], DeviceKey] = Index()
        self.regathered: list[Regathered] = []
        self._traits: dict[PoolKey, dict[str, Traits]] = {}
        self._allocators: dict[str, tuple[Allocator, Fits, Answers]] = {}
        self._pool_models: dict[PoolKey, Model | None] = {}
        self.slices.watch(self._slice_changed)
        self.classes.watch(lambda uid, old, new: self.choice_changed())
        self.taint_rules.watch(lambda uid, old, new: self.choice_changed())

    def class_for(self, resource: str) -> str:
        """The device class that serves the extended resource, whether or not it exists if the resource names it; "" for none. Of
        several the scheduler takes the newest, then the first by name."""
        if resource.startswith(IMPLICIT):
            return resource.removeprefix(IMPLICIT)
        serving = (one for one in self.classes.rows.values() if one.extended_resource == resource)
        found = min(serving, key=lambda one: (-one.created, one.name), default=None)
        return found.name if found is not None else ""

    def device(self, key: DeviceKey) -> Device | None:
        pool = self.pools.get(key[:2])
        return pool.devices.get(key[2]) if pool is not None else None

    def model_of_pool(self, key: PoolKey) -> Model | None:
        """The model of a publisher's pool, by its name; None for a node's own pool. If the pool describes another model's
        devices, it was published before the two models swapped names."""
        if key not in self._pool_models:
            named, pool = model_of_pool(self._settings.config, *key), self.pools.get(key)
            self._pool_models[key] = (
                described_as(self._settings.config, named, key[0], pool)
                if named is not None and pool is not None
                else named
            )
        return self._pool_models[key]

    def model_of_result(self, result: Result) -> Model | None:
        """The model of a pool device that the scheduler waits for; None if dds does not manage it."""
        found = self.model_of_pool((result.driver, result.pool))
        if found is None:
            device = self.device(result.key)
            found = model_of_device(self._settings.config, result.driver, device) if device is not None else None
        return found

    def model_of_uuid(self, uuid: str) -> Model | None:
        """The model of a device that is listed on a node, by its UUID."""
        found = ((key, device) for key in sorted(self.keys_of[uuid]) if (device := self.device(key)) is not None)
        return next((model_of_device(self._settings.config, key[0], device) for key, device in found), None)

    def pool_results(self, allocation: Allocation | None) -> list[tuple[int, Result, Model]]:
        """The results on pool devices of dds, which wait for binding conditions: (place in the allocation, result, model)."""
        found, known = [], self._pool_models
        for place, result in enumerate(allocation.results if allocation is not None else ()):
            if result.binding:
                model = known.get((result.driver, result.pool)) or self.model_of_result(result)
                if model is not None:
                    found.append((place, result, model))
        return found

    def wanted_models(self, allocation: Allocation | None) -> list[Model]:
        """The model of each pool device that the allocation waits for, other than to look at it (admin access)."""
        return [model for _, result, model in self.pool_results(allocation) if not result.admin]

    def waits_for_devices(self, claim: Claim) -> bool:
        """Whether the scheduler waits for devices of dds that the claim is allocated."""
        return claim.waits_for([result for _, result, _ in self.pool_results(claim.allocation)])

    def local_results(self, allocation: Allocation | None) -> list[Result]:
        """The results on devices of dds's drivers that are on their node already, in use or looked at."""
        return [
            r
            for r in (allocation.results if allocation is not None else ())
            if r.driver in self._settings.drivers and not r.binding and self.model_of_pool((r.driver, r.pool)) is None
        ]

    def face(self, key: DeviceKey) -> Face:
        """What a node's own device is a face of; an empty Face if it is unknown."""
        return self.faces.get(key, _UNKNOWN)

    def taints_of(self, resource: FabricResource) -> set[Taint]:
        """Taints that keep the scheduler from the device (from all of it, if that is listed); none if one of its faces has
        none."""
        keys = self.keys_of[resource.uuid] if resource.uuid else frozenset()
        if all(self.pools[key[:2]].free == len(self.pools[key[:2]].devices) for key in keys):
            return set()
        faces = [key for key in keys if not self.face(key).part] or list(keys)
        devices = [device for key in faces if (device := self.device(key)) is not None]
        taints = [{taint for taint in device.taints if taint.effect in BLOCKING} for device in devices]
        return set().union(*taints) if all(taints) else set()

    def traits_at(self, node: str) -> Iterator[tuple[DeviceKey, Traits]]:
        """What the devices that a node lists say of their hardware."""
        for pool in self.pools_at[node]:
            yield from (((*pool, name), traits) for name, traits in self._traits.get(pool, {}).items())

    def tokens_of(self, uuid: str) -> set[str]:
        """What beside the UUID tells of which hardware the listed devices with this UUID are."""
        found: set[str] = set()
        for driver, pool, name in self.keys_of[uuid]:
            found |= self._traits[driver, pool][name].tokens
        found.discard(uuid)
        return found

    def allocator(self, node: str) -> Allocator:
        """The allocator for the node's own devices; made on first use, and again when they change."""
        return self._allocator(node)[0]

    def fits(self, node: str) -> Fits:
        """Cached answers of the node's allocator about reserved devices, discarded with it."""
        return self._allocator(node)[1]

    def answers(self, node: str) -> Answers:
        """Cached answers of the node's allocator that took a search, discarded with it."""
        return self._allocator(node)[2]

    def _allocator(self, node: str) -> tuple[Allocator, Fits, Answers]:
        found = self._allocators.get(node)
        if found is None:
            own = [self.slices.rows[uid] for key in sorted(self.pools_at[node]) for uid in sorted(self.slices_of[key])]
            made = Allocator(
                own,
                self.classes.rows.values(),
                gates=Gates(
                    device_taint_rules=True,
                    taint_without_selector=release_of(self._settings.version) <= LAST_TO_TAINT_WITHOUT_SELECTOR,
                ),
                rules=self.taint_rules.rows.values(),
                share_id=lambda: "shared",
                forgiving=True,
            )
            found = self._allocators[node] = (made, {}, {})
        return found

    def choice_changed(self) -> None:
        """Other devices may satisfy claims now."""
        self._allocators.clear()

    def _slice_changed(self, uid: str, old: Slice | None, new: Slice | None) -> None:
        if old is not None:
            self.slices_of.discard((old.driver, old.pool), uid)
        if new is not None:
            self.slices_of.add((new.driver, new.pool), uid)
        if self._state.loading:
            return  # all pools are gathered at its end
        keys = {(s.driver, s.pool) for s in (old, new) if s is not None}
        self.regathered = [self._gather_pool(key) for key in keys]

    def _gather_pool(self, key: PoolKey) -> Regathered:
        before = self.pools.get(key)
        after = gather(s for uid in self.slices_of[key] if (s := self.slices.get(uid)) is not None)
        for node in {pool.node for pool in (before, after) if pool is not None} - {""}:
            self._allocators.pop(node, None)  # its counters may have changed, which a pool does not show
        if before == after:
            return Regathered(key, before, after)
        if after is None:
            self.pools.pop(key, None)
        else:
            self.pools[key] = after
        for pool, change in ((before, Index.discard), (after, Index.add)):
            if pool is after and self._pool_models.pop(key, None) is not self.model_of_pool(key):
                self._fleet.forget_reach()
            if pool is not None and pool.node:
                change(self.pools_at, pool.node, key)
            elif pool is not None and (model := self.model_of_pool(key)) is not None:
                change(self.pools_of_model, model.model, key)
        found = self._index_devices(key, before, after)
        if shape_of(before) != shape_of(after) and not all(pool is None or pool.node for pool in (before, after)):
            self._fleet.forget_reach()
        return found

    def _index_devices(self, key: PoolKey, before: Pool | None, after: Pool | None) -> Regathered:
        """Index a node's own devices with their hardware."""
        old = before.devices if before is not None and before.node else {}
        new = after.devices if after is not None and after.node else {}
        knobs, known = self._settings.policy.driver_of(key[0]), self._traits.get(key, {})
        traits = {
            name: known[name] if old.get(name) is device else traits_of(key[0], device, knobs)
            for name, device in new.items()
        }
        if traits:
            self._traits[key] = traits
        else:
            self._traits.pop(key, None)
        faces = faces_of(new, traits)
        uuids: set[str] = set()
        node, last = (pool.node if pool is not None else "" for pool in (after, before))
        for name, device in old.items():
            full = (*key, name)
            if node != last or new.get(name) is not device or faces[name] != self.faces[full]:
                for uuid in self.faces.pop(full).uuids:
                    self.keys_of.discard(uuid, full)
                    self.keys_at.discard((last, uuid), full)
                    uuids.add(uuid)
        for name, face in faces.items():
            full = (*key, name)
            if full not in self.faces:
                self.faces[full] = face
                for uuid in face.uuids:
                    self.keys_of.add(uuid, full)
                    self.keys_at.add((node, uuid), full)
                    uuids.add(uuid)
        held = any((*key, name) in self._demand.holders for name in old.keys() ^ new.keys())
        return Regathered(key, before, after, True, uuids, held, old != new)

    def rebuild(self) -> None:
        """Apply another policy or ConfigMap: what every pool means."""
        self.pools.clear()
        self._pool_models.clear()
        self.faces.clear()
        self._traits.clear()
        self.keys_of.clear()
        self.keys_at.clear()
        self._allocators.clear()
        self.pools_at.clear()
        self.pools_of_model.clear()
        for key in list(self.slices_of):
            self._gather_pool(key)


# -- lifecycle ---------------------------------------------------------------------------------------------------------


class Lifecycle(Room):
    """The lives of claims and devices, what was learned from them, and what is counted. `taken_as`: devices by the name under
    which a claim took them. `returning`: claims in Detaching by device. `ready_for`: claims by the identity of a device that
    stands ready for them."""

    lives: Table[str, ClaimLife]
    devices: Table[str, DeviceLife]
    timeouts: Table[str, Timeout]
    reuse: Table[tuple[str, str], Reuse]
    spending: Table[tuple[str, str], Spending]
    counters: Table[str, int]

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.waiting_at: Index[str, str] = Index()
        self.pending_at: Index[str, str] = Index()
        self.ready_for: Index[str, str] = Index()
        self.returning: Index[str, str] = Index()
        self.under_way: set[str] = set()
        self.taken_as: Index[DeviceKey, str] = Index()
        self.taken_in: Index[PoolKey, str] = Index()
        self.idle_of_model: Index[str, str] = Index()
        self.idle_at: Index[str, str] = Index()
        self.lives.watch(self._life_changed)
        self.devices.watch(self._device_changed)

    def _life_changed(self, uid: str, old: ClaimLife | None, new: ClaimLife | None) -> None:
        for life, gone in ((old, True), (new, False)):
            if life is None:
                continue
            if life.state in WAITING:
                (self.waiting_at.discard if gone else self.waiting_at.add)(life.node, uid)
            if life.state == PENDING:
                (self.pending_at.discard if gone else self.pending_at.add)(life.node, uid)
            for promise in (one for one in life.promises if not one.admin):
                (self.ready_for.discard if gone else self.ready_for.add)(promise.identity, uid)
            if life.state == CLAIM_DETACHING:
                for resource in life.devices:
                    (self.returning.discard if gone else self.returning.add)(resource, uid)

    def _device_changed(self, uid: str, old: DeviceLife | None, new: DeviceLife | None) -> None:
        if new is not None and new.state == "Attaching":
            self.under_way.add(uid)
        else:
            self.under_way.discard(uid)
        for life, change in ((old, Index.discard), (new, Index.add)):
            if life is not None and life.key is not None:
                change(self.taken_as, life.key, uid)
                change(self.taken_in, life.key[:2], uid)
        if old is not None and old.state == "Idle":
            self.idle_of_model.discard(old.model, uid)
            self.idle_at.discard(old.node, uid)
        if new is not None and new.state == "Idle":
            self.idle_of_model.add(new.model, uid)
            self.idle_at.add(new.node, uid)


# -- hand-over ---------------------------------------------------------------------------------------------------------


class HandingOver(Room):
    """For whom devices are meant, and how they are handed over. `reserved_for`: reservations by the identity of a device."""

    reservations: Table[str, Reservation]
    hand_overs: Table[str, HandOverRow]
    exchanges: Table[str, Exchange]
    guarded: Table[DeviceKey, Guarded]

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.reserved_for: Index[str, str] = Index()
        self.reservations_for: Index[str, str] = Index()
        self.reservations_at: Index[str, str] = Index()
        self.guarded_for: Index[str, DeviceKey] = Index()
        self.reservations.watch(self._reservation_changed)
        self.guarded.watch(self._guarded_changed)

    def is_given_back(self, key: DeviceKey) -> bool:
        """Whether the claim that has the device is between the two writes of an exchange."""
        guard = self.guarded.get(key)
        exchange = self.exchanges.get(guard.claim) if guard is not None else None
        return exchange is not None and exchange.between_writes

    def _reservation_changed(self, key: str, old: Reservation | None, new: Reservation | None) -> None:
        for row, gone in ((old, True), (new, False)):
            if row is not None:
                for promise in (one for one in row.promises if not one.admin):
                    (self.reserved_for.discard if gone else self.reserved_for.add)(promise.identity, key)
                (self.reservations_for.discard if gone else self.reservations_for.add)(row.claim, key)
                (self.reservations_at.discard if gone else self.reservations_at.add)(row.node, key)

    def _guarded_changed(self, key: DeviceKey, old: Guarded | None, new: Guarded | None) -> None:
        for row, change in ((old, Index.discard), (new, Index.add)):
            if row is not None:
                change(self.guarded_for, row.claim, key)


# -- give-back ---------------------------------------------------------------------------------------------------------


class GiveBack(Room):
    """How devices leave: holds and fences. `marks`: when a device was chosen for a detach (the last hour); `unmarked`: when a
    mark's removal was decided, 0 after that write failed."""

    holds: Table[str, Hold]
    fences: Table[str, Fence]
    unmarked: Table[str, int]
    marks: Table[str, int]

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.held_as: Index[DeviceKey, str] = Index()
        self.holds_at: Index[str, str] = Index()
        self.holds.watch(self._hold_changed)

    def _hold_changed(self, resource: str, old: Hold | None, new: Hold | None) -> None:
        for row, change in ((old, Index.discard), (new, Index.add)):
            if row is not None:
                change(self.holds_at, row.node, resource)
                for key in row.devices:
                    change(self.held_as, key, resource)


# -- all of them -------------------------------------------------------------------------------------------------------


class Rooms(StateBase[Observed]):
    """All rooms in one, with what is asked of several of them when a table changes."""

    settings: Settings
    demand: Demand
    fleet: Fleet
    health: Health
    failing: Failing
    inventory: Inventory
    lifecycle: Lifecycle
    hand_over: HandingOver
    give_back: GiveBack

    dirty: Dirty

    def __init__(self) -> None:
        super().__init__()
        self.dirty = Dirty()
        self.settings = Settings(self)
        self.demand = Demand(self)
        self.fleet = Fleet(self, self.settings)
        self.health = Health(self)
        self.failing = Failing(self, self.settings, self.fleet)
        self.inventory = Inventory(self, self.settings, self.demand, self.fleet)
        self.lifecycle = Lifecycle(self)
        self.hand_over = HandingOver(self)
        self.give_back = GiveBack(self)
        self.settings.configs.watch(lambda uid, old, new: self.rebuild())

    @property
    def policy(self) -> Policy:
        return self.settings.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.settings.policy = policy

    @property
    def mode(self) -> Mode:
        return self.settings.mode

    @property
    def live(self) -> bool:
        return self.settings.live

    def rebuild(self) -> None:
        """Apply the ConfigMap and the policy."""
        self.settings.rebuild()
        self.fleet.limits.clear()
        self.fleet.forget_reach()
        self.inventory.rebuild()
        self.failing.rebuild()
        self.dirty.everything = True

    def release_is(self, version: str) -> None:
        """The API server's release was learned."""
        if version != self.settings.version:
            self.settings.version = version
            self.inventory.choice_changed()
            self.dirty.nodes |= self.lifecycle.waiting_at.keys() | self.demand.pods_nominated.keys()

    def forms_at(self, pool: PoolKey) -> Iterator[str]:
        """Devices of which the node lists no UUID, whose hardware may be listed in another form; and those with a form that it
        lists no more."""
        found = self.inventory.pools.get(pool)
        for uid in self.fleet.resources_at[found.node] if found is not None and found.node else ():
            life = self.lifecycle.devices.get(uid)
            if life is not None and (
                life.forms or (life.hardware and not self.inventory.keys_of[self.fleet.resources.rows[uid].uuid])
            ):
                yield uid

    def devices_named(self, key: DeviceKey) -> set[str]:
        """The devices (uids) that the name is one of, or may be."""
        uuids = self.inventory.face(key).uuids
        found = {uid for uuid in uuids for uid in self.fleet.resources_of_uuid[uuid]}
        if not found:
            found.update(self.forms_at(key[:2]))
        found |= self.lifecycle.taken_as[key]  # its slice may be gone
        if key not in self.inventory.faces:  # and then its other faces are unknown
            found |= self.lifecycle.taken_in[key[:2]]
        return found

    def nodes_of_claim(self, uid: str) -> Iterator[str]:
        """The node where the claim's devices are wanted; and that of its life, since it has no other once its pod is gone."""
        claim, life = self.demand.claims.get(uid), self.lifecycle.lives.get(uid)
        if claim is not None and claim.allocation is not None:
            yield self.demand.node_of(claim)
        if life is not None and life.node:
            yield life.node
