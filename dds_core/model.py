"""The cluster as the engine reads it: one frozen struct per object kind, holding only the fields that a rule uses.

Adapters build these structs; the core compares, indexes and folds them. Nothing here knows how they were fetched, and no
secret, environment value or opaque device configuration has a field to land in.

Instants are integers, microseconds since 1970-01-01 UTC. Names follow the Kubernetes API where it has one; the two custom
kinds of group cro.hpsys.ibm.ie.com are `AttachRequest` (ComposabilityRequest) and `FabricResource` (ComposableResource).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from msgspec import Struct

DeviceKey = tuple[str, str, str]
"""(driver, pool, device): the identity of a device in the Kubernetes API."""


RESCHEDULE = "FabricDeviceReschedule"
"""Failure condition with which dds has a waiting pod scheduled again, because its device is now on the node: the hand-over."""

FAILED_CONDITION = "FabricDeviceFailed"
"""Failure condition of a device that will not come."""

OWNER_LABEL = "app.kubernetes.io/managed-by"
OWNER = "dds"
"""Label of the objects that dds makes."""

PROBE = "dds-probe"
"""Name of the claim that shows whether a guard is in force, and the class that it and every hold of dds request: a DeviceClass
that does not exist."""

PUBLISHER = "dds-publisher"
"""Value of that label on the slices of the publisher."""

BLOCKING = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep the scheduler from a node or a device."""

FINISHED = ("Succeeded", "Failed")
"""Phases of a pod that no longer needs its devices."""


class Record(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all structs here: immutable, compared by value, defaults left out of the JSON form."""


class Taint(Record, frozen=True):
    """A taint on a node or a device."""

    key: str
    value: str = ""
    effect: str = ""


_CONDITIONS = "node.kubernetes.io"
CORDON = Taint(f"{_CONDITIONS}/unschedulable", "", "NoSchedule")
"""The taint that a pod must tolerate to be placed on a cordoned node (Kubernetes, plugin NodeUnschedulable)."""


class Toleration(Record, frozen=True):
    """A toleration; an empty `effect` tolerates every effect, an empty `key` every key."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it accepts the taint; an unknown operator accepts none."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


class CapacityPolicy(Record, frozen=True):
    """What a share may take of a capacity: one of `values`, or with `ranged` from `min` in steps to `max`. `default`:
    for a request that says nothing."""

    default: str = ""
    values: tuple[str, ...] = ()
    ranged: bool = False
    min: str = ""
    max: str = ""
    step: str = ""


class Requirement(Record, frozen=True):
    """One expression of a node selector term over labels."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Device(Record, frozen=True):
    """A device of a ResourceSlice. `versions`: attributes of type version. `policies`: how capacities are shared.
    `binding`, `failure`: condition types that the scheduler waits for (KEP-5007), empty on a node-local device.
    `consumes`: what it draws on counters of its pool (KEP-4815), by set and counter. Never in a log
    are `selector` and `all_nodes` (its nodes where the slice is `per_device`) and `binds_to_node`."""

    attributes: dict[str, str | int | bool] = {}
    capacity: dict[str, str] = {}
    binding: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    shared: bool = False
    taints: tuple[Taint, ...] = ()
    node: str = ""
    consumes: dict[str, dict[str, str]] = {}
    versions: tuple[str, ...] = ()
    policies: dict[str, CapacityPolicy] = {}
    selector: tuple[Requirement, ...] = ()
    all_nodes: bool = False
    binds_to_node: bool = False


class Slice(Record, frozen=True):
    """A ResourceSlice. `slices`: spec.pool.resourceSliceCount. `node`: empty for a pool of several nodes. `counters`:
    sharedCounters by set and counter. `owner`: "dds-publisher" on a slice of dds's publisher. Never in a log
    are `per_device` (each device has its own nodes) and `repeated` (a name that it lists twice)."""

    uid: str
    name: str = ""
    driver: str = ""
    pool: str = ""
    generation: int = 0
    slices: int = 1
    node: str = ""
    all_nodes: bool = False
    selector: tuple[Requirement, ...] = ()
    devices: dict[str, Device] = {}
    owner: str = ""
    counters: dict[str, dict[str, str]] = {}
    per_device: bool = False
    repeated: str = ""


class Result(Record, frozen=True):
    """A device of an allocation. `binding`, `failure`: condition types copied at allocation; with any, the scheduler
    waits. `share`: shareID. `consumed`: amounts taken from a shared device."""

    request: str
    driver: str
    pool: str
    device: str
    binding: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    share: str = ""
    consumed: dict[str, str] = {}
    admin: bool = False

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.device)

    @property
    def whole(self) -> bool:
        """Whether the claim has all of the device: not a share of it, and not admin access."""
        return not (self.share or self.admin)


class Allocation(Record, frozen=True):
    """status.allocation. `node`: the only node it is bound to; if empty, `selector` is the node selector as canonical
    JSON. `timestamp`: whole seconds of the scheduler's clock."""

    results: tuple[Result, ...] = ()
    node: str = ""
    selector: str = ""
    timestamp: int | None = None


class Consumer(Record, frozen=True):
    """An entry of status.reservedFor."""

    uid: str
    name: str = ""
    resource: str = "pods"
    group: str = ""


class Condition(Record, frozen=True):
    """A condition of an allocated device (status.devices[].conditions[])."""

    driver: str
    pool: str
    device: str
    type: str
    status: str
    share: str = ""
    reason: str = ""


class Alternative(Record, frozen=True):
    """What a request asks for; with a `name`, one of several alternatives. `all`: every selected device instead of
    `count`. `capacity`: amounts per device. Never in a log are `empty` (adminAccess or capacity that asks for nothing)
    and `unknown_mode` (an allocationMode that is neither ExactCount nor All)."""

    device_class: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    count: int = 1
    all: bool = False
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, str] = {}
    empty: tuple[str, ...] = ()
    unknown_mode: str = ""

    def named(self, request: str) -> str:
        """Its name in results: that of the request, or `request/alternative`."""
        return f"{request}/{self.name}" if self.name else request


class ClaimRequest(Record, frozen=True):
    """A request of a claim. `alternatives`: one, or those of firstAvailable in order. Logs before 2026-11 have
    `classes`, `count` and `all` instead, which are incomplete."""

    name: str
    classes: tuple[str, ...] = ()
    count: int = 1
    all: bool = False
    alternatives: tuple[Alternative, ...] = ()

    @property
    def prioritized(self) -> bool:
        """Whether it has firstAvailable."""
        return any(one.name for one in self.alternatives)


class Constraint(Record, frozen=True):
    """The devices of these requests (empty: all) have one value of attribute `match`, or different ones of `distinct`."""

    requests: tuple[str, ...] = ()
    match: str = ""
    distinct: str = ""

    def concerns(self, result: str) -> bool:
        """Whether it is about results of this name, `request` or `request/alternative`."""
        return not self.requests or result in self.requests or result.partition("/")[0] in self.requests


class Claim(Record, frozen=True):
    """A ResourceClaim. `extended`: made by the scheduler for an extended resource (KEP-5004). `config`: digest of the
    allocated configuration. `told`: devices with an entry in status.devices, by any client. `protected`: has the
    finalizer of an allocated claim. `hold`: on a hold of dds, the uid of the FabricResource that it holds."""

    uid: str
    namespace: str = ""
    name: str = ""
    created: int = 0
    deleting: bool = False
    extended: bool = False
    owner: str = ""
    requests: tuple[ClaimRequest, ...] = ()
    allocation: Allocation | None = None
    consumers: tuple[Consumer, ...] = ()
    conditions: tuple[Condition, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: str = ""
    told: tuple[DeviceKey, ...] = ()
    protected: bool = False
    hold: str = ""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def ours(self) -> bool:
        """Whether dds itself made it: a hold, or the probe. No pod waits for such a claim, and readers are told of none."""
        return bool(self.hold) or any(one.device_class == PROBE for ask in self.requests for one in ask.alternatives)

    @property
    def known(self) -> bool:
        """Whether all its requests are known. False for a claim of a log before 2026-11, until it is listed again."""
        return bool(self.requests) and all(request.alternatives for request in self.requests)

    @property
    def true_conditions(self) -> set[tuple[str, str, str, str]]:
        """(driver, pool, device, type) of each condition that is True: the scheduler reads nothing else of them."""
        if not self.conditions:  # usually
            return set()
        return {(c.driver, c.pool, c.device, c.type) for c in self.conditions if c.status == "True"}

    @property
    def fails(self) -> bool:
        """Whether a device's condition says that it will not come: then the scheduler chooses anew."""
        return any(one[3] == FAILED_CONDITION for one in self.true_conditions)

    def unknown_class(self, classes: Collection[str], waiting: Iterable[Result] = ()) -> str:
        """A DeviceClass that the claim names and that is none of these, "" if there is none. `waiting`: its results on devices
        from a pool; then only what they are for counts."""
        of = {one.request.partition("/")[0] for one in waiting}
        asked = (request for request in self.requests if not of or request.name in of)
        named = (one.device_class for request in asked for one in request.alternatives)
        return next((name for name in named if name not in classes), "")

    def waits_for(self, results: Iterable[Result]) -> bool:
        """Whether a binding condition of one of these results is not True: then the scheduler does not bind a pod."""
        true = self.true_conditions
        for result in results:
            for name in result.binding:
                if not true or (*result.key, name) not in true:
                    return True
        return False


NO_NODE_FITS = "Unschedulable"
"""Reason of PodScheduled=False while the scheduler finds no node for a pod."""
GATED = "SchedulingGated"
"""Reason of PodScheduled=False of a pod that the scheduler shall not place yet: it waits for no device."""
IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Extended resources that begin so are served by the device class whose name follows (KEP-5004)."""


class Pod(Record, frozen=True):
    """A pod with claims. `claims`: one per entry of spec.resourceClaims, in order ("" until made from its template).
    `extended_claim`: status.extendedResourceClaimStatus.resourceClaimName. `waiting`: reason of PodScheduled=False.
    `extended_resources`: how many of which it asks for, while the scheduler finds no node for it; then also `created`."""

    uid: str
    namespace: str = ""
    name: str = ""
    node: str = ""
    nominated: str = ""
    phase: str = ""
    scheduler: str = ""
    deleting: bool = False
    claims: tuple[str, ...] = ()
    extended_claim: str = ""
    waiting: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    extended_resources: dict[str, int] = {}
    created: int = 0

    @property
    def over(self) -> bool:
        """Whether it waits for nothing any more: the scheduler skips a pod that is being deleted or has ended."""
        return self.deleting or self.phase in FINISHED

    @property
    def pending(self) -> bool:
        """Whether the scheduler has still to find a node for it."""
        return not self.node and not self.over


class Node(Record, frozen=True):
    """A node to which devices are attached."""

    uid: str
    name: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    deleting: bool = False

    def takes(self, tolerations: tuple[Toleration, ...]) -> bool:
        """Whether the scheduler could place a pod with these tolerations here."""
        return not self.against(tolerations)

    def against(self, tolerations: tuple[Toleration, ...], *, passing: bool = True) -> str:
        """Why the scheduler could not place a pod with these tolerations here, "" when it could. A cordon counts as a taint. The
        control plane's taints for conditions of the node (such as not ready) count only with `passing`."""
        if self.deleting:
            return f"{self.name} is being deleted"
        blocking = [
            taint
            for taint in self.taints
            if taint.effect in BLOCKING and (passing or taint.key.split("/")[0] != _CONDITIONS)
        ]
        for taint in ([CORDON] if self.unschedulable else []) + blocking:
            if not any(toleration.tolerates(taint) for toleration in tolerations):
                return (
                    f"{self.name} is cordoned"
                    if taint == CORDON
                    else f"{self.name} has the taint {taint.key}:{taint.effect}"
                )
        return ""


class DeviceClass(Record, frozen=True):
    """A DeviceClass with its CEL selectors. `created`: of one with an `extended_resource`, which another may have too."""

    uid: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: int = 0


class TaintRule(Record, frozen=True):
    """A DeviceTaintRule; an empty `driver`, `pool` or `device` matches any. `selects`: whether it has a selector."""

    uid: str
    name: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    taint: Taint = Taint(key="")
    deleting: bool = False
    selects: bool = True

    def covers(self, key: DeviceKey) -> bool:
        """Whether it puts its taint on this device."""
        return all(not own or own == part for own, part in zip((self.driver, self.pool, self.device), key, strict=True))


class Model(Record, frozen=True):
    """An entry of device-info. `model`: cdi-model-name. `device`: k8s-device-name. `conflicts`: indexes of models that
    may not share a node with it. `type`: request-type."""

    index: int
    model: str
    device: str
    driver: str
    attributes: dict[str, str] = {}
    conflicts: tuple[int, ...] = ()
    type: str = ""


class Config(Record, frozen=True):
    """The ConfigMap composable-dra-dds. `mode`: the kill switch, which can only lower the policy's mode."""

    uid: str
    prefix: str = "cohdi.io"
    models: tuple[Model, ...] = ()
    fabrics: tuple[int, ...] = ()
    mode: str = ""


def text_attribute(device: Device, driver: str, name: str) -> str:
    """A string attribute by its plain or driver-qualified name; "" when absent or not a string (never a match)."""
    value = device.attributes.get(name)
    if isinstance(value, str) and value:
        return value
    value = device.attributes.get(f"{driver}/{name}")
    return value if isinstance(value, str) else ""


def model_of_device(config: Config, driver: str, device: Device) -> Model | None:
    """The model whose dra-attributes the device has; empty attributes (a pool's `uuid: ""`) do not count."""
    return next((model for model in config.models if model.driver == driver and is_of(model, device)), None)


def is_of(model: Model, device: Device) -> bool:
    wanted = {name: value for name, value in model.attributes.items() if value}
    return bool(wanted) and all(text_attribute(device, model.driver, n) == v for n, v in wanted.items())


class AttachRequest(Record, frozen=True):
    """A ComposabilityRequest: so many devices of a model on a node. `acted_size`: status.scalarResource.size, the size
    that the operator last acted on. `planned`: names of the resources that it keeps or makes (status.resources); None if
    unknown."""

    uid: str
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] = {}
    created: int = 0
    deleting: bool = False
    type: str = ""
    model: str = ""
    size: int = 0
    policy: str = "samenode"
    node: str = ""
    force: bool = False
    state: str = ""
    error: str = ""
    acted_size: int | None = None
    planned: tuple[str, ...] | None = None

    @property
    def done(self) -> bool:
        """Whether the operator says that it has made, or taken off, what the size asks for."""
        return self.state == "Running" and self.acted_size == self.size


@lru_cache(maxsize=8192)
def request_name(node: str, type: str, model: str) -> str:
    """Name of dds's request for a cell: readable, stable, unique by a hash of (node, type, model)."""
    digest = hashlib.sha256("\0".join((node, type, model)).encode()).hexdigest()[:10]
    slug = _SLUG.sub("-", f"{node}-{model}".lower()).strip("-")[:45].strip("-")
    return f"dds-{slug}-{digest}"


_SLUG = re.compile(r"[^a-z0-9]+")


ONLINE, RESOURCE_ATTACHING = "Online", "Attaching"
"""States of a ComposableResource whose device is attached and seen by the operator, or on its way."""
BEING_ATTACHED = ("", RESOURCE_ATTACHING)
RESOURCE_DETACHING = "Detaching"
"""State of a ComposableResource whose device is still on its node, but about to leave."""
GOING = (RESOURCE_DETACHING, "Deleting")
"""States of a ComposableResource whose device is on its way back; the operator no longer counts it."""


class FabricResource(Record, frozen=True):
    """A ComposableResource: one device that is attached, being attached or being detached. `request`: name of its
    AttachRequest. `uuid`: status.device_id. `marked`: annotation cohdi.io/delete-device. `detach_only`: label of
    detach-only objects."""

    uid: str
    name: str = ""
    request: str = ""
    created: int = 0
    deleting: bool = False
    type: str = ""
    model: str = ""
    node: str = ""
    state: str = ""
    error: str = ""
    uuid: str = ""
    fabric_id: str = ""
    marked: bool = False
    detach_only: bool = False

    @property
    def leaving(self) -> bool:
        """Whether the device is on its way back, or has left its node. The operator makes a detach-only object to take off a
        device that no other object names."""
        return self.deleting or self.state in GOING or self.detach_only


Observed = Claim | Slice | DeviceClass | TaintRule | Node | Pod | Config | AttachRequest | FabricResource
