"""The publisher's state, folded from its log: all that its rules know, questions that several of them ask, dump and load.

One owner holds it, and only `dds_core.publisher.folds.apply` changes it. Rules look only at what `dirty` names: what the current
group touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from dds_core.kit import work
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS, logged
from dds_core.kit.state import Form
from dds_core.model import Requirement
from dds_core.publisher.describe import FAILURE, pool_name, selector
from dds_core.publisher.events import pool_stream
from dds_core.publisher.model import (
    COOLING,
    FOREVER,
    MANAGED_BY,
    Host,
    Machine,
    PoolConfig,
    PoolKey,
    PoolModel,
    PoolRow,
    PoolSlice,
    Stock,
)
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.rooms import Rooms, machines_of, results_of

_NOTHING = PoolConfig(uid="")


class PoolState(Rooms):
    # -- questions of the adapter's translation to facts -----------------------------------------------------------

    def uid_of(self, kind: type[Any], namespace: str, name: str) -> str | None:
        """As in the base class; of the ConfigMap there is only one, whatever its name."""
        return next(iter(self.cluster.configs), None) if kind is PoolConfig else super().uid_of(kind, namespace, name)

    def machine(self, uuid: str) -> Machine | None:
        """The machine as the fabric last reported it."""
        return self.fabric.machines_by_uuid.get(uuid)

    def machines(self) -> Sequence[str]:
        """The UUIDs of all machines."""
        return tuple(self.fabric.machines_by_uuid)

    def stock(self, fabric: str, model: str) -> Stock | None:
        """What the fabric last had free of the model."""
        return self.fabric.stocks.get((fabric, model))

    def cooling_until(self, labels: dict[str, str], model: PoolModel) -> int:
        """The instant until which a node with these labels asks to keep the scheduler from the model, 0 for none. So the label of
        a scaler that is gone ends by itself; "true", as people write it, never ends."""
        value = labels.get(f"{self.prefix}/{model.device}-{COOLING}", "")
        if value == "true":
            return FOREVER
        return int(value) * MICROSECONDS if value.isascii() and value.isdigit() and len(value) < 12 else 0

    def in_doubt(self, fabric: str, model: str) -> bool:
        """Whether devices have arrived since the fabric last reported its free ones: it may not have counted them."""
        return any(key == (fabric, model) for key in self.fabric.uncounted.rows.values())

    def failure(self, of: str) -> str:
        """Why this question had no answer the last time; empty if it had, or was not asked yet."""
        return self.fabric.failures.get(of) or ""

    @property
    def listed(self) -> bool:
        """Whether machines were listed since this process began."""
        return self.fabric.listed_at > 0

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def config(self) -> PoolConfig | None:
        """The ConfigMap, None while there is none."""
        return next(iter(self.cluster.configs.rows.values()), None)

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
        return self.cluster.hosts.get(uid) if uid is not None else None

    def fabric_of(self, node: str) -> str:
        """The fabric of a node: by the fabric's answer, else by the node's label."""
        host = self.host(node)
        if host is None:
            return ""
        machine = self.machine_of(host)
        return machine.fabric if machine is not None else host.labels.get(f"{self.prefix}/fabric", "")

    def machine_of(self, host: Host) -> Machine | None:
        """The machine of a node; None while the fabric knows none."""
        return next((one for uuid in machines_of(host) if (one := self.machine(uuid)) is not None), None)

    def hosts_in(self, fabric: str) -> list[Host]:
        """The nodes of a fabric."""
        uids = {uid for uuid in self.fabric.machines_in[fabric] for uid in self.cluster.hosts_of[uuid]}
        found = (host for uid in uids if self.fabric_of((host := self.cluster.hosts.rows[uid]).name) == fabric)
        return sorted(found, key=lambda one: one.name)

    def nodes_of(self, machine: str) -> set[str]:
        """The names of the nodes that the fabric may mean by this machine."""
        return {self.cluster.hosts.rows[uid].name for uid in self.cluster.hosts_of[machine]}

    def fabrics(self) -> set[str]:
        """The ids of all fabrics that have machines."""
        return {fabric for fabric in self.fabric.machines_in if fabric}

    def model_of_pool(self, key: PoolKey) -> PoolModel | None:
        """The configured model whose pool in some fabric has this key."""
        driver, pool = key
        head, found, _ = pool.rpartition("-fabric")
        if not found:
            return None
        return next((one for one in self.models if (one.driver, one.device) == (driver, head)), None)

    def slices_in(self, key: PoolKey) -> list[PoolSlice]:
        """The slices of a pool, also other publishers', by name."""
        return sorted((self.cluster.slices.rows[uid] for uid in self.cluster.slices_of[key]), key=lambda one: one.name)

    def own_slices(self, key: PoolKey) -> list[PoolSlice]:
        """The slices of a pool that are dds's own, or adopted by policy."""
        return [one for one in self.slices_in(key) if self.is_ours(one)]

    def is_ours(self, one: PoolSlice) -> bool:
        """Whether dds may change this slice of a pool."""
        return one.owner == MANAGED_BY or (self.policy.adopt == "reference" and not one.owner and self._is_pools(one))

    def _is_pools(self, one: PoolSlice) -> bool:
        """Whether an unmarked slice is of a pool like dds's: of a configured model, or with the node selector that the reference
        uses for a model that was configured. Most publishers set no owner's label on slices that several nodes reach."""
        if self.model_of_pool((one.driver, one.pool)) is not None:
            return True
        device, found, fabric = one.pool.rpartition("-fabric")
        return bool(found) and set(one.selector) == set(selector(self.prefix, device, fabric))

    def shows(self, key: PoolKey, row: PoolRow) -> bool:
        """Whether the cluster shows the pool as it was decided."""
        live = {one.name: one for one in self.own_slices(key)}
        if live.keys() != {one.name for one in row.slices}:
            return False
        wanted = selector(row.prefix, row.model.device, row.fabric)
        return all(is_so(live[one.name], row, place, wanted) for place, one in enumerate(row.slices))

    def unheld(self, key: PoolKey, row: PoolRow) -> int:
        """How many of its devices no claim holds."""
        held = {device[2] for device in self.cluster.held_in[key]}
        return sum(name not in held for name in row.names)

    def held(self, key: PoolKey) -> dict[str, str]:
        """The devices of a pool that claims hold, each with the node of the first of its claims ("" for none)."""
        found: dict[str, str] = {}
        for device in self.cluster.held_in[key]:
            first = self.cluster.claims.rows[min(self.cluster.holders[device])]
            found[device[2]] = first.allocation.node if first.allocation is not None else ""
        return found

    def pools_of(self, fabric: str, model: str) -> list[PoolKey]:
        """The pools of a model (cdi-model-name) in a fabric: several while claims hold devices under another name or driver."""
        return [key for key in self.pools_in[fabric] if self.pools.rows[key].model.model == model]

    def promised(self, key: PoolKey, fabric: str, model: str) -> list[str]:
        """The node of the claim for each device of the model that claims hold, in this pool or another one of the model."""
        return [node for one in {key, *self.pools_of(fabric, model)} for node in self.held(one).values()]

    def let_go(self, key: PoolKey) -> set[str]:
        """Devices of a pool that claims are about to give back: a condition tells the scheduler to allocate again."""
        found: set[str] = set()
        for device in self.cluster.held_in[key]:
            told = (self.cluster.claims.rows[uid].true_conditions for uid in self.cluster.holders[device])
            if any((*device, type) in true for true in told for type in FAILURE):
                found.add(device[2])
        return found

    def used(self, uuid: str) -> bool:
        """Whether a claim has the attached device of this UUID."""
        return bool(uuid) and any(self.cluster.holders[key] for key in self.cluster.keys_of[uuid])

    def held_unlisted(self, node: str, driver: str) -> int:
        """How many devices of the driver claims hold on the node that are of no pool and in no slice of the node."""
        slices = [self.cluster.slices.rows[uid] for uid in self.cluster.local_slices[node]]
        listed = {(one.driver, one.pool, name) for one in slices for name in one.devices}
        held = {
            key for uid in self.cluster.claims_at[node] for key in results_of(self.cluster.claims.rows[uid])
        } - listed
        return sum(key[0] == driver and key[:2] not in self.pools for key in held)

    def local_names(self, driver: str) -> Iterator[str]:
        """The names of the devices that a vendor's driver lists on nodes."""
        for uids in self.cluster.local_slices.values():
            for uid in uids:
                one = self.cluster.slices.rows[uid]
                if one.driver == driver:
                    yield from one.devices

    def pool_of(self, model: PoolModel, fabric: str) -> PoolKey:
        return (model.driver, pool_name(model.device, fabric))

    def gone_due(self, name: str) -> int:
        """The instant from which a machine or fabric that answers leave out counts as gone. If no answer since the start has
        named it, the time counts from the first complete answer; 0 before that."""
        absent = self.fabric.absent.get(name)
        since = absent.since if absent is not None else self.fabric.listed_at
        return since + self.policy.gone_seconds * MICROSECONDS if since else 0

    # -- changes -------------------------------------------------------------------------------------------------------

    def touch_everything(self) -> None:
        """Look at every pool that is or could be, and at every node: a level pass."""
        dirty = self.dirty
        dirty.pools |= self.pools.rows.keys()
        dirty.pools |= {self.pool_of(model, fabric) for model in self.models for fabric in self.fabrics()}
        dirty.pools |= {key for key in self.cluster.slices_of if self.own_slices(key)}
        dirty.hosts |= {one.name for one in self.cluster.hosts.rows.values()}

    def forget_answers(self, which: Callable[[str, str], bool]) -> None:
        """Forget the answers about these fabrics and models, and why there were none: they would be old when asked again."""
        self.fabric.stocks.drop_where(lambda key: which(*key))
        for of in list(self.fabric.failures):
            kind, _, rest = of.partition("/")
            fabric, _, model = rest.partition("/")
            if kind == "stock" and which(fabric, model):
                self.fabric.failures.drop(of)

    def is_back(self, name: str) -> None:
        self.fabric.absent.drop(name)
        self.notes.fired_deadlines.drop((DeadlineKind.GONE, name))

    def touch_fabric(self, fabric: str) -> None:
        """Look at every pool of a fabric."""
        if fabric:
            self.dirty.pools |= self.pools_in[fabric] | {self.pool_of(model, fabric) for model in self.models}

    def touch_node(self, node: str, driver: str = "") -> None:
        """Look at every pool whose devices may be on the node; of one driver or of all."""
        fabric = self.fabric_of(node)
        if fabric:
            wanted = (model for model in self.models if driver in ("", model.driver))
            self.dirty.pools |= {self.pool_of(model, fabric) for model in wanted}


def is_so(found: PoolSlice, row: PoolRow, place: int, wanted: tuple[Requirement, ...]) -> bool:
    """Whether a slice is as the one at this place was decided. `wanted`: the pool's selector."""
    return (
        found.digest == row.digests[place]
        and found.devices == row.slices[place].devices
        and (found.generation, found.slices) == (row.generation, len(row.slices))
        and found.selector == wanted
        and found.owner == MANAGED_BY
    )


def stream_of(key: PoolKey) -> str:
    return pool_stream(*key)


PROJECTION = 1

_FORM = Form(PoolState, PROJECTION, partial(logged, PublishPolicy))
dump, load, same = _FORM.dump, _FORM.load, _FORM.same

Work = work.Work[PoolState]
"""One run of the publisher's rules."""
