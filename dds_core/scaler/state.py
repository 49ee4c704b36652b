"""The whole picture as plain data, for checkpoints and comparisons, and back.

The form has a version of its own, `PROJECTION`; a change to it needs a new number and an upcasting step for `Checkpoint`.
Indexes are not part of it: they are built again from the rows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dds_core.kit.state import Form
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
    Record,
    Result,
    Slice,
    TaintRule,
)
from dds_core.scaler.indexes import Indexes
from dds_core.scaler.policy import read_policy
from dds_core.scaler.pools import model_of_device
from dds_core.scaler.rows import (
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

# -- picture -----------------------------------------------------------------------------------------------------------

# The picture: everything the engine knows, folded from the log, with the questions that several rules ask of it.
#
# One owner holds it and changes it only through `dds_core.scaler.fold.apply`. `dirty` names what the fold of the current group
# touched, so that the rules look at nothing else.


class Picture(Indexes):
    """Tables, indexes, and questions."""

    def uid_of(self, kind: type[Observed], namespace: str, name: str) -> str | None:
        """The uid of the object of that name, None when not known."""
        return self.uid_named.get((kind, namespace, name))

    def rejected(self, uid: str) -> bool:
        """Whether anything of the object was rejected; of some that is all that is known."""
        return bool(self.rejections_of[uid])

    def node(self, name: str) -> Node | None:
        uid = self.node_named.get(name)
        return self.nodes.get(uid) if uid is not None else None

    def model(self, name: str) -> Model | None:
        return self.models.get(name)

    def device(self, key: DeviceKey) -> Device | None:
        pool = self.pools.get(key[:2])
        return pool.devices.get(key[2]) if pool is not None else None

    def somebody_waits(self, node: str) -> bool:
        """Whether a claim may wait for a device on the node."""
        return bool(self.waiting_at[node] or self.claims_on[""])

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

    def scheduler_of(self, claim: Claim) -> str:
        """The schedulerName of the claim's pods, "" without any."""
        pods = self.pods_of(claim)
        return pods[0].scheduler if pods else ""

    def claims_of(self, pod: Pod) -> list[Claim]:
        """The claims of a pod, in pod order, the extended-resource claim last; those not made yet are left out."""
        names = [name for name in pod.claims if name]
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

    def promised(self, identity: str) -> frozenset[str] | set[str]:
        """Who a device is meant for: in live modes by our reservation, in observe by what stands ready for a claim."""
        return self.reserved_for[identity] if self.live else self.ready_for[identity]

    def touch_everything(self) -> None:
        """A level pass looks at the whole fleet."""
        self.dirty.claims |= self.claims.rows.keys() | self.lives.rows.keys()
        self.dirty.devices |= self.resources.rows.keys() | self.devices.rows.keys()
        self.dirty.nodes |= self.node_named.keys() | {life.node for life in self.lives.rows.values() if life.node}
        self.dirty.rules |= self.rules.rows.keys()
        self.dirty.nodes |= self.failed_at.sets.keys()  # also those that no node was found for


# -- snapshot ----------------------------------------------------------------------------------------------------------

PROJECTION = 1

Pair = tuple[str, str]


class Snapshot(Record, frozen=True):
    """The tables in the order of their keys; a table whose key is no text is a list of (key, row)."""

    now: int = 0
    policy: dict[str, Any] = {}
    taint_rules: str = ""
    synced: bool = False
    synced_at: int = 0
    level_at: int = 0
    stale: tuple[str, ...] = ()
    epoch: int = 0
    restarted: bool = False
    skew: int | None = None
    rejections: tuple[tuple[str, str, str], ...] = ()
    configs: dict[str, Config] = {}
    slices: dict[str, Slice] = {}
    classes: dict[str, DeviceClass] = {}
    rules: dict[str, TaintRule] = {}
    nodes: dict[str, Node] = {}
    requests: dict[str, AttachRequest] = {}
    resources: dict[str, FabricResource] = {}
    claims: dict[str, Claim] = {}
    pods: dict[str, Pod] = {}
    lives: dict[str, ClaimLife] = {}
    devices: dict[str, DeviceLife] = {}
    reservations: dict[str, Reservation] = {}
    orders: tuple[tuple[Cell, Order], ...] = ()
    hand_overs: dict[str, HandOverRow] = {}
    failures: dict[str, Failure] = {}
    cooling: tuple[tuple[Cell, Cooling], ...] = ()
    fences: dict[str, Fence] = {}
    refusals: tuple[tuple[Pair, Refusal], ...] = ()
    timeouts: dict[str, Timeout] = {}
    labelled: tuple[tuple[Pair, str], ...] = ()
    unmarked: dict[str, int] = {}
    lifted: dict[str, int] = {}
    marks: dict[str, int] = {}
    erring: dict[str, int] = {}
    shown: tuple[tuple[Pair, str], ...] = ()
    passed: tuple[tuple[Pair, int], ...] = ()
    counters: dict[str, int] = {}
    rates: dict[str, Rate] = {}


_SCALARS = ("now", "taint_rules", "synced", "synced_at", "level_at", "epoch", "restarted", "skew")
_SPECIAL = ("policy", "stale", "rejections", "shown")
_BY_TEXT = tuple(
    f.name for f in msgspec.structs.fields(Snapshot) if str(f.type).startswith("dict") and f.name != "policy"
)
_BY_PAIR = tuple(name for name in Snapshot.__struct_fields__ if name not in (*_SCALARS, *_SPECIAL, *_BY_TEXT))


_FORM = Form(Snapshot, PROJECTION, _SCALARS, _BY_TEXT, _BY_PAIR, Picture, read_policy)


def dump(picture: Picture) -> dict[str, Any]:
    """The picture as plain data."""
    return _FORM.dump(picture)


def same(one: Picture, other: Picture) -> bool:
    """Whether two pictures hold the same."""
    return _FORM.same(one, other)


def load(plain: dict[str, Any]) -> Picture:
    """The picture that `dump` gave.

    Raises InputError when the data is not of that form.
    """
    picture: Picture = _FORM.load(plain)
    picture.rebuild()
    picture.dirty.clear()
    return picture
