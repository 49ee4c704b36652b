"""The simulated reference scaler's cache of the cluster by node. For each change it reports which nodes are concerned.

It reads objects as the reference does, faults included: it ignores a claim without a reservation, reads a pool's model from the
pool's name, and treats an empty uuid like any other.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dds_lab.actors.models import Model
from dds_lab.actors.objects import Formed, Key, has_resource, has_spec, key_of, node_of, results
from dds_lab.client import Client, Mirror, Object, instants

READY = "FabricDeviceReady"
RESCHEDULE = "FabricDeviceReschedule"
FAILED = "FabricDeviceFailed"
UUID_ATTRIBUTES = {"gpu.nvidia.com": "uuid"}
TYPES = {"gpu.nvidia.com": "gpu"}
CLAIM, SLICE = "claim", "slice"
MOST, LEAST = 50, 0
ClaimKey = tuple[str, str]  # namespace, name

_FABRIC = re.compile(r"-fabric\d+$")
PREPARING = "Preparing"


class Unreadable(Exception):
    """An object cannot be read. This ends the whole scan."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device of a claim that has binding conditions. `state`: Preparing, Ready, Reschedule, Failed or "" (ignored)."""

    key: Key
    device: str
    state: str


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated and reserved claim with devices that have binding conditions."""

    key: ClaimKey
    created: str
    node: str
    devices: tuple[Waiting, ...]

    @property
    def preparing(self) -> bool:
        return all(one.state == PREPARING for one in self.devices)


class ScalerView:
    """Indexes over mirrors. Each change calls `changed(nodes, kind, new)` with the nodes concerned. `kind`: CLAIM or SLICE, which
    start a scan, or "". `new`: it is the object's first change."""

    def __init__(self, client: Client, changed: Callable[[Iterable[str], str, bool], None]) -> None:
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
        self._awaited: dict[str, int] = {}  # k8s-device-name → number of devices that claims wait for

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

    def waiting(self, node: str) -> list[Claim]:
        """The node's claims, in order of arrival."""
        return [self._claims[key] for key in self._claims_of.get(node, ())]

    def awaited(self) -> Iterable[str]:
        """The k8s-device-names of all devices that claims wait for, on any node or none."""
        return self._awaited

    def resources_on(self, node: str) -> Iterable[Object]:
        return self._resources_of.get(node, {}).values()

    def requests_on(self, node: str) -> Iterable[Object]:
        return self._requests_of.get(node, {}).values()

    def shown(self, uuid: str) -> bool:
        """Whether a node's slice shows the device."""
        return uuid in self._shown

    def used(self, uuid: str) -> bool:
        """Whether a claim holds a device that a node's slice shows with this uuid."""
        return any(key in self._used for key in self._shown.get(uuid, ()))

    def pooled(self, key: Key) -> bool:
        """Whether a pool's slice, of any generation, has the device."""
        return any(key[2] in names for names in self._pooled.get(key[:2], {}).values())

    def limits(self, node: str, device: str, prefix: str) -> tuple[int, int]:
        """The most and the least devices of a model that the node may have. Raises Unreadable."""
        found = self.nodes.get(node)
        labels = (found["metadata"].get("labels") or {}) if found is not None else {}
        most, least = labels.get(f"{prefix}/{device}-size-max"), labels.get(f"{prefix}/{device}-size-min")
        try:
            return (MOST if most is None else int(most)), (LEAST if least is None else int(least))
        except ValueError:
            raise Unreadable(f"a size label of {node} is no number") from None

    def _claim(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        nodes = self._forget_claim(key, old)
        if new is not None:
            nodes |= self._learn_claim(key, new)
        self._changed(sorted(nodes), CLAIM, old is None)

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
        self._changed(nodes, SLICE, old is None)

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
        """Returns the nodes whose claims wait for a device of this pool."""
        place = (obj["spec"]["driver"], obj["spec"]["pool"]["name"])
        slices = self._pooled.setdefault(place, {})
        slices.pop(obj["metadata"]["name"], None)
        if new is not None:
            slices[obj["metadata"]["name"]] = frozenset(one["name"] for one in new["spec"].get("devices") or ())
        return sorted({self._claims[key].node for key in self._waiting_in.get(place, ())})

    def _resource(self, old: Object | None, new: Object | None) -> None:
        self._changed(_indexed(self._resources_of, old, new, lambda obj: obj["spec"].get("target_node", "")), "", False)

    def _request(self, old: Object | None, new: Object | None) -> None:
        target: Callable[[Object], str] = lambda obj: obj["spec"]["resource"].get("target_node", "")  # noqa: E731
        self._changed(_indexed(self._requests_of, old, new, target), "", False)

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old["metadata"].get("labels") != new["metadata"].get("labels")):
            self._changed((new["metadata"]["name"],), "", False)


def model_of(device: str, models: Iterable[Model]) -> Model:
    """The model with this k8s-device-name. Raises Unreadable."""
    for one in models:
        if one.device == device:
            return one
    raise Unreadable(f"unknown device name {device}")


def last_used(resource: Object, prefix: str) -> int | None:
    """The instant in the annotation, None if there is none. Raises Unreadable."""
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
    """The device's state by its conditions. As in the reference, entries are found by the device's name alone."""
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
    """The devices of a node's slice with their uuids ("" if missing). None of them if any has binding conditions."""
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
    """Update an index of objects by target; a target's objects stay in order of arrival. Returns the targets concerned."""
    before, after = (target(old) if old is not None else ""), (target(new) if new is not None else "")
    if old is not None and (new is None or before != after):
        index.get(before, {}).pop(old["metadata"]["name"], None)
    if new is not None:
        index.setdefault(after, {})[new["metadata"]["name"]] = new
    return [one for one in dict.fromkeys((before, after)) if one]
