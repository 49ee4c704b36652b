"""Decodes one raw object into a struct of the core, or raises a `Fault` that names the field and says what is wrong with it.

Decoding knows the forms of the API (resource.k8s.io v1, v1beta2 and v1beta1 side by side), and nothing of earlier objects. A
fault never quotes a value, since a wrong field can contain anything. For any object, however broken, `Fault` is the only
error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from dds_adapters.kubernetes.decode import raw_objects as raw_
from dds_adapters.kubernetes.decode.raw_objects import Object
from dds_core.errors import DdsError, InputError
from dds_core.matching import quantities
from dds_core.model import (
    FINISHED,
    GATED,
    IMPLICIT,
    OWNER,
    OWNER_LABEL,
    PUBLISHER,
    Allocation,
    Alternative,
    AttachRequest,
    CapacityPolicy,
    Claim,
    ClaimRequest,
    Condition,
    Constraint,
    Consumer,
    Device,
    DeviceClass,
    FabricResource,
    Node,
    Pod,
    Requirement,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)
from dds_core.text import scrub

# -- bytes to a raw struct ----------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$\.?(?P<where>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")

_Raw = TypeVar("_Raw", bound=Object)
_Any = TypeVar("_Any")


class Fault(DdsError):
    """A field of an object is not as expected: `field` is its path, `reason` what is wrong, without the value."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(reason, where=field)


def read(
    decoder: msgspec.json.Decoder[_Raw], raw: bytes, kind: str, versions: tuple[str, ...], namespaced: bool = False
) -> _Raw:
    """Decode an object of this kind, in one of these apiVersions, with uid and name. Raises Fault.

    Items of a list carry neither kind nor apiVersion: an absent one is not checked.
    """
    found = well_formed(decoder, raw)
    meta = found.metadata
    if found.kind and found.kind != kind:
        raise Fault("kind", f"is not {kind}")
    if found.api_version and found.api_version not in versions:
        raise Fault("apiVersion", f"is not {' or '.join(versions)}")
    if not meta.uid:
        raise Fault("metadata.uid", "is missing")
    if not meta.name:
        raise Fault("metadata.name", "is missing")
    if namespaced and not meta.namespace:
        raise Fault("metadata.namespace", "is missing")
    if not names(meta.uid):
        raise Fault("metadata.uid", "is too long, or has a character such as NUL that does not print")
    return found


def names(text: str) -> bool:
    """Whether a UID or name can be used: it names streams of the log, and a database takes no NUL."""
    return len(text) <= 253 and text.isprintable()


def well_formed(decoder: msgspec.json.Decoder[_Any], raw: bytes) -> _Any:
    """Decode the bytes; every error of the decoder becomes a Fault."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as e:
        raise _as_fault(e) from None
    except RecursionError:
        raise Fault("object", "is nested too deeply") from None
    except ValueError:  # not JSON, or not UTF-8; its message has a byte position, which would make each one a new fault
        raise Fault("object", "is not well-formed JSON") from None


def _as_fault(error: msgspec.ValidationError) -> Fault:
    """Take apart "Expected `int`, got `str` - at `$.spec.size`". For the types used here it never quotes a value."""
    place = _PLACE.match(str(error))
    assert place is not None  # the pattern matches any text
    field, what = place["where"] or "", place["what"]
    if missing := _MISSING.match(what):
        return Fault(f"{field}.{missing[1]}".lstrip("."), "is missing")
    return Fault(field or "object", what[:1].lower() + what[1:].replace("`", ""))


def instant(when: datetime | None) -> int:
    """Microseconds since 1970-01-01 UTC; 0 for none."""
    if when is None:
        return 0
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


# -- objects to records -------------------------------------------------------------------------------------------------

MANAGED_BY = "app.kubernetes.io/managed-by"
READY_TO_DETACH = "cohdi.io/ready-to-detach-device-id"
PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim."""

CORE = ("v1",)
DRA = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
TAINT_RULES = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")
OPERATOR = ("cro.hpsys.ibm.ie.com/v1alpha1",)

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_,:]{0,127}")


# -- one function per kind -------------------------------------------------------------------------


def claim(raw: bytes) -> Claim:
    """A ResourceClaim. Raises Fault."""
    found = read(raw_.claim, raw, "ResourceClaim", DRA, namespaced=True)
    meta = found.metadata
    spec = found.spec.devices if found.spec is not None else None
    status = found.status or _NO_STATUS
    return Claim(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        created=instant(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        extended=meta.annotations is not None and meta.annotations.extended_claim == "true",
        owner=next((owner.uid for owner in meta.owner_references or () if owner.kind == "Pod"), ""),
        requests=tuple([_request(i, one) for i, one in enumerate((spec and spec.requests) or ())]),
        constraints=tuple([_constraint(i, one) for i, one in enumerate((spec and spec.constraints) or ())]),
        allocation=_allocation(status.allocation) if status.allocation is not None else None,
        consumers=tuple([Consumer(c.uid, c.name, c.resource, c.api_group) for c in status.reserved_for or ()]),
        conditions=tuple(
            [
                Condition(d.driver, d.pool, d.device, c.type, c.status, d.share_id or "", _reason(c.reason))
                for d in status.devices or ()
                for c in d.conditions or ()
            ]
        ),
        config=_config_of(status.allocation) if status.allocation is not None else "",
        told=tuple(sorted({(d.driver, d.pool, d.device) for d in status.devices or ()})),
        protected=PROTECTION in (meta.finalizers or ()),
        hold=_held(meta, status),
    )


def _held(meta: raw_.Metadata, status: raw_.ClaimStatus) -> str:
    """The uid of the ComposableResource for which dds made this hold; "" for any other claim. A claim that is reserved for a pod
    is no hold, whatever its labels are."""
    if (meta.labels or {}).get(OWNER_LABEL) != OWNER:
        return ""
    if any(one.resource != "composableresources" for one in status.reserved_for or ()):
        return ""
    return next((owner.uid for owner in meta.owner_references or () if owner.kind == "ComposableResource"), "")


def resource_slice(raw: bytes) -> Slice:
    """A ResourceSlice. Raises Fault."""
    found = read(raw_.slice_, raw, "ResourceSlice", DRA)
    spec = found.spec
    selector = requirements("spec.nodeSelector", spec.node_selector) if spec.node_selector is not None else ()
    node = spec.node_name or single_node(spec.node_selector)
    return Slice(
        uid=found.metadata.uid,
        name=found.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=node,
        all_nodes=bool(spec.all_nodes),
        selector=() if node else selector,
        devices={name: _device(place, body) for name, place, body in bodies(spec.devices)},
        counters={one.name: _counters(one.counters) for one in spec.shared_counters or ()},
        owner=PUBLISHER if (found.metadata.labels or {}).get(MANAGED_BY) == PUBLISHER else "",
    )


def device_class(raw: bytes) -> DeviceClass:
    """A DeviceClass. Raises Fault."""
    found = read(raw_.device_class, raw, "DeviceClass", DRA)
    spec = found.spec or _NO_CLASS
    selectors, meta, resource = _selectors("spec", spec.selectors), found.metadata, spec.extended_resource_name or ""
    created = instant(meta.creation_timestamp) if resource else 0
    return DeviceClass(meta.uid, meta.name, selectors, resource, created)


def taint_rule(raw: bytes) -> TaintRule:
    """A DeviceTaintRule. Raises Fault."""
    found = read(raw_.taint_rule, raw, "DeviceTaintRule", TAINT_RULES)
    meta, selector = found.metadata, found.spec.device_selector or _NO_SELECTOR
    if selector.device_class_name or selector.selectors:
        raise Fault("spec.deviceSelector", "selects by class or CEL, which is not understood")
    return TaintRule(
        uid=meta.uid,
        name=meta.name,
        driver=selector.driver or "",
        pool=selector.pool or "",
        device=selector.device or "",
        taint=_taint(found.spec.taint),
        deleting=meta.deletion_timestamp is not None,
        selects=found.spec.device_selector is not None,
    )


def node(raw: bytes) -> Node:
    """A Node. Raises Fault."""
    found = read(raw_.node, raw, "Node", CORE)
    meta, spec = found.metadata, found.spec or _NO_NODE
    return Node(
        uid=meta.uid,
        name=meta.name,
        labels=meta.labels or {},
        taints=taints(spec.taints),
        unschedulable=spec.unschedulable,
        deleting=meta.deletion_timestamp is not None,
    )


def pod(raw: bytes) -> Pod:
    """A Pod; `refers_to_claims` says whether dds needs it. Raises Fault."""
    found = read(raw_.pod, raw, "Pod", CORE, namespaced=True)
    return pod_of(found.metadata, found.spec or _NO_POD, found.status or _NO_POD_STATUS)


def pod_of(meta: raw_.Metadata, spec: raw_.PodSpec, status: raw_.PodStatus) -> Pod:
    made = {one.name: one.resource_claim_name or "" for one in status.resource_claim_statuses or ()}
    extended = status.extended_resource_claim_status
    waiting = next(
        (
            _reason(condition.reason)
            for condition in status.conditions or ()
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        "",
    )
    refused = waiting not in ("", GATED) and not spec.node_name and status.phase not in FINISHED
    resources = _extended_resources(spec) if refused else {}
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        node=spec.node_name,
        nominated=status.nominated_node_name,
        phase=status.phase,
        scheduler=spec.scheduler_name,
        priority=spec.priority or 0,
        deleting=meta.deletion_timestamp is not None,
        claims=tuple(one.resource_claim_name or made.get(one.name, "") for one in spec.resource_claims or ()),
        extended_claim=extended.resource_claim_name if extended is not None else "",
        waiting=waiting,
        tolerations=_tolerations(spec.tolerations),
        extended_resources=resources,
        created=instant(meta.creation_timestamp) if resources else 0,
    )


def refers_to_claims(found: Pod) -> bool:
    """Whether a pod uses claims."""
    return bool(found.claims or found.extended_claim)


def is_extended(resource: str) -> bool:
    """Whether devices may serve the resource: one with a domain that is not Kubernetes' own, or the implicit one of a device
    class. A node's device plugin may serve the former as well."""
    if "/" not in resource:
        return False
    own = "kubernetes.io/" in resource or resource.startswith("requests.")
    return not own or resource.startswith(IMPLICIT)


def _extended_resources(spec: raw_.PodSpec) -> dict[str, int]:
    """How many of each the scheduler counts."""
    init, containers = spec.init_containers or (), spec.containers or ()
    if not any(is_extended(name) for one in (*init, *containers) for name in _requests(one)):  # usually
        return {}
    return dict(sorted(together(((is_sidecar(one), _asked(one)) for one in init), map(_asked, containers)).items()))


def together(init: Iterable[tuple[bool, Counter[str]]], containers: Iterable[Counter[str]]) -> Counter[str]:
    """The amounts that the scheduler counts of a pod's containers: all containers and sidecars together, or an init container and
    the sidecars started before it, if that is more
    (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers). `init`: of each
    whether it is a sidecar, and its amounts."""
    found, most = Counter[str](), Counter[str]()
    for sidecar, amounts in init:
        if sidecar:
            found += amounts
        else:
            most |= found + amounts
    for amounts in containers:
        found += amounts
    return most | found


def is_sidecar(init: raw_.Container) -> bool:
    return init.restart_policy == "Always"


def _requests(container: raw_.Container) -> raw_.Quantities:
    return (container.resources.requests if container.resources is not None else None) or {}


def _asked(container: raw_.Container) -> Counter[str]:
    found = Counter[str]()
    for name, amount in _requests(container).items():
        if is_extended(name):
            with suppress(InputError):  # the API server takes no such amount
                found[name] = quantities.parse(str(amount)).integer
    return +found


def attach_request(raw: bytes) -> AttachRequest:
    """A ComposabilityRequest. Raises Fault."""
    found = read(raw_.composability_request, raw, "ComposabilityRequest", OPERATOR)
    meta, wanted, status = found.metadata, found.spec.resource, found.status or _NO_REQUEST_STATUS
    acted_size = status.scalar_resource.size if status.scalar_resource is not None else None
    return AttachRequest(
        uid=meta.uid,
        name=meta.name,
        generate_name=meta.generate_name,
        labels=meta.labels or {},
        created=instant(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        type=wanted.type,
        model=wanted.model,
        size=wanted.size,
        policy=wanted.allocation_policy,
        node=wanted.target_node,
        force=wanted.force_detach,
        state=status.state,
        error=scrub(status.error),
        acted_size=acted_size,
        planned=tuple(sorted(status.resources or ())) if status.resources or acted_size == 0 else None,
    )


def fabric_resource(raw: bytes) -> FabricResource:
    """A ComposableResource. Raises Fault."""
    found = read(raw_.composable_resource, raw, "ComposableResource", OPERATOR)
    meta, spec, status = found.metadata, found.spec, found.status or _NO_RESOURCE_STATUS
    labels = meta.labels or {}
    return FabricResource(
        uid=meta.uid,
        name=meta.name,
        request=labels.get(MANAGED_BY, ""),
        created=instant(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        type=spec.type,
        model=spec.model,
        node=spec.target_node,
        state=status.state,
        error=scrub(status.error),
        uuid=status.device_id,
        fabric_id=status.cdi_device_id,
        marked=meta.annotations is not None and meta.annotations.delete_device == "true",
        detach_only=READY_TO_DETACH in labels,
    )


_NO_STATUS = raw_.ClaimStatus()
_NO_CLASS = raw_.ClassSpec()
_NO_SELECTOR = raw_.DeviceSelector()
_NO_NODE = raw_.NodeSpec()
_NO_POD = raw_.PodSpec()
_NO_POD_STATUS = raw_.PodStatus()
_NO_REQUEST_STATUS = raw_.RequestStatus()
_NO_RESOURCE_STATUS = raw_.ResourceStatus()

# -- parts of a claim ------------------------------------------------------------------------------


def _reason(text: str) -> str:
    """The API wants a CamelCase word here; any other text is scrubbed."""
    return text if not text or _REASON.fullmatch(text) else scrub(text)


def _request(index: int, found: raw_.RawRequest) -> ClaimRequest:
    place = f"spec.devices.requests[{index}]"
    if not found.name:
        raise Fault(f"{place}.name", "is missing")
    wanted: tuple[raw_.Exactly, ...]
    if found.exactly is not None:
        wanted = (found.exactly,)
    elif found.first_available:
        wanted = found.first_available
    elif found.device_class_name:  # v1beta1
        wanted = (found,)
    else:
        raise Fault(place, "is of a kind that is not known (neither exactly nor firstAvailable)")
    return ClaimRequest(found.name, alternatives=tuple([_alternative(place, found.name, one) for one in wanted]))


def _alternative(place: str, request: str, found: raw_.Exactly) -> Alternative:
    if not found.device_class_name:
        raise Fault(f"{place}.deviceClassName", "is missing")
    if found.allocation_mode not in ("", "ExactCount", "All"):
        raise Fault(f"{place}.allocationMode", "is not ExactCount or All")
    capacity = found.capacity.requests if found.capacity is not None else None
    return Alternative(
        found.device_class_name,
        found.name if found.name != request or not isinstance(found, raw_.RawRequest) else "",
        selectors=_selectors(place, found.selectors),
        count=max(1, found.count),
        all=found.allocation_mode == "All",
        admin=bool(found.admin_access),
        tolerations=_tolerations(found.tolerations),
        capacity={name: _quantity(f"{place}.capacity", text) for name, text in (capacity or {}).items()},
    )


def _selectors(place: str, found: tuple[raw_.Selector, ...] | None) -> tuple[str, ...]:
    for i, one in enumerate(found or ()):
        if one.cel is None:
            raise Fault(f"{place}.selectors[{i}]", "is of a kind that is not known (cel is missing)")
    return tuple([one.cel.expression for one in found or () if one.cel is not None])


def _tolerations(found: tuple[raw_.RawToleration, ...] | None) -> tuple[Toleration, ...]:
    return tuple([Toleration(one.key, one.operator or "Equal", one.value, one.effect) for one in found or ()])


def _constraint(index: int, found: raw_.RawConstraint) -> Constraint:
    if not (found.match_attribute or found.distinct_attribute):
        raise Fault(f"spec.devices.constraints[{index}]", "is of a kind that is not known")
    return Constraint(found.requests or (), found.match_attribute, found.distinct_attribute)


def _allocation(found: raw_.RawAllocation) -> Allocation:
    node = single_node(found.node_selector)
    results = found.devices.results if found.devices is not None else None
    return Allocation(
        results=tuple([_result(one) for one in results or ()]),
        node=node,
        selector="" if node or found.node_selector is None else _canonical_json.encode(found.node_selector).decode(),
        timestamp=None if found.allocation_timestamp is None else instant(found.allocation_timestamp),
    )


def _result(found: raw_.RawResult) -> Result:
    return Result(
        found.request,
        found.driver,
        found.pool,
        found.device,
        found.binding_conditions or (),
        found.binding_failure_conditions or (),
        found.share_id or "",
        found.consumed_capacity or {},
        bool(found.admin_access),
    )


def _config_of(found: raw_.RawAllocation) -> str:
    written = (found.devices.config if found.devices is not None else None) or ()
    try:
        return config_digest(msgspec.json.decode(one) for one in written)
    except (ValueError, RecursionError):  # only the driver must understand it, so this is no fault
        return config_digest(bytes(one).decode("utf-8", "replace") for one in written)


def config_digest(entries: Iterable[Any]) -> str:
    """A digest of an allocation's configuration, which may contain a driver's secrets: the first 16 hex digits of the SHA-256 of
    its canonical JSON; "" for no configuration."""
    found = list(entries)
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16] if found else ""


# -- node selectors --------------------------------------------------------------------------------

_canonical_json = msgspec.json.Encoder(order="deterministic")


def single_node(selector: raw_.NodeSelector | None) -> str:
    """The node if the selector is exactly one `metadata.name In [node]`; else ""."""
    if selector is None or selector.node_selector_terms is None or len(selector.node_selector_terms) != 1:
        return ""
    fields = selector.node_selector_terms[0].match_fields
    if fields is None or len(fields) != 1:
        return ""
    only = fields[0]
    if only.key != "metadata.name" or only.operator != "In" or only.values is None or len(only.values) != 1:
        return ""
    return only.values[0]


def requirements(place: str, selector: raw_.NodeSelector) -> tuple[Requirement, ...]:
    """The expressions of a selector with one term. Raises Fault for any other."""
    terms = selector.node_selector_terms or ()
    if len(terms) != 1:
        raise Fault(f"{place}.nodeSelectorTerms", "must be exactly one term")
    both = (*(terms[0].match_expressions or ()), *(terms[0].match_fields or ()))
    return tuple([Requirement(one.key, one.operator, one.values or ()) for one in both])


# -- devices and taints ----------------------------------------------------------------------------


def bodies(devices: tuple[raw_.RawDevice, ...] | None) -> Iterator[tuple[str, str, raw_.DeviceBody]]:
    """The devices of a slice: name, place and attributes, unwrapped from v1beta1's `basic`. Raises Fault."""
    seen: set[str] = set()
    for position, one in enumerate(devices or ()):
        place = f"spec.devices[{position}]"
        if not one.name or one.name in seen:
            raise Fault(f"{place}.name", "another device of the slice has it" if one.name else "is missing")
        seen.add(one.name)
        yield one.name, place, one.basic or one


def _device(place: str, found: raw_.DeviceBody) -> Device:
    capacity = found.capacity or {}
    return Device(
        attributes=_attributes(place, found.attributes) if found.attributes else {},
        versions=tuple(sorted([name for name, one in (found.attributes or {}).items() if one.version is not None])),
        capacity={name: _quantity(f"{place}.capacity", one.value) for name, one in capacity.items()},
        policies={name: _policy(one.request_policy) for name, one in capacity.items() if one.request_policy},
        binding=found.binding_conditions or (),
        failure=found.binding_failure_conditions or (),
        shared=bool(found.allow_multiple_allocations),
        taints=taints(found.taints),
        node=found.node_name or single_node(found.node_selector),
        consumes={one.counter_set: _counters(one.counters) for one in found.consumes_counters or ()},
    )


def _counters(found: dict[str, raw_.RawCounter] | None) -> dict[str, str]:
    return {name: _quantity("counters", one.value) for name, one in (found or {}).items()}


def _policy(found: raw_.RequestPolicy) -> CapacityPolicy:
    bounds = found.valid_range
    known = (bounds.min, bounds.max, bounds.step) if bounds is not None else ("", "", "")
    values = found.valid_values or ()
    for text in (found.default, *values, *known):
        if text:
            _quantity("requestPolicy", text)
    return CapacityPolicy(found.default, values, bounds is not None, *known)


def _quantity(place: str, text: str) -> str:
    try:
        quantities.parse(text)
    except InputError:
        raise Fault(place, "is no quantity") from None
    return text


def _attributes(place: str, found: dict[str, raw_.RawAttribute]) -> dict[str, str | int | bool]:
    """The scalar attributes. An attribute of an unknown type (a list, or a newer type) is left out."""
    read_: dict[str, str | int | bool] = {}
    for name, one in found.items():
        values = [v for v in (one.string, one.version, one.whole, one.truth) if v is not None]
        if len(values) > 1:
            raise Fault(f"{place}.attributes", "one of them has more than one type")
        if values:
            read_[name] = values[0]
    return read_


def _taint(found: raw_.RawTaint) -> Taint:
    return Taint(found.key, found.value, found.effect)


def taints(found: tuple[raw_.RawTaint, ...] | None) -> tuple[Taint, ...]:
    return tuple([_taint(one) for one in found]) if found else ()
