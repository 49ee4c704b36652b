"""Whose time each waiting claim of a lab spends, by what the lab's own actors do: sampled from the API server's objects, the
fabric's ledger and the vendor's plugins, and not from anything that dds says.

A claim waits for the devices that it gets in the end, if it gets any on the node where it waits; else for those that come there
and that no claim before it waits for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dds_core.scaler.blame import OWNER
from dds_core.scaler.history import History
from dds_lab.client import Object
from dds_lab.lab import Lab

EVERY = 0.5
"""Seconds between two samples."""
_STEPS = ("operator", "fabric", "driver", "ready")


class Resource(NamedTuple):
    """A ComposableResource at an instant: `listed`: a slice of its node has its device; `starting`: the plugin there starts."""

    node: str
    model: str
    serial: str
    state: str
    error: bool
    listed: bool
    starting: bool


class Waiting(NamedTuple):
    """A claim with a pod that has no node. `results`: (driver, pool, device, waits); `told`: a failure condition is True."""

    name: str
    allocated: int
    node: str
    results: tuple[tuple[str, str, str, bool], ...]
    told: bool
    pod: str
    unschedulable: bool


@dataclass
class Sample:
    at: int
    waiting: dict[str, Waiting] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    making: set[tuple[str, str]] = field(default_factory=set)
    left: Counter[str] = field(default_factory=Counter)
    """By model: what the pools show, less what is requested and has not come."""
    holders: dict[str, str] = field(default_factory=dict)
    """Claim by serial."""


class Watcher:
    """Samples a lab on virtual time until it ends."""

    def __init__(self, lab: Lab, *, online: bool, observes: bool, exchanges: bool) -> None:
        self.samples: list[Sample] = []
        self._lab, self._client = lab, lab.client("watcher")
        self._online, self._observes, self._exchanges = online, observes, exchanges
        self._models = {one.device: one.model for one in lab.scenario.cluster.models}
        lab.time.after(EVERY, self._tick)

    def _tick(self) -> None:
        self.samples.append(self._sample())
        self._lab.time.after(EVERY, self._tick)

    # -- what is there

    def _sample(self) -> Sample:
        sample, client = Sample(self._lab.time.now()), self._client
        listed = {
            (one["spec"]["nodeName"], device["attributes"]["uuid"]["string"]): (one["spec"]["driver"], device["name"])
            for one in client.list("resourceslices")
            if one["spec"].get("nodeName")
            for device in one["spec"].get("devices") or ()
            if "uuid" in device.get("attributes", {})
        }
        names = {(node, *name): serial for (node, serial), name in listed.items()}
        starting = {node for node in self._lab.scenario.cluster.node_names() if self._lab.plugin_starts(node)}
        sizes: Counter[str] = Counter()
        came: Counter[str] = Counter()
        for one in client.list("composableresources"):
            status, spec, meta = one.get("status") or {}, one["spec"], one["metadata"]
            sizes[(meta.get("labels") or {}).get("app.kubernetes.io/managed-by", "")] += 1
            if meta.get("deletionTimestamp") or status.get("state") in ("Detaching", "Deleting"):
                continue
            came[(meta.get("labels") or {}).get("app.kubernetes.io/managed-by", "")] += bool(status.get("device_id"))
            node, serial = spec["target_node"], status.get("device_id") or ""
            sample.resources[meta["uid"]] = Resource(
                node, spec["model"], serial, status.get("state") or "", bool(status.get("error")),
                (node, serial) in listed, node in starting,
            )  # fmt: skip
        for one in client.list("composabilityrequests"):
            wanted = one["spec"]["resource"]
            if wanted["size"] > sizes[one["metadata"]["name"]]:
                sample.making.add((wanted.get("target_node", ""), wanted["model"]))
            sample.left[wanted["model"]] -= max(0, wanted["size"] - came[one["metadata"]["name"]])
        for one in client.list("resourceslices"):
            if not one["spec"].get("nodeName"):
                model = next(m for device, m in self._models.items() if one["spec"]["pool"]["name"].startswith(device))
                sample.left[model] += sum(not device.get("taints") for device in one["spec"].get("devices") or ())
        claims = {one["metadata"]["name"]: one for one in client.list("resourceclaims", "default")}
        for one in claims.values():
            for result in _results(one):
                serial = names.get((result["pool"], result["driver"], result["device"]))
                if serial is not None and not result.get("adminAccess"):
                    sample.holders[serial] = one["metadata"]["uid"]
        for pod in client.list("pods", "default"):
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            for ref in pod["spec"].get("resourceClaims") or ():
                claim = claims.get(ref.get("resourceClaimName", ""))
                if claim is not None:
                    sample.waiting[claim["metadata"]["uid"]] = _waiting(claim, pod)
        return sample

    # -- whose time that is

    def truths(self) -> Iterator[tuple[int, str, str]]:
        """(instant, claim's uid, owner) for each sample of each waiting claim."""
        self._learn()
        for place, sample in enumerate(self.samples):
            for uid, one in sample.waiting.items():
                yield sample.at, uid, self._owner(place, uid, one)

    def _learn(self) -> None:
        self._orders: dict[str, list[tuple[int, int]]] = defaultdict(list)
        ordered = {}
        for entry in self._lab.ledger:
            if entry.operation == "attach" and entry.outcome == "ordered":
                ordered[entry.order] = entry.at
            elif entry.operation == "attach" and entry.outcome == "done":
                self._orders[entry.serial].append((ordered[entry.order], entry.at))
        self._serial_of: dict[str, str] = {}
        self._seen: dict[str, int] = {}
        for sample in self.samples:
            for resource, row in sample.resources.items():
                self._seen.setdefault(resource, sample.at)
                if row.serial:
                    self._serial_of[resource] = row.serial
        self._got: dict[str, list[tuple[int, str, str]]] = defaultdict(list)  # claim → (instant, node, serial)
        for before, sample in zip(self.samples, self.samples[1:], strict=False):
            for serial, uid in sample.holders.items():
                if before.holders.get(serial) != uid:
                    node = next((one.node for one in sample.resources.values() if one.serial == serial), "")
                    self._got[uid].append((sample.at, node, serial))
        self._known: dict[tuple[int, str, str], dict[str, list[str]]] = {}
        self._since: dict[tuple[int, str], int] = {}
        for place, sample in enumerate(self.samples):
            for uid, one in sample.waiting.items():
                last = self.samples[place - 1].waiting.get(uid) if place else None
                same = last is not None and (last.allocated, last.node) == (one.allocated, one.node)
                self._since[place, uid] = self._since[place - 1, uid] if same else place

    def _owner(self, place: int, uid: str, one: Waiting) -> str:
        if not one.allocated:
            return "pool" if one.unschedulable else "scheduler"
        if not any(waits for *_, waits in one.results):
            return "scheduler"
        if one.told:
            robbed = any(self._robbed(place, uid, one, model) for model in self._needs(one))
            return "claim" if robbed else "scheduler"
        steps = [self._step(place, uid, one, model, count) for model, count in self._needs(one).items()]
        owner = _together(steps)
        if owner != "ready":
            return owner
        pods = [other for other in self.samples[place].waiting.items() if other[1].pod == one.pod and other[0] != uid]
        lacking = ((other, row, need) for other, row in pods if row.allocated for need in self._needs(row).items())
        if any(self._step(place, other, row, *need) != "ready" for other, row, need in lacking):
            return "claim"
        return "policy" if self._observes else "dds"

    def _needs(self, one: Waiting) -> Counter[str]:
        pools = (pool for _, pool, _, waits in one.results if waits)
        return Counter(
            next(model for device, model in self._models.items() if pool.startswith(device)) for pool in pools
        )

    def _step(self, place: int, uid: str, one: Waiting, model: str, count: int) -> str:
        """Whose time it is for the claim's devices of a model."""
        sample = self.samples[place]
        coming = self._assigned(place, one.node, model).get(uid, [])
        if len(coming) < count:
            if self._robbed(place, uid, one, model):
                return "claim"
            if (one.node, model) in sample.making:
                return "operator"
            if sample.left[model] < count - len(coming):
                return "pool"
            return "policy" if self._observes else "dds"
        return _together([self._step_of(sample, resource) for resource in coming])

    def _assigned(self, place: int, node: str, model: str) -> dict[str, list[str]]:
        """The resources of a model on a node that are for each claim that waits there: first those whose devices it gets in the
        end, then by age those that no claim has, for claims by the time that they have waited."""
        key = place, node, model
        if key not in self._known:
            sample = self.samples[place]
            rows = {one: row for one, row in sample.resources.items() if (row.node, row.model) == (node, model)}
            free = sorted(
                (one for one in rows if rows[one].serial not in sample.holders), key=lambda one: self._seen[one]
            )
            waiting = {uid: one for uid, one in sample.waiting.items() if one.node == node and not one.told}
            needs = {uid: self._needs(one)[model] for uid, one in waiting.items()}
            order = sorted((uid for uid in waiting if needs[uid]), key=lambda uid: (self._since[place, uid], uid))
            found = dict[str, list[str]]()
            for uid in order:
                got = self._will_get(place, uid, waiting[uid]) if self._exchanges else set[str]()
                found[uid] = [one for one in free if self._serial_of.get(one) in got][: needs[uid]]
                free = [one for one in free if one not in found[uid]]
            for uid in order:
                more = needs[uid] - len(found[uid])
                found[uid], free = found[uid] + free[:more], free[more:]
            self._known[key] = found
        return self._known[key]

    def _will_get(self, place: int, uid: str, one: Waiting) -> set[str]:
        """The devices (serials) that the claim gets by its present allocation."""
        begun = self.samples[place].at
        ends = next((s.at for s in self.samples[place:] if _is_another(s.waiting.get(uid), one)), 1 << 62)
        return {serial for at, node, serial in self._got[uid] if begun <= at <= ends + 1_000_000 and node == one.node}

    def _step_of(self, sample: Sample, uid: str) -> str:
        row = sample.resources[uid]
        if not row.serial:
            if row.error:
                return "fabric"
            times = self._orders.get(self._serial_of.get(uid, ""), [])
            running = any(begun <= sample.at < done for begun, done in times)
            return "fabric" if running or (not times and self._runs(sample.at, row)) else "operator"
        if not row.listed:
            return "driver" if row.starting else "operator"
        return "operator" if self._online and row.state != "Online" else "ready"

    def _runs(self, at: int, row: Resource) -> bool:
        """Whether an order for the node is unanswered."""
        open_orders: dict[int, bool] = {}
        for entry in self._lab.ledger:
            if entry.at > at or entry.operation != "attach" or (entry.node, entry.model) != (row.node, row.model):
                continue
            open_orders[entry.order] = entry.outcome == "ordered"
        return any(open_orders.values())

    def _had_waited(self, uid: str, node: str, at: int) -> bool:
        """Whether the claim waited for devices of the node before it got one."""
        before = next(s for s in reversed(self.samples) if s.at < at).waiting.get(uid)
        return before is not None and before.node == node and any(waits for *_, waits in before.results)

    def _robbed(self, place: int, uid: str, one: Waiting, model: str) -> bool:
        """Whether a claim that did not wait for the node's devices has taken one there while this one waited."""
        begun = self.samples[self._since[place, uid]].at
        for other, got in self._got.items():
            for at, node, serial in got:
                if other == uid or node != one.node or not begun < at <= self.samples[place].at:
                    continue
                ours = any(r.model == model and r.serial == serial for r in self.samples[place].resources.values())
                if ours and not self._had_waited(other, node, at):
                    return True
        return False


def _together(steps: list[str]) -> str:
    """Whose time it is for several devices. While one is being attached, the operator may wait for the fabric's answer before it
    takes up another."""
    first = min(steps, key=lambda step: _STEPS.index(step) if step in _STEPS else -1, default="ready")
    return "fabric" if first == "operator" and "fabric" in steps else first


def _is_another(now: Waiting | None, one: Waiting) -> bool:
    """Whether the claim waits by another allocation for devices of a pool."""
    return now is not None and now.allocated not in (0, one.allocated) and any(waits for *_, waits in now.results)


def _results(claim: Object) -> list[dict[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _waiting(claim: Object, pod: Object) -> Waiting:
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    true = {
        (one["driver"], one["pool"], one["device"], condition["type"])
        for one in status.get("devices") or ()
        for condition in one.get("conditions") or ()
        if condition["status"] == "True"
    }
    results = tuple(
        (
            one["driver"], one["pool"], one["device"],
            any((one["driver"], one["pool"], one["device"], c) not in true for c in one.get("bindingConditions") or ()),
        )
        for one in _results(claim)
    )  # fmt: skip
    failed = any(
        (one["driver"], one["pool"], one["device"], c) in true
        for one in _results(claim)
        for c in one.get("bindingFailureConditions") or ()
    )
    selector = ((allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or [{}]
    fields = selector[0].get("matchFields") or selector[0].get("matchExpressions") or []
    node = next((f["values"][0] for f in fields if f["key"] in ("metadata.name", "kubernetes.io/hostname")), "")
    conditions = (pod.get("status") or {}).get("conditions") or ()
    unschedulable = any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable"
        for c in conditions
    )
    stamp = hash(str(allocation)) if allocation else 0
    return Waiting(claim["metadata"]["name"], stamp, node, results, failed, pod["metadata"]["uid"], unschedulable)


def told_owner(history: History, uid: str, at: int) -> str:
    """Whose time the history says it is; "" if it says that the claim does not wait."""
    spans = history.claims[uid].spans if uid in history.claims else []
    place = bisect_right([span.since for span in spans], at) - 1
    if place < 0 or 0 < spans[place].until <= at:
        return ""
    return OWNER.get(spans[place].stage, "")
