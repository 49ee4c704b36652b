"""Names and sentences of the scaler's timelines: objects as last seen and their changes, in words that need no code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dds_core.events import KIND_OF, Event
from dds_core.kit.policy import logged
from dds_core.model import (
    AttachRequest,
    Claim,
    Config,
    Device,
    DeviceKey,
    FabricResource,
    Node,
    Pod,
    Result,
    Slice,
    TaintRule,
)
from dds_core.scaler import events as e
from dds_core.scaler.deadlines import KINDS
from dds_core.scaler.hardware import uuid_of
from dds_core.scaler.model import model_of_pool
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State, load
from dds_core.timeline import telling
from dds_core.timeline.phrases import MANY, labels, taints
from dds_core.timeline.telling import UNCHANGED, Pair, Row

DDS, OTHERS = "dds", "another client"
"""Who set a condition of a scaler."""
CONDITION = "condition "
"""How the cause of a step begins that a condition led to; its name and the device follow."""


def _pod(before: Pod | None, pod: Pod, known: telling.Known) -> Iterator[str]:
    name = f"pod {known.name_of(pod)}"
    old = before if before is not None else Pod(uid=pod.uid)
    if before is None:
        yield f"{name} is there" + (f", for scheduler {pod.scheduler}" if pod.scheduler else "")
    if pod.extended_resources and pod.extended_resources != old.extended_resources:
        asked = ", ".join(f"{count} of {resource}" for resource, count in pod.extended_resources.items())
        yield f"{name} asks for {asked}"
    if pod.nominated != old.nominated and not pod.node:
        yield f"{name} is nominated to {pod.nominated}" if pod.nominated else f"{name}: its nomination was taken back"
    if pod.waiting != old.waiting and not pod.node:
        yield f"{name} waits: {pod.waiting}" if pod.waiting else f"{name} is tried again"
    if pod.node != old.node and pod.node:
        yield f"{name} is bound to {pod.node}"
    if pod.phase != old.phase and pod.phase not in ("", "Pending"):
        yield f"{name} is {pod.phase}"
    if pod.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _request(before: AttachRequest | None, row: AttachRequest, known: telling.Known) -> Iterator[str]:
    name = f"request {row.name}"
    old = before if before is not None else AttachRequest(uid=row.uid)
    if before is None:
        yield f"{name} was made: {row.size} of {row.model} for {row.node}"
    elif row.size != old.size:
        yield f"{name} was {'raised' if row.size > old.size else 'lowered'} from {old.size} to {row.size}"
    if row.state != old.state and row.state:
        yield f"{name} is {row.state}"
    if row.error != old.error:
        yield f"{name} reports: {row.error}" if row.error else f"{name} reports no error any more"
    if row.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _slice(before: Slice | None, row: Slice, known: Known) -> Iterator[str]:
    where = row.node or f"pool {row.pool}"
    old = before.devices if before is not None else {}
    new = [name for name in row.devices if name not in old]
    lost = [name for name in old if name not in row.devices]
    if new:
        yield f"{where} lists {_devices(row, new, known)}"
    if lost:
        yield f"{where} no longer lists {_devices(row, lost, known)}"
    for name, device in row.devices.items():
        if name in old and device.taints != old[name].taints:
            yield f"{where}: device {name} is tainted {taints(device.taints)}"


def _devices(row: Slice, names: list[str], known: Known) -> str:
    if len(names) > MANY:
        return f"{len(names)} devices ({names[0]} … {names[-1]})"
    uuids = (known.uuid_at.get((row.driver, row.pool, name), "") for name in names)
    return ", ".join(f"{name} ({uuid})" if uuid else name for name, uuid in zip(names, uuids, strict=True))


def _node(before: Node | None, node: Node, known: telling.Known) -> Iterator[str]:
    old = before if before is not None else Node(uid=node.uid)
    if before is None:
        yield f"node {node.name} is there"
    if node.unschedulable != old.unschedulable:
        yield f"node {node.name} is {'cordoned' if node.unschedulable else 'open for pods again'}"
    if node.taints != old.taints:
        yield f"node {node.name} is tainted {taints(node.taints)}"
    if before is not None:
        yield from labels(node.name, old.labels, node.labels)
    if node.deleting and not old.deleting:
        yield f"node {node.name} is being deleted"


def _rule(before: TaintRule | None, rule: TaintRule, known: telling.Known) -> Iterator[str]:
    what = "/".join(part or "*" for part in (rule.driver, rule.pool, rule.device))
    what = (
        what if rule.selects else "all devices up to Kubernetes 1.37.0, since it has no selector, and on none after it"
    )
    yield f"taint rule {rule.name} puts {taints((rule.taint,))} on {what}"


class Known(telling.Known):
    """Adds the ConfigMap, the policy, and the UUIDs of the devices that nodes list."""

    deadlines = KINDS
    tables = ("claims", "pods", "nodes", "requests", "resources", "slices", "classes", "configs")
    kinds = telling.Known.kinds | {
        Pod: ("pod", _pod),
        AttachRequest: ("request", _request),
        Slice: ("slice", _slice),
        Node: ("node", _node),
        Config: ("ConfigMap", telling.config_words),
        TaintRule: ("taint rule", _rule),
    }

    def __init__(self) -> None:
        super().__init__()
        self.config = Config(uid="")
        self.policy = Policy()
        self.uuid_at: dict[DeviceKey, str] = {}
        self._node_named: dict[str, str] = {}
        self._model_of: dict[tuple[str, str], str] = {}
        self._listed: dict[str, tuple[Mapping[str, Device], dict[str, str]]] = {}
        self.relisted: frozenset[str] | None = None
        """UUIDs of the devices that differ by the last change of a node's slice; None if that is not known."""

    def _learnt(self, fact: Event) -> Pair:
        if type(fact) in KIND_OF:
            if isinstance(fact, e.SliceGone):
                self._listed.pop(fact.uid, None)
                self.relisted = None
            return super()._learnt(fact)
        match fact:
            case e.PolicyChanged():
                self.policy = logged(Policy, fact.policy)
                self._listed.clear()  # it names the attributes that hold a UUID
            case e.Checkpoint():
                self.begin(load(fact.picture))
        return UNCHANGED

    def _keep(self, row: Row) -> None:
        super()._keep(row)
        match row:
            case Config():
                self.config = row
                self._model_of.clear()
            case Node():
                self._node_named[row.name] = row.uid
            case Slice() if row.node:  # its UUIDs stay known, so that a device that is gone still has a name
                for name, uuid in self.uuids_in(row).items():
                    if uuid:
                        self.uuid_at[(row.driver, row.pool, name)] = uuid

    def uuids_in(self, row: Slice) -> Mapping[str, str]:
        """The UUID of each device of a node's slice, "" if unknown. Computed only for devices that are not as they were."""
        before: Mapping[str, Device]
        before, known = self._listed.get(row.uid, ({}, {}))
        if row.devices is not before:
            now = {
                name: known[name] if before.get(name) is one else self.uuid_of(row.driver, one)
                for name, one in row.devices.items()
            }
            names = {name for name in {**before, **row.devices} if before.get(name) is not row.devices.get(name)}
            differ = frozenset(uuid for one in (known, now) for name in names if (uuid := one.get(name)) is not None)
            self.relisted = differ if row.uid in self._listed else None
            self._listed[row.uid], known = (row.devices, now), now
        return known

    def begin(self, state: State) -> None:
        self.policy = state.policy
        super().begin(state)
        for lives in (state.lifecycle.lives, state.lifecycle.devices):
            self.states.update({uid: (life.state, life.since) for uid, life in lives.rows.items()})
        for uid, life in state.lifecycle.lives.rows.items():
            if uid not in self.objects:
                self.gone[uid] = f"{life.namespace}/{life.name}"

    def claim(self, uid: str) -> Claim | None:
        row = self.objects.get(uid)
        return row if isinstance(row, Claim) else None

    def resource(self, uid: str) -> FabricResource | None:
        row = self.objects.get(uid)
        return row if isinstance(row, FabricResource) else None

    def node(self, name: str) -> Node | None:
        row = self.objects.get(self._node_named.get(name, ""))
        return row if isinstance(row, Node) else None

    def fabric_of(self, node: str) -> str:
        """The fabric that a node's label names, "" for none."""
        row = self.node(node)
        return row.labels.get(f"{self.config.prefix}/fabric", "") if row is not None else ""

    def uuid_of(self, driver: str, device: Device) -> str:
        """The UUID of the hardware that a node's own device is a face of, "" if unknown."""
        return uuid_of(driver, device, self.policy.driver_of(driver))

    def model_of(self, result: Result) -> str:
        """The cdi-model-name of a pool device, "" for a device of a node or of an unknown model."""
        pool = (result.driver, result.pool)
        if pool not in self._model_of:
            found = model_of_pool(self.config, *pool)
            self._model_of[pool] = found.model if found is not None else ""
        return self._model_of[pool]
