"""What can be set of the stand-in scaler, and what it has read, by node. It says of each change which nodes it is about.

The readings are the reference's, with their faults: a claim without a reservation is not seen, a pool's model is read
from its name, an empty uuid is a uuid like any other.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dds_lab.actors.models import Model
from dds_lab.actors.objects import Formed, Key, has_resource, has_spec, key_of, node_of, results
from dds_lab.client import Client, Mirror, Object, instants
from dds_lab.latency import Latency, Uniform

READY = "FabricDeviceReady"
RESCHEDULE = "FabricDeviceReschedule"
FAILED = "FabricDeviceFailed"
UUID_ATTRIBUTES = {"gpu.nvidia.com": "uuid"}
TYPES = {"gpu.nvidia.com": "gpu"}
MOST, LEAST = 50, 0
ClaimKey = tuple[str, str]
"""Namespace, name."""

_FABRIC = re.compile(r"-fabric\d+$")
PREPARING = "Preparing"


@dataclass(frozen=True)
class ScalerSettings:
    """Durations are seconds. `interval`: SCAN_INTERVAL. `removal`: DEVICE_NO_REMOVAL_DURATION. `allocation`:
    DEVICE_NO_ALLOCATION_DURATION. `reaction`: from a change of a claim or slice to the scan that it brings. `ready`:
    tell the scheduler that the device is ready (the pod keeps the pool's device) instead of sending the pod back to it.
    `refresh`: write the time of last use at every scan while a device is used; otherwise when its use begins and
    ends."""

    interval: float = 5.0
    removal: float = 15.0
    allocation: float = 5.0
    reaction: Latency = field(default=Uniform(0.01, 0.2))
    ready: bool = False
    refresh: bool = True


class Unreadable(Exception):
    """An object that ends the whole scan."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device of a claim that has binding conditions. The state is Preparing, Reschedule, Failed or "" (nothing
    handles that)."""

    key: Key
    device: str
    state: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that is allocated, reserved, and has devices with binding conditions."""

    key: ClaimKey
    created: str
    node: str
    devices: tuple[Waiting, ...]

    @property
    def preparing(self) -> bool:
        return all(one.state == PREPARING for one in self.devices)


class ScalerView:
    """Indexes over mirrors. `changed(nodes, soon)` is called with the nodes that a change is about; `soon` if it starts
    a scan."""

    def __init__(self, client: Client, changed: Callable[[Iterable[str], bool], None]) -> None:
        self._client = client
        self._changed = changed
        self._claims: dict[ClaimKey, Claim] = {}
        self._claims_of: dict[str, dict[ClaimKey, None]] = {}  # node →
        self._used: dict[Key, dict[ClaimKey, str]] = {}  # device → claims that have it, with their nodes
        self._waiting_in: dict[tuple[str, str], dict[ClaimKey, None]] = {}  # (driver, pool) →
        self._uuids: dict[str, dict[Key, str]] = {}  # node slice → device → uuid
        self._shown: dict[str, dict[Key, None]] = {}  # uuid → devices
        self._pooled: dict[tuple[str, str], dict[str, frozenset[str]]] = {}  # (driver, pool) → slice → devices
        self._resources_of: dict[str, dict[str, Object]] = {}  # node → name → resource
        self._requests_of: dict[str, dict[str, Object]] = {}
        self._awaited: dict[str, int] = {}  # k8s-device-name → devices that are waited for

    def start(self) -> None:
        self.nodes = self._client.mirror("nodes")
        self.resources = Formed(self._client.mirror("composableresources"), has_spec)
        self.requests = Formed(self._client.mirror("composabilityrequests"), has_resource)
        self.slices = self._client.mirror("resourceslices")
        self.claims = self._client.mirror("resourceclaims")
        self._mirrors: list[Mirror | Formed] = [self.nodes, self.resources, self.requests, self.slices, self.claims]
        calls = (self._node, self._resource, self._request, self._slice, self._claim)
        for mirror, call in zip(self._mirrors, calls, strict=True):
            mirror.follow(call)

    def stop(self) -> None:
        for mirror in self._mirrors:
            mirror.close()

    # -- what is asked

    def waiting(self, node: str) -> list[Claim]:
        """The claims of a node, in the order in which they came to it."""
        return [self._claims[key] for key in self._claims_of.get(node, ())]

    def awaited(self) -> Iterable[str]:
        """The k8s-device-names of all devices that claims wait for, on whatever node or on none."""
        return self._awaited

    def resources_on(self, node: str) -> Iterable[Object]:
        return self._resources_of.get(node, {}).values()

    def requests_on(self, node: str) -> Iterable[Object]:
        return self._requests_of.get(node, {}).values()

    def shown(self, uuid: str) -> bool:
        """Whether a slice of some node shows the device."""
        return uuid in self._shown

    def used(self, uuid: str) -> bool:
        """Whether a claim has a device that a node's slice shows with this uuid."""
        return any(key in self._used for key in self._shown.get(uuid, ()))

    def pooled(self, key: Key) -> bool:
        """Whether a slice of no node has the device now (of whatever generation)."""
        return any(key[2] in names for names in self._pooled.get(key[:2], {}).values())

    def limits(self, node: str, device: str, prefix: str) -> tuple[int, int]:
        """How many devices of a model the node may have at most and at least. Raises Unreadable."""
        found = self.nodes.get(node)
        labels = (found["metadata"].get("labels") or {}) if found is not None else {}
        most, least = labels.get(f"{prefix}/{device}-size-max"), labels.get(f"{prefix}/{device}-size-min")
        try:
            return (MOST if most is None else int(most)), (LEAST if least is None else int(least))
        except ValueError:
            raise Unreadable(f"a size label of {node} is no number") from None

    # -- what is news

    def _claim(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        nodes = self._forget_claim(key, old)
        if new is not None:
            nodes |= self._learn_claim(key, new)
        self._changed(sorted(nodes), True)

    def _forget_claim(self, key: ClaimKey, old: Object | None) -> set[str]:
        before = self._claims.pop(key, None)
        if before is not None:
            self._claims_of[before.node].pop(key, None)
            for one in before.devices:
                self._waiting_in.get(one.key[:2], {}).pop(key, None)
                self._awaited[one.device] -= 1
                if not self._awaited[one.device]:
                    del self._awaited[one.device]
        for result in results(old):
            holders = self._used.get(key_of(result), {})
            holders.pop(key, None)
            if not holders:
                self._used.pop(key_of(result), None)
        return {node for node in (node_of(old),) if node}

    def _learn_claim(self, key: ClaimKey, new: Object) -> set[str]:
        node = node_of(new)
        for result in results(new):
            self._used.setdefault(key_of(result), {})[key] = node
        found = _waiting(new)
        if found and (new.get("status") or {}).get("reservedFor"):
            claim = self._claims[key] = Claim(key, new["metadata"]["creationTimestamp"], node, found)
            self._claims_of.setdefault(node, {})[key] = None
            for one in claim.devices:
                self._waiting_in.setdefault(one.key[:2], {})[key] = None
                self._awaited[one.device] = self._awaited.get(one.device, 0) + 1
        return {node} if node else set()

    def _slice(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        node = obj["spec"].get("nodeName", "")
        nodes = self._node_slice(obj, new) if node else self._pool_slice(obj, new)
        self._changed(nodes, True)

    def _node_slice(self, obj: Object, new: Object | None) -> list[str]:
        name, node = obj["metadata"]["name"], obj["spec"]["nodeName"]
        for key, uuid in self._uuids.pop(name, {}).items():
            shown = self._shown[uuid]
            del shown[key]
            if not shown:
                del self._shown[uuid]
        found = dict(_uuids(new)) if new is not None else {}
        if found:
            self._uuids[name] = found
        for key, uuid in found.items():
            self._shown.setdefault(uuid, {})[key] = None
        return [node]

    def _pool_slice(self, obj: Object, new: Object | None) -> list[str]:
        """A pool's slice is about the nodes whose claims wait for one of its devices."""
        place = (obj["spec"]["driver"], obj["spec"]["pool"]["name"])
        slices = self._pooled.setdefault(place, {})
        slices.pop(obj["metadata"]["name"], None)
        if new is not None:
            slices[obj["metadata"]["name"]] = frozenset(one["name"] for one in new["spec"].get("devices") or ())
        return sorted({self._claims[key].node for key in self._waiting_in.get(place, ())})

    def _resource(self, old: Object | None, new: Object | None) -> None:
        self._changed(_indexed(self._resources_of, old, new, lambda obj: obj["spec"].get("target_node", "")), False)

    def _request(self, old: Object | None, new: Object | None) -> None:
        target: Callable[[Object], str] = lambda obj: obj["spec"]["resource"].get("target_node", "")  # noqa: E731
        self._changed(_indexed(self._requests_of, old, new, target), False)

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old["metadata"].get("labels") != new["metadata"].get("labels")):
            self._changed((new["metadata"]["name"],), False)


def model_of(device: str, models: Iterable[Model]) -> Model:
    """The model with this k8s-device-name. Raises Unreadable."""
    for one in models:
        if one.device == device:
            return one
    raise Unreadable(f"unknown device name {device}")


def last_used(resource: Object, prefix: str) -> int | None:
    """The instant of the annotation, None when there is none. Raises Unreadable."""
    text = (resource["metadata"].get("annotations") or {}).get(f"{prefix}/last-used-time")
    if text is None:
        return None
    try:
        return instants.read(text)
    except ValueError:
        raise Unreadable(f"the time of last use of {resource['metadata']['name']} cannot be read") from None


def _waiting(claim: Object) -> tuple[Waiting, ...]:
    entries = (claim.get("status") or {}).get("devices") or []
    return tuple(
        Waiting(key_of(one), _FABRIC.sub("", one["pool"]), _state(one, entries))
        for one in results(claim)
        if one.get("bindingConditions")
    )


def _state(result: Object, entries: list[Object]) -> str:
    """What the conditions say of a device; entries are found by the device's name alone."""
    if not entries:
        return PREPARING
    for entry in entries:
        if entry["device"] != result["device"] or entry.get("conditions") is None:
            continue
        true = {one["type"] for one in entry["conditions"] if one["status"] == "True"}
        if RESCHEDULE in true:
            return "Reschedule"
        if FAILED in true:
            return "Failed"
        if READY in true:
            return "Ready"
        if not true & {*result["bindingConditions"], *(result.get("bindingFailureConditions") or ())}:
            return PREPARING
    return ""


def _uuids(obj: Object) -> Iterator[tuple[Key, str]]:
    """The devices of a node's slice, unless one of them has binding conditions, with their uuids ("" when there is
    none)."""
    spec = obj["spec"]
    devices = spec.get("devices") or ()
    if any(one.get("bindingConditions") for one in devices):
        return
    attribute = UUID_ATTRIBUTES.get(spec["driver"], "")
    for one in devices:
        value = (one.get("attributes") or {}).get(attribute, {}).get("string", "")
        yield (spec["driver"], spec["pool"]["name"], one["name"]), value


def _indexed(
    index: dict[str, dict[str, Object]], old: Object | None, new: Object | None, target: Callable[[Object], str]
) -> list[str]:
    """Keep a target's objects in an index, in the order in which they came to it; the targets that the change is about."""
    before, after = (target(old) if old is not None else ""), (target(new) if new is not None else "")
    if old is not None and (new is None or before != after):
        index.get(before, {}).pop(old["metadata"]["name"], None)
    if new is not None:
        index.setdefault(after, {})[new["metadata"]["name"]] = new
    return [one for one in dict.fromkeys((before, after)) if one]
