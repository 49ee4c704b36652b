"""The raw Kubernetes JSON, as far as dds reads it: one msgspec struct for each part, one decoder for each resource.

The parser skips a field that is not declared here, so that it never becomes a Python object. Unknown fields are allowed (the API
grows); a declared field of another type is an error. `null` stands for an absent list, map or object, as Go writes it. No struct
may declare a Secret or an environment value. A device's opaque configuration stays raw text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Instant = Annotated[datetime, Meta(tz=True)]


class Part(Struct, rename="camel", gc=False, frozen=True):
    """Base of the parts that the API names in camelCase."""


class SnakePart(Struct, gc=False, frozen=True):
    """Base of the composable-resource operator's types, which use snake_case."""


# -- metadata --------------------------------------------------------------------------------------


class Owner(Part, frozen=True):
    kind: str = ""
    uid: str = ""


class Annotations(Struct, gc=False, frozen=True):
    """The two annotations that dds reads. Others (such as a whole applied manifest, with its environment) are skipped."""

    extended_claim: str = field(name="resource.kubernetes.io/extended-resource-claim", default="")
    delete_device: str = field(name="cohdi.io/delete-device", default="")


class Metadata(Part, frozen=True):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    owner_references: tuple[Owner, ...] | None = None


class Object(Part, frozen=True):
    """Base of the objects; items of a list carry no kind and no apiVersion."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


class RawTaint(Part, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class RawRequirement(Part, frozen=True, omit_defaults=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class Term(Part, frozen=True, omit_defaults=True):
    match_expressions: tuple[RawRequirement, ...] | None = None
    match_fields: tuple[RawRequirement, ...] | None = None


class NodeSelector(Part, frozen=True, omit_defaults=True):
    node_selector_terms: tuple[Term, ...] | None = None


# -- resource.k8s.io -------------------------------------------------------------------------------


class CelSelector(Part, frozen=True):
    expression: str


class Selector(Part, frozen=True):
    """A selector of a class or a request."""

    cel: CelSelector | None = None


class RawToleration(Part, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class AskedCapacity(Part, frozen=True):
    requests: dict[str, str] | None = None


class Exactly(Part, frozen=True):
    """What a request, or one alternative of it, asks for; an alternative has a name."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[Selector, ...] | None = None
    allocation_mode: str = ""
    count: Count = 0
    admin_access: bool | None = None
    tolerations: tuple[RawToleration, ...] | None = None
    capacity: AskedCapacity | None = None


class RawRequest(Exactly, frozen=True):
    """A request; in v1beta1 the fields of `exactly` are fields of the request itself."""

    exactly: Exactly | None = None
    first_available: tuple[Exactly, ...] | None = None


class RawConstraint(Part, frozen=True):
    requests: tuple[str, ...] | None = None
    match_attribute: str = ""
    distinct_attribute: str = ""


class ClaimDevices(Part, frozen=True):
    requests: tuple[RawRequest, ...] | None = None
    constraints: tuple[RawConstraint, ...] | None = None


class ClaimSpec(Part, frozen=True):
    devices: ClaimDevices | None = None


class RawResult(Part, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: dict[str, str] | None = None


class AllocatedDevices(Part, frozen=True):
    """`config` stays raw: only a digest of it is made, since it may contain a driver's secrets."""

    results: tuple[RawResult, ...] | None = None
    config: tuple[msgspec.Raw, ...] | None = None


class RawAllocation(Part, frozen=True):
    devices: AllocatedDevices | None = None
    node_selector: NodeSelector | None = None
    allocation_timestamp: Instant | None = None


class RawConsumer(Part, frozen=True):
    uid: str
    resource: str
    name: str = ""
    api_group: str = ""


class RawCondition(Part, frozen=True):
    type: str
    status: str
    reason: str = ""


class DeviceStatus(Part, frozen=True):
    driver: str
    pool: str
    device: str
    share_id: str | None = field(name="shareID", default=None)
    conditions: tuple[RawCondition, ...] | None = None


class ClaimStatus(Part, frozen=True):
    allocation: RawAllocation | None = None
    reserved_for: tuple[RawConsumer, ...] | None = None
    devices: tuple[DeviceStatus, ...] | None = None


class ClaimMetadata(Metadata, frozen=True):
    finalizers: tuple[str, ...] | None = None


class RawClaim(Object, frozen=True, kw_only=True):
    metadata: ClaimMetadata
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class RawAttribute(Part, frozen=True):
    """One of; the list types of 1.36 (ints, bools, strings, versions) are not read."""

    string: str | None = None
    version: str | None = None
    whole: Int64 | None = field(name="int", default=None)
    truth: bool | None = field(name="bool", default=None)


class RawCounter(Part, frozen=True):
    value: str


class ValidRange(Part, frozen=True):
    min: str = ""
    max: str = ""
    step: str = ""


class RequestPolicy(Part, frozen=True):
    default: str = ""
    valid_values: tuple[str, ...] | None = None
    valid_range: ValidRange | None = None


class RawCapacity(RawCounter, frozen=True):
    request_policy: RequestPolicy | None = None


class RawConsumption(Part, frozen=True):
    counter_set: str
    counters: dict[str, RawCounter] | None = None


class CounterSet(Part, frozen=True):
    name: str
    counters: dict[str, RawCounter] | None = None


class DeviceBody(Part, frozen=True):
    attributes: dict[str, RawAttribute] | None = None
    capacity: dict[str, RawCapacity] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    taints: tuple[RawTaint, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None
    consumes_counters: tuple[RawConsumption, ...] | None = None


class RawDevice(DeviceBody, frozen=True):
    """A device; in v1beta1 all but the name is wrapped in `basic`."""

    name: str = ""
    basic: DeviceBody | None = None


class RawPool(Part, frozen=True):
    name: str
    generation: Count = 0
    resource_slice_count: Count = 1


class SliceSpec(Part, frozen=True):
    driver: str
    pool: RawPool
    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: NodeSelector | None = None
    devices: tuple[RawDevice, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class RawSlice(Object, frozen=True, kw_only=True):
    spec: SliceSpec


class ClassSpec(Part, frozen=True):
    selectors: tuple[Selector, ...] | None = None
    extended_resource_name: str | None = None


class RawDeviceClass(Object, frozen=True, kw_only=True):
    spec: ClassSpec | None = None


class DeviceSelector(Part, frozen=True):
    """`deviceClassName` and `selectors` are of v1alpha3 before 1.35 and narrow the rule further."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[Selector, ...] | None = None


class TaintRuleSpec(Part, frozen=True):
    taint: RawTaint
    device_selector: DeviceSelector | None = None


class RawTaintRule(Object, frozen=True, kw_only=True):
    spec: TaintRuleSpec


# -- core/v1 ---------------------------------------------------------------------------------------


class NodeSpec(Part, frozen=True):
    taints: tuple[RawTaint, ...] | None = None
    unschedulable: bool = False


class RawNode(Object, frozen=True, kw_only=True):
    spec: NodeSpec | None = None


class PodClaim(Part, frozen=True):
    name: str
    resource_claim_name: str | None = None


Quantities = dict[str, str | int | float]


class Resources(Part, frozen=True):
    requests: Quantities | None = None


class Container(Part, frozen=True):
    resources: Resources | None = None
    restart_policy: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    resource_claims: tuple[PodClaim, ...] | None = None
    tolerations: tuple[RawToleration, ...] | None = None
    priority: Int64 | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None


class PodCondition(Part, frozen=True):
    type: str
    status: str
    reason: str = ""


class ExtendedClaim(Part, frozen=True):
    resource_claim_name: str = ""


class PodStatus(Part, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    resource_claim_statuses: tuple[PodClaim, ...] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None


class RawPod(Object, frozen=True, kw_only=True):
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ConfigData(Struct, gc=False, frozen=True):
    device_info: str | None = field(name="device-info", default=None)
    label_prefix: str | None = field(name="label-prefix", default=None)
    fabric_id_range: str | None = field(name="fabric-id-range", default=None)
    mode: str | None = None


class RawConfigMap(Object, frozen=True, kw_only=True):
    data: ConfigData | None = None


# -- cro.hpsys.ibm.ie.com --------------------------------------------------------------------------


class ScalarResource(SnakePart, frozen=True):
    type: str
    model: str
    size: Count
    force_detach: bool = False
    allocation_policy: str = "samenode"
    target_node: str = ""


class RequestSpec(SnakePart, frozen=True):
    resource: ScalarResource


class ActedOn(SnakePart, frozen=True):
    size: Count = 0


class RequestStatus(Part, frozen=True):
    state: str = ""
    error: str = ""
    scalar_resource: ActedOn | None = None
    resources: dict[str, msgspec.Raw] | None = None


class RawComposabilityRequest(Object, frozen=True, kw_only=True):
    spec: RequestSpec
    status: RequestStatus | None = None


class ResourceSpec(SnakePart, frozen=True):
    type: str
    model: str
    target_node: str


class ResourceStatus(SnakePart, frozen=True):
    state: str = ""
    error: str = ""
    device_id: str = ""
    cdi_device_id: str = ""


class RawComposableResource(Object, frozen=True, kw_only=True):
    spec: ResourceSpec
    status: ResourceStatus | None = None


# -- decoders --------------------------------------------------------------------------------------

claim = msgspec.json.Decoder(RawClaim)
slice_ = msgspec.json.Decoder(RawSlice)
device_class = msgspec.json.Decoder(RawDeviceClass)
taint_rule = msgspec.json.Decoder(RawTaintRule)
node = msgspec.json.Decoder(RawNode)
pod = msgspec.json.Decoder(RawPod)
config_map = msgspec.json.Decoder(RawConfigMap)
composability_request = msgspec.json.Decoder(RawComposabilityRequest)
composable_resource = msgspec.json.Decoder(RawComposableResource)
