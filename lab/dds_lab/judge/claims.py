"""What the judge of scalers sees of a lab while it runs: which devices each claim has or waits for, which they physically are,
and what was said of them.

It follows the API and the fabric's book as they change. It judges nothing and knows no scaler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain

from dds_lab.actors.ledger import Entry
from dds_lab.actors.objects import Key, allocation_of, claim_names, key_of, node_of, results
from dds_lab.actors.operator.operator_settings import DELETE_DEVICE, DETACH_DEVICE
from dds_lab.client import Object, instants
from dds_lab.lab import Lab
from dds_lab.time import MICROSECONDS

Cell = tuple[str, str]
"""(node, model)"""

RESCHEDULE, READY, FAILED = "FabricDeviceReschedule", "FabricDeviceReady", "FabricDeviceFailed"
WRITTEN = 1 * MICROSECONDS
"""So long after a device came the operator has written that it did, or does not any more."""

HIDDEN = 300 * MICROSECONDS
"""So long an attached device that no driver lists is waited for (`unlisted_grace_seconds`)."""

HANGS = 310 * MICROSECONDS
"""So long after a detach began its device may still take no place of the node's limit: the scaler's `SLOW`, and some seconds."""


@dataclass(frozen=True)
class Finding:
    """What was seen at an instant, of which rule, about what, in words."""

    at: int
    rule: str
    of: str
    text: str


@dataclass(frozen=True)
class Held:
    """A claim: `cells` counts the devices of its allocation by node and model, `waits` those of them that are a pool's; `serials`
    are those that it has on a node, `whole` names all that it has as a whole, whosever they are; one that is reserved for no pod
    only keeps others from it, and has the last alone. `choices` are what its spec asks for, by model, best first. `told` and
    `failed`: the allocation's devices were said to be there, or to be out of reach (`words`). `since`: when it was allocated or
    cleared."""

    uid: str
    name: str
    since: int
    created: int = 0
    deleting: bool = False
    choices: tuple[Counter[str], ...] = ()
    allocated: str = ""
    node: str = ""
    cells: Counter[Cell] = field(default_factory=Counter)
    waits: Counter[Cell] = field(default_factory=Counter)
    serials: frozenset[str] = frozenset()
    whole: frozenset[Key] = frozenset()
    told: bool = False
    failed: bool = False
    words: str = ""

    @property
    def needs(self) -> Counter[str]:
        return self.choices[0] if self.choices else Counter()


Changed = Callable[[Held | None, Held | None], None]


class ClusterView:
    """The claims, pods and labels of a lab that has started, and what was moved on its fabric."""

    def __init__(self, lab: Lab, *, forgives: bool = False) -> None:
        """`forgives`: see `is_nameless`."""
        self.lab = lab
        self._forgives = forgives
        self.claims: dict[str, Held] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.nodes: dict[str, Object] = {}
        self.closed: dict[str, int] = {}  # until when a node that is open now was not
        self.under_way: dict[int, Entry] = {}
        self.refused: list[Entry] = []
        self.on_claim: list[Changed] = []
        self.on_label: list[Callable[[str, str], None]] = []
        self.on_move: list[Callable[[Entry], None]] = []
        self._models = {one.product: one.model for one in lab.scenario.cluster.models}
        self._drivers = {one.driver for one in lab.scenario.cluster.models}
        self._classes = {one.device: one.model for one in lab.scenario.cluster.models}
        self._model_at: dict[Key, str] = {}
        self._serial_at: dict[Key, str] = {}
        self._model_of_pool: dict[tuple[str, str], str] = {}
        self._faces: dict[
            str, list[tuple[str, bool, Key]]
        ] = {}  # slice → serial, whether it is the whole device, and its name, of each
        self._parted: dict[str, int] = {}  # serial → since when it is listed in parts
        self._unlisted: dict[str, int] = {}  # serial → when it was listed last
        self._made: dict[str, Cell] = {}  # the operator's resources
        self.complaints: dict[Cell, int] = {}  # when the operator last told an error of an order
        self.erring: dict[str, Cell] = {}  # by the operator's resource: where it tells an error now
        self.sick: dict[str, Cell] = {}  # by the operator's resource: where what is attached tells an error now
        self.silent: dict[str, tuple[Cell, int]] = {}  # by the operator's resource: since when nothing comes of it
        self.refused_at: dict[str, int] = {}  # by the operator's resource: when its error was first told
        self._names: dict[str, str] = {}  # by the operator's resource: the serial of its device
        self._came: dict[str, int] = {}  # serial → when it was attached
        self.leaving: dict[str, Cell] = {}  # by the operator's resource: where a device is marked to go, or goes
        self._going: dict[
            str, tuple[Cell, int]
        ] = {}  # by the operator's resource: where it is to take a device off, since when
        self.unheard: set[str] = set()  # devices that came and whose orderer was told they did not: nobody's
        self.too_late: set[str] = set()  # devices that came when their order was taken back: they go
        self.orphans: set[str] = (
            set()
        )  # devices that no resource of the operator named, until it made one to take them off
        self._left: set[str] = set()  # devices in the machines of nodes whose object went, and the operator's with it
        client = lab.client("judge")
        follow = {
            "resourceslices": self._slice,
            "nodes": self._node,
            "pods": self._pod,
            "resourceclaims": self._claim,
            "composableresources": self._resource,
        }
        for resource, call in follow.items():
            client.mirror(resource).follow(call)
        assert not len(lab.ledger), "a judge looks on from the beginning"
        lab.ledger.on_write(self._moved)

    @property
    def now(self) -> int:
        return self.lab.time.now()

    # -- what there is

    def attached(self, cell: Cell) -> list[str]:
        """Serials of the devices of the model that the node has, built-in ones included."""
        return [one.device.serial for one in self.lab.fabric.attached(cell[0]) if one.device.model == cell[1]]

    def movable(self, cell: Cell) -> int:
        """Devices of the cell that came from the pool and stay, and those that are on their way in. What was there when the
        node's object went, or what the operator names nowhere, counts for one that was always there: nothing in the cluster
        tells where it came from."""
        strange = self._left | self.unheard | {one for one in self.attached(cell) if self.is_nameless(one)}
        attached = [one for one in self.lab.fabric.attached(cell[0]) if one.device.serial not in strange]
        there = sum(one.device.model == cell[1] and not one.fixed for one in attached)
        moving = (one for one in self.under_way.values() if (one.node, one.model) == cell and one.serial not in strange)
        coming = Counter(one.operation for one in moving)
        return there + coming["attach"] - coming["detach"]

    def about_to_go(self, cell: Cell, lately: int) -> int:
        """Those of them that the operator takes off, of which the fabric has not been told yet, or said no only lately; one that
        hangs for longer than the scaler waits for it takes its place of the node's limit."""
        detached = {one.serial for one in self.under_way.values() if one.operation == "detach"}
        here = {one.device.serial for one in self.lab.fabric.attached(cell[0])} - detached
        leaving = (uid for uid, (at, since) in self._going.items() if at == cell and since >= self.now - HANGS)
        going = [uid for uid in leaving if self._names.get(uid) in here]
        return sum(self.refused_at.get(uid, self.now) >= lately for uid in going)

    def dropped(self, cell: Cell, since: int) -> int:
        """How many devices have dropped out of the node's machine of which the operator has told nothing, or not before an
        instant."""
        if self.complaints.get(cell, self.now) < since:
            return 0
        there = [one for one in self.lab.fabric.plugged(cell[0]) if one.device.model == cell[1]]
        return len(there) - len(self.attached(cell))

    def made(self, cell: Cell) -> int:
        """How many devices the operator is to bring and keep, or is still taking off."""
        return list(self._made.values()).count(cell)

    def is_nameless(self, serial: str) -> bool:
        """Whether the operator could not write that the device came: it had stopped, or had read something old. Only for whoever
        forgives it that."""
        written = self.now - self._came.get(serial, self.now) < WRITTEN or serial in self._names.values()
        return self._forgives and not written

    def holders(self, serial: str, node: str) -> list[Held]:
        """A claim that goes on holding a device which was taken off its node has none where that is by now."""
        return [one for one in self.claims.values() if serial in one.serials and one.node == node]

    def unheld(self, cell: Cell) -> list[str]:
        """Serials of the cell's devices that no claim has, not even in part."""
        in_parts = set(self.in_parts(cell))
        return [serial for serial in self._idle(cell) if serial not in in_parts]

    def in_parts(self, cell: Cell) -> list[str]:
        """Serials of those that no claim has and that are listed in parts alone, so that nobody can have them whole."""
        faces = [face for listed in self._faces.values() for face in listed]
        whole, listed = {serial for serial, whole, _ in faces if whole}, {serial for serial, *_ in faces}
        return [serial for serial in self._idle(cell) if serial in listed - whole]

    def parted(self, serials: list[str], since: int) -> int:
        """How many of these are listed in parts since an instant or later."""
        return sum(self._parted.get(serial, 0) >= since for serial in serials)

    def _idle(self, cell: Cell) -> list[str]:
        held = set(chain.from_iterable(one.serials for one in self.claims.values() if one.node == cell[0]))
        held |= self.namesakes(cell).keys()
        return [serial for serial in self.attached(cell) if serial not in held]

    def namesakes(self, cell: Cell) -> dict[str, Held]:
        """Those of the cell's devices that got the name of one that was taken off while a claim had it, with that claim: to
        everybody it has them now."""
        here = set(self.attached(cell))
        faces = chain.from_iterable(self._faces.values()) if here else ()
        listed = {key: serial for serial, whole, key in faces if whole and serial in here}
        having = [one for one in self.claims.values() if listed and one.node == cell[0] and one.cells]
        pairs = [(listed[key], one) for one in having for key in sorted(one.whole & listed.keys())]
        return {serial: one for serial, one in pairs if serial not in one.serials}

    def is_hidden(self, serial: str) -> bool:
        """Whether no driver has listed the device for so long that nobody waits for it any more."""
        listed = any(serial == one for faces in self._faces.values() for one, *_ in faces)
        return (
            bool(serial)
            and not listed
            and self.now - max(self._came.get(serial, 0), self._unlisted.get(serial, 0)) > HIDDEN
        )

    def spare(self, cell: Cell) -> int:
        """Devices of the cell that came from the pool, beyond what the node shall always have, and that no claim has. What no
        driver lists has no name by which anybody could keep it from others until it is gone."""
        listed = {serial for faces in self._faces.values() for serial, *_ in faces}
        idle, own = (set(self._idle(cell)) & listed) - self._left, self.lab.fabric.attached(cell[0])
        came = sum(one.device.serial in idle and not one.fixed for one in own)
        return max(0, min(came, self.movable(cell) - self.least(cell)))

    def fabric_of(self, node: str) -> str:
        machine = self.lab.fabric.machine(node)
        return machine.fabric if machine is not None else ""

    def limit(self, cell: Cell) -> int:
        """The node's own limit of the model (label -size-max), or one that is never reached."""
        return self._size(cell, "max", 10_000)

    def least(self, cell: Cell) -> int:
        """How many devices of the model the node is to have in any case (label -size-min)."""
        return self._size(cell, "min", 0)

    def _size(self, cell: Cell, which: str, otherwise: int) -> int:
        device = next(one.device for one in self.lab.scenario.cluster.models if one.model == cell[1])
        labels = self.nodes.get(cell[0], {}).get("metadata", {}).get("labels") or {}
        return int(labels.get(f"{self.lab.scenario.cluster.prefix}/{device}-size-{which}", otherwise))

    def rivals(self, model: str) -> set[str]:
        """Models that may not share a node with this one, whichever of the two says so."""
        models = self.lab.scenario.cluster.models
        ours = {name for one in models if one.model == model for name in one.not_with}
        return ours | {one.model for one in models if model in one.not_with}

    def pod_waits(self, claim: Held) -> bool:
        """Whether a pod that has no node, and is not going, refers to the claim."""
        return bool(self._waiting(claim))

    def together(self, claim: Held) -> set[str]:
        """The models that the pods which wait for the claim want, with all their claims."""
        return {model for one in self.of_pods(claim) for model in one.needs}

    def of_pods(self, claim: Held) -> list[Held]:
        """All claims of the pods that wait for the claim."""
        names = {(pod["metadata"]["namespace"], name) for pod in self._waiting(claim) for name in claim_names(pod)}
        return [one for one in self.claims.values() if tuple(one.name.split("/")) in names]

    def is_open(self, node: str) -> bool:
        """Whether any pod may go there."""
        spec = self.nodes.get(node, {"spec": {"unschedulable": True}}).get("spec") or {}
        return not spec.get("unschedulable") and not spec.get("taints")

    def may_go_to(self, claim: Held, node: str) -> bool:
        """Whether the node has the labels that the pods which wait for the claim want of theirs."""
        labels = self.nodes.get(node, {}).get("metadata", {}).get("labels") or {}
        wanted = chain.from_iterable((pod["spec"].get("nodeSelector") or {}).items() for pod in self._waiting(claim))
        return all(labels.get(key) == value for key, value in wanted)

    def _waiting(self, claim: Held) -> list[Object]:
        return [
            pod
            for (namespace, _), pod in self.pods.items()
            if namespace == claim.name.split("/")[0]
            and claim.name.split("/")[1] in claim_names(pod)
            and not pod["spec"].get("nodeName")
            and not pod["metadata"].get("deletionTimestamp")
        ]

    # -- following

    def _moved(self, entry: Entry) -> None:
        if entry.outcome == "ordered":
            self.under_way[entry.order] = entry
        else:
            self.under_way.pop(entry.order, None)
            if entry.operation == "attach" and entry.outcome == "done":
                self._came[entry.serial] = self.now
            if entry.operation == "attach" and entry.outcome == "done" and entry.words:
                self.unheard.add(entry.serial)
            if entry.outcome == "failed" or entry.words:
                self.refused.append(entry)
        for call in self.on_move:
            call(entry)
        if entry.operation == "detach" and entry.outcome == "done":
            self._left.discard(entry.serial)
            self._came.pop(entry.serial, None)
            self.unheard.discard(entry.serial)
            self.orphans.discard(entry.serial)
            self.too_late.discard(entry.serial)

    def _resource(self, old: Object | None, new: Object | None) -> None:
        resource = new or old or {}
        uid, cell = resource["metadata"]["uid"], (resource["spec"]["target_node"], resource["spec"]["model"])
        for where in (self.erring, self.sick, self.leaving, self._made):
            where.pop(uid, None)
        _, since = self._going.pop(uid, (cell, self.now))
        if new is not None:
            self._made[uid] = cell
        status = (new or {}).get("status") or {}
        self._names.pop(uid, None)
        if status.get("device_id"):
            self._names[uid] = status["device_id"]
        going = new is None or new["metadata"].get("deletionTimestamp")
        self.orphans |= {(resource["metadata"].get("labels") or {}).get(DETACH_DEVICE, "")} - {""}
        if going or status.get("device_id"):
            self.silent.pop(uid, None)
        elif not status.get("error"):
            self.silent.setdefault(uid, (cell, self.now))
        if not status.get("error"):
            self.refused_at.pop(uid, None)
        else:
            self.refused_at.setdefault(uid, self.now)
            self.complaints[cell], self.erring[uid] = self.now, cell
            if status.get("state") == "Online":
                self.sick[uid] = cell
        marked = DELETE_DEVICE in (resource["metadata"].get("annotations") or {})
        if new is not None and (marked or resource["metadata"].get("deletionTimestamp")):
            self.leaving[uid] = cell
        if new is not None and going:
            self._going[uid] = cell, since
        came = old is not None and not (old.get("status") or {}).get("device_id")
        if new is not None and came and new["metadata"].get("deletionTimestamp"):
            self.too_late |= {(new.get("status") or {}).get("device_id", "")} - {""}

    def _slice(self, old: Object | None, new: Object | None) -> None:
        spec = (new or {}).get("spec") or {}
        name = (new or old or {})["metadata"]["name"]
        self._unlisted |= {serial: self.now for serial, *_ in self._faces.get(name, ())}
        faces = self._faces[name] = []
        if spec.get("driver") not in self._drivers:
            return
        for device in spec.get("devices") or ():
            key = (spec["driver"], spec["pool"]["name"], device["name"])
            attributes = device.get("attributes") or {}
            model = self._models.get((attributes.get("productName") or {}).get("string", ""))
            if model is not None:
                self._model_at[key] = self._model_of_pool[key[:2]] = model
            if spec.get("nodeName"):
                whole = "parentUUID" not in attributes
                self._serial_at[key] = (attributes.get("uuid" if whole else "parentUUID") or {}).get("string", "")
                faces.append((self._serial_at[key], whole, key))
                if whole:
                    self._parted.pop(self._serial_at[key], None)
                else:
                    self._parted.setdefault(self._serial_at[key], self.now)

    def _node(self, old: Object | None, new: Object | None) -> None:
        there = new or old or {}
        name = there["metadata"]["name"]
        before, after = ((one or {}).get("metadata", {}).get("labels") or {} for one in (old, new))
        if new is None:
            self.nodes.pop(name, None)
            self._left |= {one.device.serial for one in self.lab.fabric.plugged(name)}
            return
        if not self.is_open(name):
            self.closed[name] = self.now
        self.nodes[name] = new
        if old is not None:
            for label in sorted(before.keys() | after.keys()):
                if before.get(label) != after.get(label):
                    for call in self.on_label:
                        call(name, label)

    def _pod(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if new is None:
            self.pods.pop(key, None)
        else:
            self.pods[key] = new

    def _claim(self, old: Object | None, new: Object | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        before = self.claims.get(uid)
        after = self._read(new, before) if new is not None else None
        if after is None:
            self.claims.pop(uid, None)
        else:
            self.claims[uid] = after
        for call in self.on_claim:
            call(before, after)

    def _read(self, claim: Object, before: Held | None) -> Held:
        meta, status = claim["metadata"], claim.get("status") or {}
        allocation = allocation_of(claim)
        known = before
        if known is None:
            known = Held(meta["uid"], f"{meta.get('namespace', '')}/{meta['name']}", self.now, self.now)
            known = replace(known, created=instants.read(meta["creationTimestamp"]), choices=self._choices(claim))
        known = replace(known, deleting=bool(meta.get("deletionTimestamp")))
        told = repr(allocation) if allocation else ""
        if told != known.allocated:
            known = self._allocated(replace(known, allocated=told, since=self.now), claim)
        return self._conditions(known, status)

    def _allocated(self, held: Held, claim: Object) -> Held:
        node = node_of(claim)
        cells: Counter[Cell] = Counter()
        waits: Counter[Cell] = Counter()
        serials, whole = set(), set()
        reserved = [one["resource"] for one in (claim.get("status") or {}).get("reservedFor") or ()]
        for one in results(claim):
            key = key_of(one)
            if not one.get("shareID") and not one.get("adminAccess"):
                whole.add(key)
            model = self._model_at.get(key) or self._model_of_pool.get(key[:2])
            if one["driver"] not in self._drivers or model is None or (reserved and "pods" not in reserved):
                continue
            serial = self._serial_at.get(key, "")
            if one.get("bindingConditions"):
                waits[node, model] += 1
            elif serial in serials:
                continue  # another part of the same hardware
            elif serial:
                serials.add(serial)
            cells[node, model] += 1
        return replace(held, node=node, cells=cells, waits=waits, serials=frozenset(serials), whole=frozenset(whole))

    def _conditions(self, held: Held, status: Object) -> Held:
        true = {
            one["type"]: one.get("message", "")
            for entry in status.get("devices") or ()
            if entry["driver"] in self._drivers
            for one in entry.get("conditions") or ()
            if one["status"] == "True"
        }
        return replace(
            held, told=RESCHEDULE in true or READY in true, failed=FAILED in true, words=true.get(FAILED, "")
        )

    def _choices(self, claim: Object) -> tuple[Counter[str], ...]:
        """What the spec asks for in its first choice, its second and so on, by model; a request that has fewer keeps to its last.
        Classes that are not named after a model's device count for nothing."""
        requests = [
            [one["exactly"]] if "exactly" in one else one.get("firstAvailable") or [{}]
            for one in claim["spec"].get("devices", {}).get("requests") or ()
        ]
        found = []
        for place in range(max(map(len, requests), default=0)):
            needs: Counter[str] = Counter()
            for one in (choices[min(place, len(choices) - 1)] for choices in requests):
                model = self._classes.get(one.get("deviceClassName", ""))
                if model is not None:
                    needs[model] += int(one.get("count") or 1)
            found.append(needs)
        return tuple(found)


class Elsewhere:
    """Devices that claims came to wait for anew, on another node than before: a hand-over that nobody steered in time lands where
    chance wants it. It makes each such device a need of its own. `devices` is their number so far."""

    def __init__(self, view: ClusterView) -> None:
        self.devices = 0
        self._waited: dict[str, Counter[Cell]] = {}  # claim uid → what it waited for last
        view.on_claim.append(self._claim)

    def _claim(self, old: Held | None, new: Held | None) -> None:
        if new is not None and new.waits:
            before = self._waited.get(new.uid, new.waits)
            self.devices += (new.waits - before).total()
            self._waited[new.uid] = new.waits
