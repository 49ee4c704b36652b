"""The scaler judge's view of a running lab: the devices that each claim has or waits for, which physical devices these are, and
what the operator and the scaler reported about them.

The view follows the API server and the fabric's ledger. It has no rules and works with any scaler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from dds_lab.actors.ledger import Entry
from dds_lab.actors.objects import Key, allocation_of, claim_names, key_of, node_of, results
from dds_lab.actors.operator.names import DELETE_DEVICE, DETACH_DEVICE
from dds_lab.api.requests import Call
from dds_lab.api.server import ApiServer
from dds_lab.client import ApiError, Object, instants
from dds_lab.lab import SCHEDULER_USER, Lab
from dds_lab.time import MICROSECONDS

Cell = tuple[str, str]
"""(node, model)"""

RESCHEDULE, READY, FAILED = "FabricDeviceReschedule", "FabricDeviceReady", "FabricDeviceFailed"
WRITTEN = 1 * MICROSECONDS
"""The operator records a device that came within this time, or never (microseconds)."""

HIDDEN = 300 * MICROSECONDS
"""Time for which an attached device that no driver lists still counts (microseconds; the scaler's `UNLISTED_GRACE`)."""

HANGS = 310 * MICROSECONDS
"""Time after the start of a detach for which the device does not count against the node's limit: the scaler's `SLOW` and some
seconds (microseconds)."""


@dataclass(frozen=True)
class Finding:
    """A broken rule: the instant, the rule, the object (`of`), and words."""

    at: int
    rule: str
    of: str
    text: str


@dataclass(frozen=True)
class Held:
    """A claim as the judge sees it.

    `cells`: number of allocated devices by node and model; `waits`: those of them that are pool devices. `serials`: attached
    devices that it has; `whole`: keys of all devices, of any driver, that it has as a whole. A claim that is reserved for no pod
    only keeps devices from others: of these fields it has `whole` alone. `choices`: number of requested devices by model, best
    choice first. `told` and `failed`: binding conditions say that the devices are there, or that they will not come (`words`).
    `since`: when it was allocated or cleared. `selective`: its requests have selectors, which the judge does not evaluate: a
    device of the right model may not do.
    """

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
    selective: bool = False

    @property
    def needs(self) -> Counter[str]:
        return self.choices[0] if self.choices else Counter()


Changed = Callable[[Held | None, Held | None], None]


class ClusterView:
    """Claims, pods and nodes of a started lab, and attaches and detaches on its fabric."""

    def __init__(self, lab: Lab, *, forgives: bool = False) -> None:
        """`forgives`: see `is_nameless`."""
        self.lab = lab
        self._forgives = forgives
        self.claims: dict[str, Held] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.nodes: dict[str, Object] = {}
        self.closed: dict[str, int] = {}  # node → until when it was cordoned or tainted
        # DeviceTaintRule of a pool → the pool, when it was deleted (0: it stands).
        self._rules: dict[str, tuple[str, int]] = {}
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
        self._ahead: dict[str, Object] = {}  # by uid: claims allocated to devices of slices that were not seen yet
        self._faces: dict[str, list[tuple[str, bool, Key]]] = {}  # slice → serial, is whole, key
        self._parted: dict[str, int] = {}  # serial → since when it is listed as partitions
        self._unlisted: dict[str, int] = {}  # serial → when it was listed last
        self._made: dict[str, Cell] = {}  # by resource (a ComposableResource's uid)
        self.ever_made: Counter[Cell] = Counter()  # resources for requests, gone ones too
        self.complaints: dict[Cell, int] = {}  # when a resource of the cell last showed an error
        self.erring: dict[str, Cell] = {}  # by resource: those that show an error now
        self.sick: dict[str, Cell] = {}  # by resource: attached devices that show an error now
        self.silent: dict[str, tuple[Cell, int]] = {}  # by resource: without device and error, and since when
        self.refused_at: dict[str, int] = {}  # by resource: when it first showed its error
        self._names: dict[str, str] = {}  # by resource: the serial of its device
        self._came: dict[str, int] = {}  # serial → when it was attached
        self._came_to: dict[str, str] = {}  # serial → the node to which it was attached last
        self.leaving: dict[str, Cell] = {}  # by resource: marked for detach, or being deleted
        self._going: dict[str, tuple[Cell, int]] = {}  # by resource: being deleted, and since when
        self.unheard: set[str] = set()  # devices that came although the operator got an error: no resource has them
        self.too_late: set[str] = set()  # devices that came when their resource was being deleted: they go again
        self._orphan_of: dict[str, str] = {}  # by resource: the device without a resource that it was made to detach
        self.chooser: dict[str, str] = {}  # claim uid → user who chose its devices last
        self._left: set[str] = set()  # devices in machines of deleted nodes: their resources were deleted, too
        self._by_fields = not isinstance(lab.api, ApiServer)  # only the lab's own server tells who writes
        client = lab.client("judge")
        with suppress(ApiError):  # not every cluster serves them
            client.mirror("devicetaintrules").follow(self._rule)
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
        if not self._by_fields:
            lab.server.admission.append(self._chosen)

    @property
    def now(self) -> int:
        return self.lab.time.now()

    # -- the present state

    def attached(self, cell: Cell) -> list[str]:
        """Serials of the cell's devices, built-in ones included."""
        return [one.device.serial for one in self.lab.fabric.attached(cell[0]) if one.device.model == cell[1]]

    def movable(self, cell: Cell) -> int:
        """Number of the cell's devices that came from the pool, with those on their way in and without those on their way out.
        A device that was there when its node was deleted, or that has no resource, does not count: nothing in the cluster tells
        that it came from the pool."""
        strange = self._left | self.unheard | {one for one in self.attached(cell) if self.is_nameless(one)}
        attached = [one for one in self.lab.fabric.attached(cell[0]) if one.device.serial not in strange]
        there = sum(one.device.model == cell[1] and not one.fixed for one in attached)
        moving = (one for one in self.under_way.values() if (one.node, one.model) == cell and one.serial not in strange)
        coming = Counter(one.operation for one in moving)
        return there + coming["attach"] - coming["detach"]

    def about_to_go(self, cell: Cell, lately: int) -> int:
        """Number of the cell's devices that the operator is to detach but has not ordered from the fabric, or that the fabric
        refused since `lately`. A detach that hangs for longer than the scaler waits does not count."""
        detached = {one.serial for one in self.under_way.values() if one.operation == "detach"}
        here = {one.device.serial for one in self.lab.fabric.attached(cell[0])} - detached
        leaving = (uid for uid, (at, since) in self._going.items() if at == cell and since >= self.now - HANGS)
        going = [uid for uid in leaving if self._names.get(uid) in here]
        return sum(self.refused_at.get(uid, self.now) >= lately for uid in going)

    def unfit(self, cell: Cell) -> int:
        """Number of the cell's attached devices that are no reason not to order another: they show an error, or are to leave and
        no driver lists them."""
        listed = {serial for faces in self._faces.values() for serial, *_ in faces}
        unlisted = {uid for uid in self.leaving if self._names.get(uid, "") not in listed and uid in self._names}
        found = {uid: at for uid, at in (self.sick | self.leaving).items() if uid in self.sick or uid in unlisted}
        return list(found.values()).count(cell)

    def dropped(self, cell: Cell, since: int) -> int:
        """Number of the cell's devices that dropped off the bus, unless the operator reported an error before `since`."""
        if self.complaints.get(cell, self.now) < since:
            return 0
        there = [one for one in self.lab.fabric.plugged(cell[0]) if one.device.model == cell[1]]
        return len(there) - len(self.attached(cell))

    def made(self, cell: Cell) -> int:
        """Number of the operator's resources in the cell, also those that are being detached."""
        return list(self._made.values()).count(cell)

    def came_at(self, serial: str) -> int:
        """When the device was attached; 0 if it was there from the start."""
        return self._came.get(serial, 0)

    def is_unnamed(self, serial: str) -> bool:
        """Whether no resource of its node names a device `WRITTEN` after it came from the pool: the operator had stopped, had
        read an old state, or had given its order up."""
        came, node = self._came.get(serial, self.now), self._came_to.get(serial)
        naming = (uid for uid, named in self._names.items() if named == serial)
        return self.now - came >= WRITTEN and not any(self._made.get(uid, ("", ""))[0] == node for uid in naming)

    def is_nameless(self, serial: str) -> bool:
        """The same, but always False unless the judge `forgives` that."""
        return self._forgives and self.is_unnamed(serial)

    def is_unexplained(self, serial: str) -> bool:
        """Whether the operator will take the device off sooner or later: no resource names it, and its node was not deleted, with
        the resources there, since it came."""
        return self.is_unnamed(serial) and serial not in self._left

    def holders(self, serial: str, node: str) -> list[Held]:
        """Claims of this node that hold the device. Claims of another node do not count: for them the device is gone."""
        return [one for one in self.claims.values() if serial in one.serials and one.node == node]

    def unheld(self, cell: Cell) -> list[str]:
        """Serials of the cell's devices that no claim has, without those that are listed only as partitions."""
        in_parts = set(self.in_parts(cell))
        return [serial for serial in self._idle(cell) if serial not in in_parts]

    def on_offer(self, cell: Cell) -> list[str]:
        """Serials of the cell's devices that no claim has and that are listed as a whole: a scheduler can allocate them."""
        whole = {serial for faces in self._faces.values() for serial, whole, _ in faces if whole}
        return [serial for serial in self._idle(cell) if serial in whole]

    def not_offered(self, cell: Cell, since: int) -> int:
        """Number of the cell's devices that no claim has, that nobody lists, and that were listed at `since` or later."""
        listed = {serial for faces in self._faces.values() for serial, *_ in faces}
        return sum(self._unlisted.get(one, 0) >= since for one in self._idle(cell) if one not in listed)

    def in_parts(self, cell: Cell) -> list[str]:
        """Serials of the cell's devices that no claim has and that are listed only as partitions: no claim can have them
        whole."""
        faces = [face for listed in self._faces.values() for face in listed]
        whole, listed = {serial for serial, whole, _ in faces if whole}, {serial for serial, *_ in faces}
        return [serial for serial in self._idle(cell) if serial in listed - whole]

    def parted(self, serials: list[str], since: int) -> int:
        """How many of these devices became listed as partitions at or after `since`."""
        return sum(self._parted.get(serial, 0) >= since for serial in serials)

    def _idle(self, cell: Cell) -> list[str]:
        held = set(chain.from_iterable(one.serials for one in self.claims.values() if one.node == cell[0]))
        held |= self.namesakes(cell).keys()
        return [serial for serial in self.attached(cell) if serial not in held]

    def namesakes(self, cell: Cell) -> dict[str, Held]:
        """Devices that got the name of a device which was detached while a claim had it, each with that claim: by its allocation
        the claim has the new device now."""
        here = set(self.attached(cell))
        faces = chain.from_iterable(self._faces.values()) if here else ()
        listed = {key: serial for serial, whole, key in faces if whole and serial in here}
        having = [one for one in self.claims.values() if listed and one.node == cell[0] and one.cells]
        pairs = [(listed[key], one) for one in having for key in sorted(one.whole & listed.keys())]
        return {serial: one for serial, one in pairs if serial not in one.serials}

    def is_hidden(self, serial: str) -> bool:
        """Whether no driver has listed the device for longer than `HIDDEN`."""
        listed = any(serial == one for faces in self._faces.values() for one, *_ in faces)
        return (
            bool(serial)
            and not listed
            and self.now - max(self._came.get(serial, 0), self._unlisted.get(serial, 0)) > HIDDEN
        )

    def spare(self, cell: Cell) -> int:
        """Number of the cell's devices from the pool that no claim has, beyond the node's minimum. Unlisted devices do not count:
        a scaler needs a device's name to hold it before a detach."""
        listed = {serial for faces in self._faces.values() for serial, *_ in faces}
        idle, own = (set(self._idle(cell)) & listed) - self._left, self.lab.fabric.attached(cell[0])
        came = sum(one.device.serial in idle and not one.fixed for one in own)
        return max(0, min(came, self.movable(cell) - self.least(cell)))

    @property
    def orphans(self) -> set[str]:
        """Devices that the operator takes off since it knew no resource for them. It may detach one twice: also what came again
        under that name."""
        return set(self._orphan_of.values())

    def fabric_of(self, node: str) -> str:
        machine = self.lab.fabric.machine(node)
        return machine.fabric if machine is not None else ""

    def limit(self, cell: Cell) -> int:
        """The node's limit for the model (label -size-max), by default 10,000."""
        return self._size(cell, "max", 10_000)

    def least(self, cell: Cell) -> int:
        """The node's minimum for the model (label -size-min), by default 0."""
        return self._size(cell, "min", 0)

    def _size(self, cell: Cell, which: str, otherwise: int) -> int:
        device = next(one.device for one in self.lab.scenario.cluster.models if one.model == cell[1])
        labels = self.nodes.get(cell[0], {}).get("metadata", {}).get("labels") or {}
        return int(labels.get(f"{self.lab.scenario.cluster.prefix}/{device}-size-{which}", otherwise))

    def rivals(self, model: str) -> set[str]:
        """Models that cannot coexist with this one on a node, whichever of the two entries says so."""
        models = self.lab.scenario.cluster.models
        ours = {name for one in models if one.model == model for name in one.not_with}
        return ours | {one.model for one in models if model in one.not_with}

    def pod_waits(self, claim: Held, heard: int | None = None) -> bool:
        """Whether a pod that refers to the claim, and was created until `heard`, waits for a node."""
        waiting = self._waiting(claim)
        return any(heard is None or instants.read(pod["metadata"]["creationTimestamp"]) <= heard for pod in waiting)

    def together(self, claim: Held) -> set[str]:
        """Models in all claims of the pods that wait for the claim."""
        return {model for one in self.of_pods(claim) for model in one.needs}

    def of_pods(self, claim: Held) -> list[Held]:
        """All claims of the pods that wait for the claim."""
        names = {(pod["metadata"]["namespace"], name) for pod in self._waiting(claim) for name in claim_names(pod)}
        return [one for one in self.claims.values() if tuple(one.name.split("/")) in names]

    def is_open(self, node: str) -> bool:
        """Whether the node is neither cordoned nor tainted."""
        spec = self.nodes.get(node, {"spec": {"unschedulable": True}}).get("spec") or {}
        return not spec.get("unschedulable") and not spec.get("taints")

    def is_ruled(self, node: str, since: int) -> bool:
        """Whether a DeviceTaintRule for all devices of the node stands, or stood at `since` or later."""
        return any(pool == node and (gone or self.now) >= since for pool, gone in self._rules.values())

    def may_go_to(self, claim: Held, node: str) -> bool:
        """Whether the node has the labels in the nodeSelector of all pods that wait for the claim."""
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

    # -- events

    def _moved(self, entry: Entry) -> None:
        if entry.outcome == "ordered":
            self.under_way[entry.order] = entry
        else:
            self.under_way.pop(entry.order, None)
            if entry.operation == "attach" and entry.outcome == "done":
                self._came[entry.serial], self._came_to[entry.serial] = self.now, entry.node
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
            self.too_late.discard(entry.serial)

    def _resource(self, old: Object | None, new: Object | None) -> None:
        resource = new or old or {}
        uid, cell = resource["metadata"]["uid"], (resource["spec"]["target_node"], resource["spec"]["model"])
        for where in (self.erring, self.sick, self.leaving, self._made):
            where.pop(uid, None)
        _, since = self._going.pop(uid, (cell, self.now))
        if new is not None:
            self._made[uid] = cell
            self.ever_made[cell] += old is None and DETACH_DEVICE not in (new["metadata"].get("labels") or {})
        status = (new or {}).get("status") or {}
        self._names.pop(uid, None)
        if status.get("device_id"):
            self._names[uid] = status["device_id"]
        going = new is None or new["metadata"].get("deletionTimestamp")
        self._orphan_of.pop(uid, None)
        if new is not None and (orphan := (new["metadata"].get("labels") or {}).get(DETACH_DEVICE)):
            self._orphan_of[uid] = orphan
        if going or status.get("device_id"):
            self.silent.pop(uid, None)
        elif not status.get("error"):
            self.silent.setdefault(uid, (cell, self.now))
        if ((old or {}).get("status") or {}).get("error"):
            self.complaints[cell] = self.now
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
        for uid, claim in list(self._ahead.items()):  # in a real cluster each resource has a watch of its own
            self.claims[uid] = replace(self.claims[uid], allocated="")
            self._claim(None, claim)

    def _node(self, old: Object | None, new: Object | None) -> None:
        there = new or old or {}
        name = there["metadata"]["name"]
        before, after = ((one or {}).get("metadata", {}).get("labels") or {} for one in (old, new))
        if new is None:
            self.nodes.pop(name, None)
            self._left |= {one.device.serial for one in self.lab.fabric.plugged(name)}
            return
        if old is not None and not self.is_open(name):
            self.closed[name] = self.now
        self.nodes[name] = new
        if old is not None:
            for label in sorted(before.keys() | after.keys()):
                if before.get(label) != after.get(label):
                    for call in self.on_label:
                        call(name, label)

    def _rule(self, old: Object | None, new: Object | None) -> None:
        rule = new or old or {}
        selector = rule["spec"].get("deviceSelector") or {}
        if "device" not in selector:
            self._rules[rule["metadata"]["name"]] = selector.get("pool", ""), 0 if new is not None else self.now

    def _pod(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if new is None:
            self.pods.pop(key, None)
        else:
            self.pods[key] = new

    def _chosen(self, call: Call, old: Object | None, new: Object | None) -> None:
        """An admission hook."""
        if call.resource.plural == "resourceclaims" and new and old and allocation_of(new) and not allocation_of(old):
            self.chooser[new["metadata"]["uid"]] = call.user.name

    def _claim(self, old: Object | None, new: Object | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        before = self.claims.get(uid)
        self._ahead.pop(uid, None)
        if self._by_fields and new is not None and allocation_of(new):
            self.chooser[uid] = _writer_of_allocation(new)
        after = self._read(new, before) if new is not None else None
        if after is None:
            self.claims.pop(uid, None)
            self.chooser.pop(uid, None)
        else:
            self.claims[uid] = after
            if new is not None and any(self._is_ahead(one) for one in results(new)):
                self._ahead[uid] = new
        for call in self.on_claim:
            call(before, after)

    def _is_ahead(self, result: Object) -> bool:
        return result["driver"] in self._drivers and self._model_of(key_of(result)) is None

    def _model_of(self, key: Key) -> str | None:
        return self._model_at.get(key) or self._model_of_pool.get(key[:2])

    def _read(self, claim: Object, before: Held | None) -> Held:
        meta, status = claim["metadata"], claim.get("status") or {}
        allocation = allocation_of(claim)
        known = before
        if known is None:
            known = Held(meta["uid"], f"{meta.get('namespace', '')}/{meta['name']}", self.now, self.now)
            created, asked = (
                instants.read(meta["creationTimestamp"]),
                claim["spec"].get("devices", {}).get("requests") or (),
            )
            selective = any(one.get("exactly", {}).get("selectors") for one in asked)
            known = replace(known, created=created, choices=self._choices(claim), selective=selective)
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
            if one.get("adminAccess"):
                continue  # who looks uses nothing, and nothing is to come
            if not one.get("shareID"):
                whole.add(key)
            model = self._model_of(key)
            if one["driver"] not in self._drivers or model is None or (reserved and "pods" not in reserved):
                continue
            serial = self._serial_at.get(key, "")
            if one.get("bindingConditions"):
                waits[node, model] += 1
            elif serial in serials:
                continue  # another partition of the same device
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
        """The devices by model in the first choice of all requests, the second and so on; a request with fewer alternatives
        repeats its last. Classes that are not named after a model's device are ignored."""
        requests = [
            [one["exactly"]] if "exactly" in one else one.get("firstAvailable") or [{}]
            for one in claim["spec"].get("devices", {}).get("requests") or ()
        ]
        found = []
        for place in range(max(map(len, requests), default=0)):
            needs: Counter[str] = Counter()
            for one in (choices[min(place, len(choices) - 1)] for choices in requests):
                model = self._classes.get(one.get("deviceClassName", ""))
                if model is not None and not one.get("adminAccess"):
                    needs[model] += int(one.get("count") or 1)
            found.append(needs)
        return tuple(found)


def _writer_of_allocation(claim: Object) -> str:
    """Who wrote the allocation, by the claim's managed fields; the scheduler unless they tell another."""
    for entry in claim["metadata"].get("managedFields") or ():
        manager: str = entry.get("manager", "")
        if "f:allocation" in ((entry.get("fieldsV1") or {}).get("f:status") or {}) and "kube-scheduler" not in manager:
            return manager
    return SCHEDULER_USER
