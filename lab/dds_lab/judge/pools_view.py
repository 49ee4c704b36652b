"""The publisher judge's view of a running lab: the pools' slices, the claims that hold their devices, the ConfigMap, and the
devices that the fabric really has.

The view follows the API server, every write of one user, and the fabric. It has no rules and works with any publisher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from dds_lab.actors.ledger import Entry
from dds_lab.actors.models import NAME, NAMESPACE
from dds_lab.actors.objects import Key, allocation_of, key_of, node_of, results
from dds_lab.api.requests import Call
from dds_lab.api.status import Cause
from dds_lab.client import Object
from dds_lab.lab import Lab

PoolKey = tuple[str, str]
MARK = "app.kubernetes.io/managed-by"


class Write(NamedTuple):
    """A write of the judged user, as admitted by the API server."""

    at: int
    verb: str
    resource: str
    name: str
    old: Object | None
    new: Object | None


@dataclass(frozen=True)
class Slice:
    """A slice of a pool that several nodes reach; `devices` are JSON objects by name."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    owner: str
    devices: dict[str, Object]
    names: tuple[str, ...]
    selector: Any

    @property
    def key(self) -> PoolKey:
        return (self.driver, self.pool)


@dataclass(frozen=True)
class Holder:
    """A claim: the pool devices (`pooled`) and node devices (`local`) that it has, its node, and since when."""

    name: str
    node: str
    pooled: frozenset[Key]
    local: frozenset[Key]
    since: int


@dataclass(frozen=True)
class Entered:
    """A model in the ConfigMap, with the attributes and capacity that a slice should have."""

    model: str
    device: str
    driver: str
    attributes: Object
    capacity: Object
    shared: bool


class PoolsView:
    """Watches a lab from its creation on. It calls `on_pool` with a pool's key when its slices or holders change, `on_truth` with
    (fabric, model) when the fabric's devices change, and `on_write` with each write of `user`."""

    def __init__(self, lab: Lab, user: str, *, names_devices: bool = False) -> None:
        """`names_devices`: the manager reports single free devices and which of them are broken, not only numbers."""
        self.lab = lab
        self._names_devices = names_devices
        self.user = user
        self.slices: dict[str, Slice] = {}
        self.claims: dict[str, Holder] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.models: tuple[Entered, ...] = ()
        self.prefix = ""
        self.writes: list[Write] = []
        self.overbooked: list[str] = []
        """Claims that were allocated a pool device when the fabric had none for them."""
        self.author: dict[str, str] = {}
        """The user who last wrote a slice, by the slice's name."""
        self.on_pool: list[Callable[[PoolKey], None]] = []
        self.on_truth: list[Callable[[str, str], None]] = []
        self.on_write: list[Callable[[Write], None]] = []
        self._serials: dict[Key, str] = {}
        self._under_way: dict[int, Entry] = {}
        self._asked: dict[str, tuple[str, str]] = {}  # node and model by resource, for resources without a device
        self._read = 0
        client = lab.client("pools-judge")
        follow = {
            "configmaps": self._config,
            "nodes": self._node,
            "resourceslices": self._slice,
            "resourceclaims": self._claim,
            "composableresources": self._resource,
        }
        for resource, call in follow.items():
            client.mirror(resource).follow(call)
        lab.fabric.on_pool(lambda fabric, model: self._moved())
        lab.fabric.on_machine(lambda node: self._moved())
        lab.server.admission.append(self._written)

    @property
    def now(self) -> int:
        return self.lab.time.now()

    # -- the present state

    def pools(self) -> set[PoolKey]:
        return {one.key for one in self.slices.values()}

    def of(self, key: PoolKey) -> list[Slice]:
        return sorted((one for one in self.slices.values() if one.key == key), key=lambda one: one.name)

    def newest(self, key: PoolKey) -> list[Slice]:
        """The pool's slices of the highest generation: consumers ignore all others."""
        slices = self.of(key)
        top = max((one.generation for one in slices), default=0)
        return [one for one in slices if one.generation == top]

    def is_whole(self, key: PoolKey) -> bool:
        """Whether the pool is complete, so that a consumer takes devices from it."""
        newest = self.newest(key)
        return len(newest) == len(self.of(key)) and all(one.count == len(newest) for one in newest)

    def listed(self, key: PoolKey) -> dict[str, Object]:
        """The devices in the pool's slices of any generation, by name."""
        return {name: one.devices[name] for one in self.of(key) for name in one.names}

    def holders(self, key: PoolKey) -> dict[str, list[Holder]]:
        """The claims that hold the pool's devices, by device."""
        found: dict[str, list[Holder]] = {}
        for claim in self.claims.values():
            for one in claim.pooled:
                if one[:2] == key:
                    found.setdefault(one[2], []).append(claim)
        return found

    def offered(self, key: PoolKey) -> list[str]:
        """The pool's devices that can be allocated now: not held and without taints."""
        held = self.holders(key)
        return [name for name, one in self.listed(key).items() if name not in held and not one.get("taints")]

    # -- the expected state

    def model_of(self, key: PoolKey) -> tuple[Entered, str] | None:
        """The pool's model and fabric; None if no model has such a pool."""
        head, found, fabric = key[1].rpartition("-fabric")
        model = next((one for one in self.models if (one.driver, one.device) == (key[0], head)), None)
        return (model, fabric) if found and model is not None else None

    def fabrics(self) -> set[str]:
        """Fabrics with at least one machine."""
        return {one.fabric for one in self.lab.fabric.machines() if one.fabric}

    def available(self, model: Entered, fabric: str) -> int:
        """Number of free devices minus those for which claims wait; negative if more are allocated than there are."""
        return self.free(fabric, model.model) - sum(self._owed(model, fabric).values())

    def owed_at_least(self, model: Entered, fabric: str) -> int:
        """A lower bound of the devices for which claims wait: devices that the operator has not ordered from the fabric yet may
        be on their way, and are left out."""
        ordered = Counter((one.node, one.model) for one in self._orders() if one.operation == "attach")
        queued = Counter(self._asked.values()) - ordered
        owed = self._owed(model, fabric) - Counter({node: queued[node, model.model] for node in self.labels})
        return owed.total()

    def free(self, fabric: str, model: str) -> int:
        """Number of the model's devices that the fabric reports as free."""
        free = self.lab.fabric.pool(fabric, model)
        return sum(not self._names_devices or not self.lab.fabric.broken(one.serial) for one in free)

    def _owed(self, model: Entered, fabric: str) -> Counter[str]:
        """By node, devices for which claims wait and that are neither there nor on their way."""
        held = self.holders((model.driver, f"{model.device}-fabric{fabric}"))
        waiting = Counter(claims[0].node for claims in held.values())
        owed = Counter({node: count - self._coming(node, model.model) for node, count in waiting.items()})
        return +owed

    def _coming(self, node: str, model: str) -> int:
        """Devices of the model that are free on the node, or on their way there."""
        # Only claims of this node count: a claim of another node may still hold a device by the name that it had there.
        here = (claim for claim in self.claims.values() if claim.node == node)
        taken = {self._serials.get(key, "") for claim in here for key in claim.local}
        orders = [one for one in self._orders() if (one.node, one.model) == (node, model)]
        attached = [one for one in self.lab.fabric.attached(node) if not one.fixed]
        there = {one.device.serial for one in attached if one.device.model == model}
        going = {one.serial for one in orders if one.operation == "detach"}
        return len(there - taken - going) + sum(one.operation == "attach" for one in orders)

    def _orders(self) -> Iterator[Entry]:
        entries = list(self.lab.fabric.ledger)
        for entry in entries[self._read :]:
            if entry.outcome == "ordered":
                self._under_way[entry.order] = entry
            else:
                self._under_way.pop(entry.order, None)
        self._read = len(entries)
        return iter(self._under_way.values())

    # -- events

    def _moved(self) -> None:
        for fabric, model in self.lab.fabric.pools():
            for call in self.on_truth:
                call(fabric, model)

    def _config(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        if (meta["namespace"], meta["name"]) != (NAMESPACE, NAME):
            return
        data = (new or {}).get("data") or {}
        self.prefix = data.get("label-prefix", "cohdi.io")
        entries = yaml.safe_load(data.get("device-info", "[]")) or []
        self.models = tuple(_entered(entry) for entry in entries)

    def _node(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self.labels.pop(name, None)
        else:
            self.labels[name] = new["metadata"].get("labels") or {}

    def _slice(self, old: Object | None, new: Object | None) -> None:
        whole = new or old or {}
        name, spec = whole["metadata"]["name"], whole["spec"]
        devices = spec.get("devices") or []
        if spec.get("nodeName"):
            for one in devices:
                uuid = (one.get("attributes") or {}).get("uuid") or {}
                self._serials[spec["driver"], spec["pool"]["name"], one["name"]] = uuid.get("string", "")
            return
        if new is None:
            self.slices.pop(name, None)
        else:
            self.slices[name] = Slice(
                name=name,
                driver=spec["driver"],
                pool=spec["pool"]["name"],
                generation=spec["pool"].get("generation", 0),
                count=spec["pool"]["resourceSliceCount"],
                owner=(whole["metadata"].get("labels") or {}).get(MARK, ""),
                devices={one["name"]: one for one in devices},
                names=tuple(one["name"] for one in devices),
                selector=spec.get("nodeSelector"),
            )
        self._tell((spec["driver"], spec["pool"]["name"]))

    def _claim(self, old: Object | None, new: Object | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        before = self.claims.pop(uid, None)
        after = _holder(new, before, self.now) if new is not None else None
        if after is not None:
            self.claims[uid] = after
        if after is not None and after.pooled and (before is None or after.pooled != before.pooled):
            known = [self.model_of(key[:2]) for key in after.pooled]
            if any(found is not None and self.available(*found) < 0 for found in known):
                self.overbooked.append(after.name)
        keys = {key[:2] for one in (before, after) if one is not None for key in one.pooled | one.local}
        for key in keys:
            self._tell(key)
        if keys:
            self._moved()

    def _resource(self, old: Object | None, new: Object | None) -> None:
        resource = new or old or {}
        spec, status, meta = resource["spec"], resource.get("status") or {}, resource["metadata"]
        waits = not (status.get("device_id") or status.get("error") or meta.get("deletionTimestamp"))
        if new is not None and waits:
            self._asked[meta["uid"]] = (spec["target_node"], spec["model"])
        elif self._asked.pop(meta["uid"], None) is None:
            return
        self._moved()

    def _tell(self, key: PoolKey) -> None:
        for call in self.on_pool:
            call(key)

    def _written(self, call: Call, old: Object | None, new: Object | None) -> list[Cause] | None:
        """An admission hook that sees every write before it is stored; dry runs are ignored."""
        if call.writing.dry_run or call.deleting.dry_run or call.resource.plural == "events":
            return None
        name = ((new or old or {}).get("metadata") or {}).get("name", call.name)
        if call.resource.plural == "resourceslices":
            self.author[name] = call.user.name
        if call.user.name == self.user:
            write = Write(self.now, call.verb, call.resource.plural, name, old, new)
            self.writes.append(write)
            for told in self.on_write:
                told(write)
        return None


def _entered(entry: Any) -> Entered:
    typed = {name: dict(value) for name, value in (entry.get("attributes") or {}).items()}
    texts = {name: {"string": str(value)} for name, value in (entry.get("dra-attributes") or {}).items()}
    return Entered(
        model=entry["cdi-model-name"],
        device=entry["k8s-device-name"],
        driver=entry["driver-name"],
        attributes={**texts, **typed},
        capacity={
            name: value if isinstance(value, dict) else {"value": str(value)}
            for name, value in (entry.get("capacity") or {}).items()
        },
        shared=bool(entry.get("allow-multiple-allocations")),
    )


def _holder(claim: Object, before: Holder | None, now: int) -> Holder | None:
    if not allocation_of(claim):
        return None
    held = [one for one in results(claim) if not one.get("adminAccess")]
    pooled = {key_of(one) for one in held if one.get("bindingConditions")}
    local = {key_of(one) for one in held} - pooled
    meta = claim["metadata"]
    found = Holder(f"{meta['namespace']}/{meta['name']}", node_of(claim), frozenset(pooled), frozenset(local), now)
    same = before is not None and (before.pooled, before.local) == (found.pooled, found.local)
    return before if same else found
