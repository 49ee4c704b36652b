"""Extracts from a log or a recording what the lab needs to simulate it: fleet, workload, and the delays and errors of fabric,
driver and publisher, each with the number of its samples.

Of a pod only facts are taken that do not depend on the scaler: when it came, what its claims request, how long it ran after it
was bound, or how long it waited before it was withdrawn. `Derived.notes` counts what the simulation cannot repeat exactly.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dds_core.events import Capabilities
from dds_core.kit.policy import MICROSECONDS
from dds_core.model import (
    FINISHED,
    GOING,
    AttachRequest,
    Claim,
    ClaimRequest,
    Config,
    DeviceClass,
    FabricResource,
    Model,
    Node,
    Pod,
    Slice,
)
from dds_core.scaler.timeline.words import Known
from dds_core.timeline import Moment
from dds_whatif.driven import Conduct, Observer, Stamps

Cell = tuple[str, str]
"""Fabric and model."""
EMPTY = re.compile(r"no (free|available) resource")
"""The fabric's message for an empty pool. It is not counted as an error: in the model pools run empty by themselves."""
AWAY = 120.0
"""A node that is gone for at most so many seconds counts as never gone: it registered again."""
LINKED = 60.0
"""A change of a pool is attributed to an attach, or to a claim that took or released its devices, if that was at most so many
seconds before."""
QUEUED = 5
"""So many attaches must have been ordered during another one to show an operator's number of workers."""
SETTLES = 3.0
"""Seconds from a detach until the real operator looks whether the device is still listed."""
_ORDER = (Config, Node, Slice, AttachRequest, FabricResource, Claim, Pod)
SETTLED = 10.0
"""Seconds for which a number of devices must be stable to count: the reference's publisher reads the pool every five seconds."""


class Samples(NamedTuple):
    """Observed durations in seconds, in ascending order."""

    seconds: tuple[float, ...]

    @property
    def number(self) -> int:
        return len(self.seconds)

    def at(self, share: float) -> float:
        """The nearest-rank quantile; 0 without samples."""
        if not self.seconds:
            return 0.0
        return self.seconds[max(0, -(-round(share * 1_000_000 * len(self.seconds)) // 1_000_000) - 1)]


@dataclass(frozen=True)
class Behaviour:
    """Delays and errors of hardware, driver and publisher. `attach` and `detach` are by model. `listing`: from a device's arrival
    until the node's slices list it. `publishing`: from the event that takes a device from a pool until the pool lists one less.
    `errors`: by fabric and model, how many resources the fabric refused at first, out of how many, and its message.

    `one_worker`: the operator attached one device after the other, as the real one does with FM. Then an attach counts from the
    end of the one before, and of listings and detaches only the quickest count, of all models together, which waited for no
    restart of a plugin. Else all waits are in the durations.
    """

    attach: dict[str, Samples]
    detach: dict[str, Samples]
    listing: Samples
    publishing: Samples
    keeps_names: bool
    errors: dict[Cell, tuple[int, int, str]]
    one_worker: bool = False


class PodRow(NamedTuple):
    """A pod and what all its claims request together; times in seconds. `ran` is None if the pod still runs at the end,
    `withdrawn` None unless the pod was deleted before it was bound; `ended`: it ended by itself."""

    at: float
    namespace: str
    name: str
    devices: tuple[tuple[str, int], ...]
    ran: float | None
    withdrawn: float | None
    ended: bool
    scheduler: str
    priority: int


class Change(NamedTuple):
    """A change of the fleet: `kind` is cordon, uncordon, lose_node, or resize with a fabric, model and number."""

    at: float
    kind: str
    node: str = ""
    fabric: str = ""
    model: str = ""
    by: int = 0


@dataclass(frozen=True)
class Derived:
    """The result of a `Reader`. `begin` and `end` are instants in microseconds."""

    begin: int
    end: int
    config: Config
    nodes: tuple[Node, ...]
    taken: frozenset[str]
    """Nodes to which pods with claims were bound: those pods tolerate the nodes' taints."""
    classes: tuple[DeviceClass, ...]
    pools: dict[Cell, int]
    sights: dict[str, dict[str, str]]
    """By model, the text attributes and `memory` of its devices in the slices of a node."""
    pods: tuple[PodRow, ...]
    changes: tuple[Change, ...]
    behaviour: Behaviour
    conduct: Conduct
    guarded: bool
    """Whether devices could be held before they were detached; True if none was marked."""
    version: str
    """The API server's, as dds was last told; "" if it was not."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class _PodSeen:
    pod: Pod
    came: int
    bound: int = 0
    ended: int = 0
    gone: int = 0
    early: bool = False


@dataclass(slots=True)
class _ResourceSeen:
    attaching: int = 0
    named: int = 0
    listed: int = 0
    leaving: int = 0
    gone: int = 0
    refused: str = ""
    node: str = ""
    model: str = ""


@dataclass
class Reader:
    """Takes a source's moments one by one and collects what `Derived` holds. `logged`: the source is a log, so its policies are
    those that acted in the cluster. `stamps`: those of a recording, None of a log."""

    logged: bool
    stamps: Stamps | None = None
    begin: int = 0
    now: int = 0
    config: Config = field(default_factory=lambda: Config(uid=""))
    known: Known = field(default_factory=Known)
    version: str = ""
    taken: set[str] = field(default_factory=set)
    nodes: dict[str, Node] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    pods: dict[str, _PodSeen] = field(default_factory=dict)
    asked: dict[tuple[str, str], Claim] = field(default_factory=dict)
    made_for: dict[str, Claim] = field(default_factory=dict)
    resources: dict[str, _ResourceSeen] = field(default_factory=dict)
    sights: dict[str, dict[str, str]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    totals: dict[Cell, int] = field(default_factory=dict)
    publishing: list[float] = field(default_factory=list)
    vanished: int = 0
    marks: int = 0
    holds: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    seen: Observer = field(init=False)
    _caused: dict[str, int] = field(default_factory=dict)
    _begun: bool = False
    _moved: bool = False
    _pools: dict[str, Slice] = field(default_factory=dict)
    _there: dict[str, _ResourceSeen] = field(default_factory=dict)
    _uuids: set[str] = field(default_factory=set)
    _moving: set[str] = field(default_factory=set)
    _arrived: defaultdict[str, list[_ResourceSeen]] = field(default_factory=lambda: defaultdict(list))
    _on_pool: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    _first: dict[Cell, int] = field(default_factory=dict)
    _standing: dict[Cell, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = Observer(self.known.uuid_at, self.stamps)
        self._policy = self.known.policy

    # -- moments

    def read(self, moments: Iterable[Moment]) -> Reader:
        for moment in moments:
            self.take(moment)
        return self

    def take(self, moment: Moment) -> None:
        self.now = max(self.now, moment.at)
        self.begin = self.begin or moment.at
        if moment.fact is None:
            return
        if isinstance(moment.fact, Capabilities):
            self.version = moment.fact.version
        before, now = self.known.learn(moment.fact)
        if self.logged and self.known.policy is not self._policy:  # read anew
            self._policy, told = self.known.policy, self.seen.conduct
            if told.policy != self._policy:
                told.policies.append((moment.at, self._policy))
        found = now if now is not None else before
        if found is not None:
            self._row(before, now)
        elif self.known.objects and not self._begun:  # a log that begins with a checkpoint
            rows = (row for row in self.known.objects.values() if type(row) in _ORDER)
            for row in sorted(rows, key=lambda row: _ORDER.index(type(row))):
                self._row(None, row)

    def _row(self, before: Any, now: Any) -> None:
        self._begun = True
        match now if now is not None else before:
            case Pod() as pod:
                self._pod(pod, gone=now is None)
            case Claim() as claim:
                if not claim.hold:
                    self.seen.claim(self.now, before, now, self._waits)
                self._claim(claim, gone=now is None)
            case FabricResource() as resource:
                self.seen.resource(self.now, before, now)
                self._resource(resource, gone=now is None)
            case Slice() as one:
                was = before if isinstance(before, Slice) else None
                self.seen.slice(self.now, was, now)
                self._slice(was, one, gone=now is None)
            case Node() as node:
                if now is not None:
                    self.seen.nodes[node.name] = node
                else:
                    self.seen.nodes.pop(node.name, None)
                self._node(before if isinstance(before, Node) else None, node, gone=now is None)
            case Config() as config if now is not None:
                self.config = config
            case DeviceClass() as one if now is not None:
                self.classes[one.name] = one
            case AttachRequest():
                self.seen.request(self.now, before, now)
            case _:
                pass

    # -- objects

    def _pod(self, pod: Pod, gone: bool) -> None:
        seen = self.pods.get(pod.uid)
        if seen is None:
            if pod.phase in FINISHED:  # it ended before the source begins
                return
            seen = self.pods[pod.uid] = _PodSeen(pod, self.now, early=bool(pod.node))
        seen.pod = pod
        if pod.node and not seen.bound:
            seen.bound = self.now
            self.taken.add(pod.node)
        if pod.phase in FINISHED and not seen.ended:
            seen.ended = self.now
        if (gone or pod.deleting) and not seen.gone:
            seen.gone = self.now

    def _waits(self, uid: str) -> bool:
        return uid in self.pods and not (self.pods[uid].gone or self.pods[uid].ended)

    def _claim(self, claim: Claim, gone: bool) -> None:
        if claim.hold:
            self.holds += 1
            return
        if claim.requests:
            self.asked[claim.namespace, claim.name] = claim
            if claim.owner:
                self.made_for[claim.owner] = claim
        results = claim.allocation.results if claim.allocation is not None and not gone else ()
        held = frozenset((one.pool, one.device) for one in results if one.binding)
        for pool, _ in held ^ self._on_pool.get(claim.uid, frozenset()):
            self._changes_pool(pool)
        if held:
            self._on_pool[claim.uid] = held
        else:
            self._on_pool.pop(claim.uid, None)
        self._look_at_totals()

    def _resource(self, resource: FabricResource, gone: bool) -> None:
        seen = self.resources.setdefault(resource.uid, _ResourceSeen())
        seen.node, seen.model = resource.node, resource.model
        if resource.state == "Attaching" and not seen.attaching and not resource.uuid:
            seen.attaching = self._caused[resource.model] = self.now
        coming = resource.state in ("", "Attaching") and not resource.uuid
        if resource.error and coming and not EMPTY.search(resource.error):
            seen.refused = seen.refused or resource.error
        if resource.uuid:
            self._uuids.add(resource.uuid)
        if resource.uuid and not seen.named:
            seen.named = self.now
            self._arrived[resource.node].append(seen)
        self.marks += resource.marked
        if resource.state in GOING and not seen.leaving:
            seen.leaving = self.now
        if not seen.gone and (gone or (seen.leaving and not resource.uuid)):
            seen.gone = self.now
        self._keep(resource.uid, seen)
        self._look_at_totals()

    def _keep(self, uid: str, seen: _ResourceSeen) -> None:
        """Track which resources exist, and which of them are being attached or detached."""
        if seen.gone:
            self._there.pop(uid, None)
        else:
            self._there[uid] = seen
        if seen.gone or (seen.named and not seen.leaving):
            self._moving.discard(uid)
        else:
            self._moving.add(uid)

    def _slice(self, before: Slice | None, one: Slice, gone: bool) -> None:
        if one.node:
            if not gone:
                self._sight(one)
                self._listed(before, one)
            return
        if gone:
            self._pools.pop(one.uid, None)
        else:
            self._pools[one.uid] = one
        names = set() if gone else set(one.devices)
        lost = set(before.devices) - names if before is not None else set()
        held = {device for pairs in self._on_pool.values() for pool, device in pairs if pool == one.pool}
        self.vanished += len(lost & held)
        model = self._model_of(one.pool)
        since = self._caused.pop(model.model, 0) if model is not None and lost else 0
        if since and self.now - since <= LINKED * MICROSECONDS:
            self.publishing.append((self.now - since) / MICROSECONDS)
        self._look_at_totals()

    def _model_of(self, pool: str) -> Model | None:
        device = pool.rpartition("-fabric")[0]
        return next((one for one in self.config.models if one.device == device), None)

    def _changes_pool(self, pool: str) -> None:
        model = self._model_of(pool)
        if model is not None:
            self._caused[model.model] = self.now

    def _listed(self, before: Slice | None, one: Slice) -> None:
        """Match new devices in a node's slice with arrivals at that node, the oldest arrival first."""
        news = len(one.devices) - (len(before.devices) if before is not None else 0)
        for _ in range(min(max(0, news), len(self._arrived[one.node]))):
            self._arrived[one.node].pop(0).listed = self.now

    def _sight(self, one: Slice) -> None:
        for device in one.devices.values():
            product = device.attributes.get("productName")
            model = next((m for m in self.config.models if m.attributes.get("productName") == product), None)
            if model is None or model.model in self.sights or product is None:
                continue
            told = {name: str(value) for name, value in device.attributes.items()}
            if "memory" in device.capacity:
                told["memory"] = device.capacity["memory"]
            self.sights[model.model] = told

    def _node(self, before: Node | None, node: Node, gone: bool) -> None:
        at = (self.now - self.begin) / MICROSECONDS
        if gone:
            self.changes.append(Change(at, "lose_node", node.name))
            return
        if before is None:
            self._came_back(node.name, at)
            if at > 60.0 and node.name not in self.nodes:
                self.odd["node that came later is there from the beginning"] += 1
            self.nodes.setdefault(node.name, node)
        elif before.unschedulable != node.unschedulable:
            self.changes.append(Change(at, "cordon" if node.unschedulable else "uncordon", node.name))
        if node.labels.get(f"{self.config.prefix}/fabric") and not self._fabric(node.name):
            self.nodes[node.name] = node

    def _came_back(self, node: str, at: float) -> None:
        lost = next((one for one in reversed(self.changes) if (one.kind, one.node) == ("lose_node", node)), None)
        if lost is not None and at - lost.at <= AWAY:
            self.changes.remove(lost)
        elif lost is not None:
            self.odd["node that went and came back stays away"] += 1

    def _built_in(self) -> None:
        """Note devices that nodes list and that no resource ever named."""
        number = len(set(self.known.uuid_at.values()) - self._uuids)
        if number:
            self.odd["device that is built into a node, or whose resource is not seen, is left out"] += number

    def _fabric(self, node: str) -> str:
        row = self.nodes.get(node)
        return row.labels.get(f"{self.config.prefix}/fabric", "") if row is not None else ""

    # -- how many devices there are

    def _look_at_totals(self) -> None:
        """Find how many devices a fabric has in all, as listed by the pool plus attached ones. Only times without waiting claims
        and moving devices count, and only numbers that stay for `SETTLED` seconds, since pools are published late."""
        for cell, (number, since) in self._standing.items():
            if self.now - since >= SETTLED * MICROSECONDS:
                self._settled(cell, number, since)
        if self._on_pool or self._moving:
            self._moved = True
            self._standing.clear()
            return
        for cell, number in self._counted().items():
            if not self._moved:  # at the start the objects become known one after the other
                self._first[cell] = self.totals[cell] = number
            elif self._standing.get(cell, (None, 0))[0] != number:
                self._standing[cell] = (number, self.now)

    def _settled(self, cell: Cell, number: int, since: int) -> None:
        had = self.totals.get(cell, number)
        self._first.setdefault(cell, number)
        self.totals[cell] = number
        if number != had:
            at = (since - self.begin) / MICROSECONDS
            self.changes.append(Change(at, "resize", "", cell[0], cell[1], number - had))

    def _counted(self) -> Counter[Cell]:
        found: Counter[Cell] = Counter()
        for row in self._pools.values():
            model = self._model_of(row.pool)
            if model is not None:
                found[row.pool.rpartition("-fabric")[2], model.model] += len(row.devices)
        for seen in self._there.values():
            if fabric := self._fabric(seen.node):
                found[fabric, seen.model] += 1
        return found

    # -- result

    def derived(self) -> Derived:
        self._look_at_totals()
        for cell, (number, since) in self._standing.items():
            if cell not in self._first:
                self._settled(cell, number, since)
        self._built_in()
        conduct = self.seen.conduct
        pods = sorted(self._pod_rows(), key=lambda row: (row.at, row.namespace, row.name))
        return Derived(
            begin=self.begin,
            end=self.now,
            config=self.config,
            nodes=tuple(self.nodes[name] for name in sorted(self.nodes)),
            taken=frozenset(self.taken),
            classes=tuple(self.classes[name] for name in sorted(self.classes)),
            pools=dict(self._first),
            sights=self.sights,
            pods=tuple(pods),
            changes=tuple(sorted(self.changes, key=lambda one: one.at)),
            behaviour=self._behaviour(),
            conduct=conduct,
            guarded=bool(self.holds) or not self.marks,
            version=self.version,
            notes=(*(f"{number} {what}" for what, number in sorted(self.odd.items())), *conduct.notes()),
        )

    def _pod_rows(self) -> Iterable[PodRow]:
        for uid, seen in self.pods.items():
            devices, pod = self._devices_of(uid, seen.pod), seen.pod
            if not devices:
                continue
            if seen.early:
                self.odd[
                    "pods ran when the source begins and come at its beginning: waits and attaches are not those of reality"
                ] += 1
            end = min((at for at in (seen.ended, seen.gone) if at), default=0)
            yield PodRow(
                at=(seen.came - self.begin) / MICROSECONDS,
                namespace=pod.namespace,
                name=pod.name,
                devices=tuple(devices.items()),
                ran=(end - seen.bound) / MICROSECONDS if seen.bound and end else None,
                withdrawn=(end - seen.came) / MICROSECONDS if end and not seen.bound else None,
                ended=bool(seen.ended),
                scheduler=pod.scheduler,
                priority=pod.priority,
            )

    def _devices_of(self, uid: str, pod: Pod) -> dict[str, int]:
        """Number of devices by class, over all claims of a pod."""
        names = [name for name in (*pod.claims, pod.extended_claim) if name]
        claims = [self.asked[pod.namespace, name] for name in names if (pod.namespace, name) in self.asked]
        if not claims and uid in self.made_for:
            claims = [self.made_for[uid]]
        found: Counter[str] = Counter()
        for claim in claims:
            for request in claim.requests:
                name, count, exact = _first_choice(request)
                if not exact or claim.constraints:
                    self.odd["request that asks for more than a number of a class: class and number are taken"] += 1
                if name:
                    found[name] += count
        if len(claims) > 1:
            self.odd["pod with several claims: one claim asks for all of it"] += 1
        return dict(found)

    def _behaviour(self) -> Behaviour:
        turns, one_worker = self._turns()
        attach: defaultdict[str, list[float]] = defaultdict(list)
        detach: defaultdict[str, list[float]] = defaultdict(list)
        errors: dict[Cell, tuple[int, int, str]] = {}
        listing: list[float] = []
        for seen, since in turns:
            attach[seen.model].append((seen.named - (since if one_worker else seen.attaching)) / MICROSECONDS)
        for seen in self.resources.values():
            if seen.named and seen.listed:
                listing.append(max(0.0, (seen.listed - seen.named) / MICROSECONDS))
            if seen.leaving and seen.gone:
                detach[seen.model].append((seen.gone - seen.leaving) / MICROSECONDS)
            cell = (self._fabric(seen.node), seen.model)
            refused, of, words = errors.get(cell, (0, 0, ""))
            errors[cell] = (refused + bool(seen.refused), of + 1, words or seen.refused)
        alone = [max(0.1, one - SETTLES) for one in _quickest([one for found in detach.values() for one in found])]
        return Behaviour(
            attach={model: _samples(found) for model, found in sorted(attach.items())},
            detach={model: _samples(alone if one_worker else found) for model, found in sorted(detach.items())},
            listing=_samples(_quickest(listing) if one_worker else listing),
            publishing=_samples(self.publishing),
            keeps_names=self.vanished == 0,
            errors={cell: row for cell, row in sorted(errors.items()) if row[0]},
            one_worker=one_worker,
        )

    def _turns(self) -> tuple[list[tuple[_ResourceSeen, int]], bool]:
        """The attaches in the order of their ends, each with the instant from which a single worker could attach it; and whether
        the operator had a single worker: then none that waited for its turn took much less than those that did not."""
        done = sorted(
            (one for one in self.resources.values() if one.attaching and one.named and not one.refused),
            key=lambda one: one.named,
        )
        ends = [0, *(one.named for one in done)]
        turns = [(one, max(one.attaching, end)) for one, end in zip(done, ends, strict=False)]
        queued = [one.named - since for one, since in turns if since > one.attaching]
        alone = [one.named - since for one, since in turns if since == one.attaching]
        return turns, len(queued) >= QUEUED and min(queued) >= min(alone) / 2


def _first_choice(request: ClaimRequest) -> tuple[str, int, bool]:
    """Class and number of a request's first alternative, and whether the request says nothing else."""
    if not request.alternatives:  # a log from before 2026-11
        return next(iter(request.classes), ""), max(1, request.count), len(request.classes) == 1 and not request.all
    one = request.alternatives[0]
    plain = not (one.all or one.admin or one.capacity or one.selectors or len(request.alternatives) > 1)
    return one.device_class, max(1, one.count), plain


def _quickest(found: list[float]) -> list[float]:
    """The lowest fifth, at least one if there is any."""
    return sorted(found)[: -(-len(found) // 5)]


def _samples(found: Iterable[float]) -> Samples:
    return Samples(tuple(sorted(found)))
