"""The publisher's whole picture as plain data, for checkpoints and comparisons, and back.

The form has a version of its own, `PROJECTION`; a change to it needs a new number and an upcasting step for `Checkpoint`.
Indexes are not part of it: they are built again from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dds_core.events import Capabilities
from dds_core.kit.state import Form, Remembered
from dds_core.kit.table import Index, Table
from dds_core.model import Claim, DeviceKey, FabricResource, Observed, Record
from dds_core.publisher.describe import FAILURE, pool_name, selector
from dds_core.publisher.events import pool_stream
from dds_core.publisher.model import (
    MANAGED_BY,
    Host,
    Machine,
    PoolConfig,
    PoolModel,
    PoolSlice,
    PublisherObserved,
    Stock,
    by_name,
)
from dds_core.publisher.policy import PublishPolicy, read_publish_policy
from dds_core.publisher.rows import Absent, PoolKey, PoolRow
from dds_core.scaler.rows import Refusal

# -- picture -----------------------------------------------------------------------------------------------------------

# The publisher's picture: everything that its rules know, folded from its log, with the questions that several of them
# ask.
#
# One owner holds it and changes it only through `dds_core.publisher.fold.apply`. `dirty` names what the fold of the
# current group touched, so that the rules look at nothing else.


StockKey = tuple[str, str]
"""(fabric, cdi-model-name)."""
Seen = Observed | PublisherObserved

_NOTHING = PoolConfig(uid="")
LEAVING = "Detaching"
"""State of a ComposableResource whose device is still on its node, but not for long."""
GOING = (LEAVING, "Deleting")
"""States of a ComposableResource whose device is on its way back."""


class Dirty:
    """What has to be looked at again: pools, nodes by name, or everything; and `due`, the deadlines (kind, of) that may be others
    now."""

    __slots__ = ("due", "everything", "hosts", "pools")

    def __init__(self) -> None:
        self.pools: set[PoolKey] = set()
        self.hosts: set[str] = set()
        self.due: set[tuple[str, str]] = set()
        self.everything = False

    def __bool__(self) -> bool:
        return bool(self.pools or self.hosts or self.due or self.everything)

    def take(self) -> Dirty:
        """A copy of what is dirty; this one is clean afterwards."""
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


class PoolPicture(Remembered[Seen]):
    """Tables, indexes, and questions. All changes go through the tables' `put` and `drop`."""

    def __init__(self) -> None:
        super().__init__()
        journal = self.journal
        self.configs: Table[str, PoolConfig] = Table(journal)
        self.hosts: Table[str, Host] = Table(journal)
        self.slices: Table[str, PoolSlice] = Table(journal)
        self.claims: Table[str, Claim] = Table(journal)
        self.resources: Table[str, FabricResource] = Table(journal)
        self._tables: dict[type[Seen], Table[str, Any]] = {
            PoolConfig: self.configs,
            Host: self.hosts,
            PoolSlice: self.slices,
            Claim: self.claims,
            FabricResource: self.resources,
        }
        self.machines_by_uuid: Table[str, Machine] = Table(journal)
        self.stocks: Table[StockKey, Stock] = Table(journal)
        self.uncounted: Table[str, StockKey] = Table(journal)
        self.failures: Table[str, str] = Table(journal)
        self.absent: Table[str, Absent] = Table(journal)
        self.pools: Table[PoolKey, PoolRow] = Table(journal)

        self.policy = PublishPolicy()
        self.capabilities = Capabilities()
        self.listed_at = 0
        self.dirty = Dirty()
        self._index()

    # -- indexes -------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        self.named: dict[tuple[type[Seen], str, str], str] = {}
        self.slices_of: Index[PoolKey, str] = Index()
        self.local_slices: Index[str, str] = Index()
        self.holders: Index[DeviceKey, str] = Index()
        self.held_in: Index[PoolKey, DeviceKey] = Index()
        self.keys_of: Index[str, DeviceKey] = Index()
        self.resources_on: Index[str, str] = Index()
        self.under_way: Index[str, str] = Index()
        self.hosts_of: Index[str, str] = Index()
        self.machines_in: Index[str, str] = Index()
        self.pools_in: Index[str, PoolKey] = Index()
        self.labels_of: Index[str, tuple[str, str]] = Index()
        for kind, table in self._tables.items():
            table.watch(partial(self._named, kind))
        self.slices.watch(self._slice_changed)
        self.claims.watch(self._claim_changed)
        self.resources.watch(self._resource_changed)
        self.hosts.watch(self._host_changed)
        self.machines_by_uuid.watch(self._machine_changed)
        self.pools.watch(self._pool_changed)
        self.labelled.watch(self._labelled_changed)
        self.absent.watch(lambda name, old, new: self.dirty.due.add(("gone", name)))
        self.refusals.watch(lambda key, old, new: self.dirty.due.add(("retry", "/".join(key))))
        self.passed.watch(lambda key, old, new: self.dirty.due.add(key))

    def _named(self, kind: type[Seen], uid: str, old: Any, new: Any) -> None:
        for row, there in ((old, False), (new, True)):
            if row is not None:
                key = (kind, getattr(row, "namespace", ""), getattr(row, "name", ""))
                if there:
                    self.named[key] = uid
                elif self.named.get(key) == uid:
                    del self.named[key]

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

    def _machine_changed(self, uuid: str, old: Machine | None, new: Machine | None) -> None:
        if old is not None:
            self.machines_in.discard(old.fabric, uuid)
        if new is not None:
            self.machines_in.add(new.fabric, uuid)

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

    # -- what the translation asks ---------------------------------------------------------------------------------

    def uid_of(self, kind: type[Any], namespace: str, name: str) -> str | None:
        """The uid of the object of that name, None when not known. Of the ConfigMap there is only one."""
        if kind is PoolConfig:
            return next(iter(self.configs), None)
        return self.named.get((kind, namespace, name))

    def rejected(self, uid: str) -> bool:
        """Whether anything of the object was rejected."""
        return any(key[0] == uid for key in self.rejections)

    def machine(self, uuid: str) -> Machine | None:
        """A machine as the fabric last told."""
        return self.machines_by_uuid.get(uuid)

    def machines(self) -> Sequence[str]:
        """The UUIDs of all machines."""
        return tuple(self.machines_by_uuid)

    def stock(self, fabric: str, model: str) -> Stock | None:
        """What a fabric last had free of a model."""
        return self.stocks.get((fabric, model))

    def in_doubt(self, fabric: str, model: str) -> bool:
        """Whether devices have arrived since a fabric last said what it has free: nobody knows whether it counted them."""
        return any(key == (fabric, model) for key in self.uncounted.rows.values())

    def failure(self, of: str) -> str:
        """Why this question was not answered the last time; empty when it was, or was not asked yet."""
        return self.failures.get(of) or ""

    @property
    def listed(self) -> bool:
        """Whether machines were listed since this process began."""
        return self.listed_at > 0

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def config(self) -> PoolConfig | None:
        """The ConfigMap, None while there is none."""
        return next(iter(self.configs.rows.values()), None)

    @property
    def prefix(self) -> str:
        return (self.config or _NOTHING).prefix

    @property
    def models(self) -> tuple[PoolModel, ...]:
        """The models that are configured."""
        return (self.config or _NOTHING).models

    @property
    def mode(self) -> str:
        """The mode in effect: the ConfigMap can only lower the policy's."""
        return "observe" if (self.config or _NOTHING).mode == "observe" else self.policy.mode

    @property
    def live(self) -> bool:
        """Whether decisions are carried out."""
        return self.mode != "observe"

    def host(self, name: str) -> Host | None:
        uid = self.named.get((Host, "", name))
        return self.hosts.get(uid) if uid is not None else None

    def fabric_of(self, node: str) -> str:
        """The fabric that reaches a node: as the fabric says, else as its label does."""
        host = self.host(node)
        if host is None:
            return ""
        machine = self.machine_of(host)
        return machine.fabric if machine is not None else host.labels.get(f"{self.prefix}/fabric", "")

    def machine_of(self, host: Host) -> Machine | None:
        """The machine that a node is; None while the fabric knows none such."""
        return next((one for uuid in machines_of(host) if (one := self.machine(uuid)) is not None), None)

    def hosts_in(self, fabric: str) -> list[Host]:
        """The nodes that a fabric reaches."""
        uids = {uid for uuid in self.machines_in[fabric] for uid in self.hosts_of[uuid]}
        found = (host for uid in uids if self.fabric_of((host := self.hosts.rows[uid]).name) == fabric)
        return sorted(found, key=lambda one: one.name)

    def nodes_of(self, machine: str) -> set[str]:
        """The names of the nodes that a fabric may mean by this machine."""
        return {self.hosts.rows[uid].name for uid in self.hosts_of[machine]}

    def fabrics(self) -> set[str]:
        """The ids of all fabrics that machines are in."""
        return {fabric for fabric in self.machines_in.sets if fabric}

    def model_of_pool(self, key: PoolKey) -> PoolModel | None:
        """The configured model whose pool in some fabric has this key."""
        driver, pool = key
        head, found, _ = pool.rpartition("-fabric")
        if not found:
            return None
        return next((one for one in self.models if (one.driver, one.device) == (driver, head)), None)

    def slices_in(self, key: PoolKey) -> list[PoolSlice]:
        """The slices of a pool, everybody's, in the order of their names."""
        return sorted((self.slices.rows[uid] for uid in self.slices_of[key]), key=lambda one: one.name)

    def own_slices(self, key: PoolKey) -> list[PoolSlice]:
        """Those that are ours: by our mark, or taken over by policy."""
        return [one for one in self.slices_in(key) if self.is_ours(one)]

    def is_ours(self, one: PoolSlice) -> bool:
        """Whether a slice of a pool may be changed by us."""
        return one.owner == MANAGED_BY or (self.policy.adopt == "reference" and not one.owner and self._is_pools(one))

    def _is_pools(self, one: PoolSlice) -> bool:
        """Whether an unmarked slice is of a pool as ours are: of a configured model, or on nodes as the reference selects
        them for one that was. Most slices that several nodes reach carry nobody's mark, whoever makes them."""
        if self.model_of_pool((one.driver, one.pool)) is not None:
            return True
        device, found, fabric = one.pool.rpartition("-fabric")
        return bool(found) and set(one.selector) == set(selector(self.prefix, device, fabric))

    def held(self, key: PoolKey) -> dict[str, str]:
        """The devices of a pool that claims hold, each with the node that the first of its claims is on ("" for none)."""
        found: dict[str, str] = {}
        for device in self.held_in[key]:
            first = self.claims.rows[min(self.holders[device])]
            found[device[2]] = first.allocation.node if first.allocation is not None else ""
        return found

    def pools_of(self, fabric: str, model: str) -> list[PoolKey]:
        """The pools of a model (its cdi-model-name) in a fabric: several while claims hold what had another name or driver."""
        return [key for key in self.pools_in[fabric] if self.pools.rows[key].model.model == model]

    def promised(self, key: PoolKey, fabric: str, model: str) -> list[str]:
        """For each device of a model that claims hold of this pool, or of another one of the model, the claim's node."""
        return [node for one in {key, *self.pools_of(fabric, model)} for node in self.held(one).values()]

    def let_go(self, key: PoolKey) -> set[str]:
        """Devices of a pool that claims are about to give back: the scheduler was told that there are others, or none."""
        found: set[str] = set()
        for device in self.held_in[key]:
            told = (self.claims.rows[uid].true_conditions for uid in self.holders[device])
            if any((*device, type) in true for true in told for type in FAILURE):
                found.add(device[2])
        return found

    def used(self, uuid: str) -> bool:
        """Whether a claim has the attached device of this UUID."""
        return bool(uuid) and any(self.holders[key] for key in self.keys_of[uuid])

    def local_names(self, driver: str) -> Iterator[str]:
        """The names under which a vendor's driver lists devices on nodes."""
        for uids in self.local_slices.sets.values():
            for uid in uids:
                one = self.slices.rows[uid]
                if one.driver == driver:
                    yield from one.devices

    def pool_of(self, model: PoolModel, fabric: str) -> PoolKey:
        return (model.driver, pool_name(model.device, fabric))

    # -- changes -------------------------------------------------------------------------------------------------------

    def touch_everything(self) -> None:
        """A level pass looks at every pool that is or could be, and at every node."""
        dirty = self.dirty
        dirty.pools |= self.pools.rows.keys()
        dirty.pools |= {self.pool_of(model, fabric) for model in self.models for fabric in self.fabrics()}
        dirty.pools |= {key for key in self.slices_of.sets if self.own_slices(key)}
        dirty.hosts |= {one.name for one in self.hosts.rows.values()}

    def touch_fabric(self, fabric: str) -> None:
        """Every pool of a fabric."""
        if fabric:
            self.dirty.pools |= self.pools_in[fabric] | {self.pool_of(model, fabric) for model in self.models}

    def touch_node(self, node: str, driver: str = "") -> None:
        """Every pool whose devices may be on a node; of one driver or of all."""
        fabric = self.fabric_of(node)
        if fabric:
            wanted = (model for model in self.models if driver in ("", model.driver))
            self.dirty.pools |= {self.pool_of(model, fabric) for model in wanted}


def has_arrived(one: FabricResource) -> bool:
    """Whether the operator knows which device it is."""
    return bool(one.uuid or one.fabric_id)


def is_under_way(one: FabricResource) -> bool:
    """Whether a device is ordered and may come."""
    return one.state not in GOING and not one.deleting and not has_arrived(one)


def machines_of(host: Host) -> list[str]:
    """How a fabric may name the machine of a node; what comes first counts."""
    return [host.machine, by_name(host.name)] if host.machine else [by_name(host.name)]


def results_of(claim: Claim | None) -> list[DeviceKey]:
    """What a claim has been given."""
    allocation = claim.allocation if claim is not None else None
    return [one.key for one in allocation.results if not one.admin] if allocation is not None else []


def stream_of(key: PoolKey) -> str:
    """The stream of a pool."""
    return pool_stream(*key)


# -- snapshot ----------------------------------------------------------------------------------------------------------

PROJECTION = 1

Pair = tuple[str, str]


class Snapshot(Record, frozen=True):
    """The tables in the order of their keys; a table whose key is no text is a list of (key, row)."""

    now: int = 0
    policy: dict[str, Any] = {}
    capabilities: Capabilities = Capabilities()
    listed_at: int = 0
    synced: bool = False
    synced_at: int = 0
    level_at: int = 0
    stale: tuple[str, ...] = ()
    epoch: int = 0
    restarted: bool = False
    rejections: tuple[tuple[str, str, str], ...] = ()
    configs: dict[str, PoolConfig] = {}
    hosts: dict[str, Host] = {}
    slices: dict[str, PoolSlice] = {}
    claims: dict[str, Claim] = {}
    resources: dict[str, FabricResource] = {}
    machines_by_uuid: dict[str, Machine] = {}
    stocks: tuple[tuple[Pair, Stock], ...] = ()
    uncounted: dict[str, Pair] = {}
    failures: dict[str, str] = {}
    absent: dict[str, Absent] = {}
    pools: tuple[tuple[Pair, PoolRow], ...] = ()
    labelled: tuple[tuple[Pair, str], ...] = ()
    refusals: tuple[tuple[Pair, Refusal], ...] = ()
    shown: tuple[tuple[Pair, str], ...] = ()
    passed: tuple[tuple[Pair, int], ...] = ()


_SCALARS = ("now", "capabilities", "listed_at", "synced", "synced_at", "level_at", "epoch", "restarted")
_BY_TEXT = ("configs", "hosts", "slices", "claims", "resources", "machines_by_uuid", "uncounted", "failures", "absent")
_BY_PAIR = ("stocks", "pools", "labelled", "refusals", "passed")


_FORM = Form(Snapshot, PROJECTION, _SCALARS, _BY_TEXT, _BY_PAIR, PoolPicture, read_publish_policy)


def dump(picture: PoolPicture) -> dict[str, Any]:
    """The picture as plain data."""
    return _FORM.dump(picture)


def same(one: PoolPicture, other: PoolPicture) -> bool:
    """Whether two pictures hold the same."""
    return _FORM.same(one, other)


def load(plain: dict[str, Any]) -> PoolPicture:
    """The picture that `dump` gave.

    Raises InputError when the data is not of that form.
    """
    picture: PoolPicture = _FORM.load(plain)
    return picture
