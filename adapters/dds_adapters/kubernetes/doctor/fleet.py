"""Checks of what is in the cluster: other scalers and publishers, classes and claims, nodes and pools."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.decode.decoding import MANAGED_BY
from dds_adapters.kubernetes.doctor.api_server import pool_slices
from dds_adapters.kubernetes.doctor.context import ExaminationContext, instant_of
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, several, unknown, warning
from dds_core.matching import cel
from dds_core.matching.devices import differences, view_of
from dds_core.matching.errors import SelectorError
from dds_core.matching.from_api import read_claim, read_class, read_device
from dds_core.model import (
    FAILED_CONDITION,
    OWNER,
    OWNER_LABEL,
    RESCHEDULE,
    Alternative,
    Claim,
    Config,
    Device,
    DeviceClass,
    Node,
    Slice,
    is_of,
    text_attribute,
)
from dds_core.publisher.describe import device_of
from dds_core.publisher.model import PoolModel
from dds_core.scaler.model import gather

# -- who wrote an object -------------------------------------------------------------------------------------------------


class _Owned(msgspec.Struct):
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="f:spec", default=msgspec.UNSET)


class ManagedField(msgspec.Struct):
    """The fields that one manager owns, as far as the doctor reads them."""

    manager: str = ""
    time: str = ""
    fields: _Owned = msgspec.field(name="fieldsV1", default_factory=_Owned)


def writers(fields: list[ManagedField] | None) -> list[str]:
    """Managers that own a part of the spec by managedFields; those that only set a finalizer, a label or a status are left out.
    Good enough to tell people, but not for decisions."""
    return [foreign(one.manager) for one in _of_spec(fields)]


def _of_spec(fields: list[ManagedField] | None) -> list[ManagedField]:
    return [one for one in fields or () if one.manager and one.fields.spec is not msgspec.UNSET]


# -- other scalers -------------------------------------------------------------------------------------------------------

_BESIDE = "beside"
REFERENCE_LEASE = "2313b367.co.hdi"
"""Name of the reference scaler's Lease if it is started with --leader-elect."""
DEPLOYMENT = "dds-controller-manager"
"""Name of the reference scaler's Deployment in its chart."""
STALE = 300_000_000
"""Microseconds after its last renewal from which a Lease counts as abandoned."""
LATELY = 3600_000_000
"""Microseconds within which a write shows that its writer is at work."""


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    managed_fields: list[ManagedField] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


_object = msgspec.json.Decoder(_Object)


def beside(context: ExaminationContext) -> Iterator[Finding]:
    """Other scalers: the reference by its Lease and Deployment, any other by requests without dds's label. Two scalers that act
    on the same claims undo each other's work."""
    mode = context.policy.mode
    say = note if mode == "observe" else warning
    mend = "run this one in mode observe beside it, or stop the other first"
    seen = unclear = False
    for name, path, works in (
        (
            f"Lease {REFERENCE_LEASE}",
            path_of("leases", "coordination.k8s.io/v1", context.namespace, REFERENCE_LEASE),
            _held,
        ),
        (f"Deployment {DEPLOYMENT}", path_of("deployments", "apps/v1", context.namespace, DEPLOYMENT), _wanted),
    ):
        try:
            spec = context.decoded(path, context.get(path)).get("spec") or {}
        except Refused as refused:
            unclear |= refused.code != 404
            continue
        if works(spec, context.now()):
            seen = True
            holder = foreign(str(spec.get("holderIdentity") or ""))
            held = f", held by {holder}" if holder else ""
            yield say(_BESIDE, f"the reference scaler seems to run: {name} in {context.namespace}{held}", mend)
    others = _requesters(context)
    lately = {name for name, at in others.items() if context.now() - at < LATELY}
    if lately:
        what = f"a second scaler is at work: {several(lately)} wrote requests for devices within the last hour"
        yield say(_BESIDE, what, mend)
    if others.keys() - lately:
        yield note(
            _BESIDE,
            f"requests for devices were made by others too: {several(others.keys() - lately)}",
            "see `adoption` in the policy",
        )
    if unclear and not seen:
        yield unknown(_BESIDE, "whether the reference scaler runs could not be seen (not permitted)")
    elif not seen and not others:
        yield ok(_BESIDE, f"no other scaler was found in {context.namespace}")


def _held(lease: dict[str, Any], now: int) -> bool:
    """Whether it was renewed lately, as far as it shows."""
    renewed = instant_of(lease.get("renewTime"))
    return bool(lease.get("holderIdentity")) and (renewed is None or now - renewed < STALE)


def _wanted(deployment: dict[str, Any], now: int) -> bool:
    """Whether it should have pods."""
    return deployment.get("replicas") != 0


def _requesters(context: ExaminationContext) -> dict[str, int]:
    """Who wrote the requests without dds's label, and when last (0: unknown); empty if they cannot be listed."""
    names: dict[str, int] = {}
    try:
        requests = context.everything("composabilityrequests")
    except Refused:
        return names
    for raw in requests:
        try:
            meta = _object.decode(raw).metadata
        except msgspec.DecodeError:
            continue
        if (meta.labels or {}).get(OWNER_LABEL) != OWNER:
            name = next(iter(writers(meta.managed_fields)), "somebody who left no name")
            wrote = (instant_of(one.time) for one in _of_spec(meta.managed_fields))
            names[name] = max([names.get(name, 0), *filter(None, wrote)])
    return names


# -- classes and claims --------------------------------------------------------------------------------------------------

_CLASSES = "classes"
_NO_KEY = "no such key"


def classes(context: ExaminationContext) -> Iterator[Finding]:
    """Every class against a device of every model, as device-info has it published. A selector on a value that the device does
    not have is not a mismatch but a run-time error, at which the scheduler gives up the whole pod (structured allocator of
    Kubernetes 1.36; D13)."""
    found = _classes(context)
    for model in context.pools_or_usual().models:
        yield from _of_model(model, _view(model), found)


def claims(context: ExaminationContext) -> Iterator[Finding]:
    """The claims' own selectors, for the models that their class chooses."""
    check, models, found = "claims", context.pools_or_usual().models, _classes(context)
    views = {model.model: _view(model) for model in models}
    choosing = {name: {one.name for one in found if _surely(one.selectors, view)} for name, view in views.items()}
    wrong, apart = defaultdict[tuple[str, str], list[str]](list), defaultdict[tuple[str, str], list[str]](list)
    number = 0
    for raw in context.objects("resourceclaims"):
        claim = read_claim(msgspec.json.decode(raw))
        number += 1
        for request, one in ((each.name, choice) for each in claim.requests for choice in each.alternatives):
            for name, view in views.items():
                if one.device_class not in choosing[name]:
                    continue
                if reason := _unsaid(one, view):
                    wrong[name, reason].append(claim.path)
                qualified = {
                    attribute if "/" in attribute else f"{view.driver}/{attribute}" for attribute in view.attributes
                }
                for attribute in _compared(claim, one.named(request)) - qualified:
                    apart[name, attribute].append(claim.path)
    for (name, reason), some in sorted(wrong.items()):
        asked = f"a device of {name} is asked for what it does not say ({reason[:120]})"
        what = f"{asked} by {several(some)}: their pods are given up when they come to the pool"
        yield warning(check, what, "add it to attributes or capacity of the model in device-info, or mend the claims")
    for (name, attribute), some in sorted(apart.items()):
        asked = f"{several(some)} compares {attribute} of a device of {name} with others (constraints)"
        what = f"{asked}, which no pool device says: none is ever taken from the pool for it"
        mend = "leave such devices out of the constraint; where a device will sit is known only when it is attached"
        yield warning(check, what, mend)
    if not wrong and not apart and models:
        yield ok(check, f"{many(number, 'claim')} looked at: none asks for what pool devices do not say")


def _compared(claim: Claim, result: str) -> set[str]:
    """The attributes that constraints of the claim compare of the devices in results of this name."""
    return {each.match or each.distinct for each in claim.constraints if each.concerns(result)} - {""}


def _classes(context: ExaminationContext) -> list[DeviceClass]:
    found = [read_class(msgspec.json.decode(raw)) for raw in context.everything("deviceclasses")]
    return sorted(found, key=lambda one: one.name)


def _surely(selectors: tuple[str, ...], device: cel.DeviceView) -> bool:
    with suppress(SelectorError):
        return _selects(selectors, device)
    return False


def _unsaid(one: Alternative, device: cel.DeviceView) -> str:
    """What its selectors ask for that the device does not have, "" for nothing."""
    try:
        _selects(one.selectors, device)
    except SelectorError as problem:
        return problem.reason if _NO_KEY in problem.reason else ""
    return ""


def _of_model(model: PoolModel, device: cel.DeviceView, found: list[DeviceClass]) -> Iterator[Finding]:
    chosen = []
    for one in found:
        try:
            if _selects(one.selectors, device):
                chosen.append(one.name)
        except SelectorError as problem:
            yield _failed(model, one, problem)
    if chosen:
        yield ok(_CLASSES, f"{model.model}: its devices are chosen by {several(chosen)}")
    else:
        what = f"{model.model}: no DeviceClass chooses its devices, so no claim can ask for them"
        yield note(_CLASSES, what, "make a DeviceClass whose selectors fit what device-info says of the model")


def _selects(selectors: tuple[str, ...], device: cel.DeviceView) -> bool:
    """Evaluate selectors up to the first that does not fit, like the scheduler. Raises SelectorError."""
    return all(cel.compile(text).matches(device) for text in selectors)


def _failed(model: PoolModel, one: DeviceClass, problem: SelectorError) -> Finding:
    if _NO_KEY not in problem.reason:
        return unknown(_CLASSES, f"DeviceClass {one.name} on {model.model}: {problem.reason[:160]}", problem.fix)
    say = error if model.driver in problem.expression else warning  # else it may be a class for other drivers
    what = (
        f"DeviceClass {one.name} asks a device of {model.model} for what it does not say ({problem.reason[:120]}): "
        "the scheduler gives up every pod of the class that comes to look at the pool"
    )
    return say(_CLASSES, what, "add it to attributes or capacity of the model in device-info, typed as the class asks")


def _view(model: PoolModel) -> cel.DeviceView:
    """A device of the model for a selector."""
    return view_of(read_device(device_of(model, "example")), model.driver)


# -- nodes -------------------------------------------------------------------------------------------------------------

_LIMIT = re.compile(r"(.+)-size-(max|min)")
_NUMBER = re.compile(r"[0-9]{1,9}")


def nodes(context: ExaminationContext) -> Iterator[Finding]:
    """The label of the fabric, and the labels that limit a model."""
    config = context.config_or_usual()
    label, found = f"{config.prefix}/fabric", context.nodes()
    on = [one for one in found if label in one.labels]
    if on:
        yield ok("nodes", f"{len(on)} of {len(found)} nodes have the label {label}")
    elif context.publishing is not None and context.publishing.label_nodes:
        yield note("nodes", f"none of {len(found)} nodes has the label {label} yet: the publisher writes it")
    else:
        mend = "let the publisher label the nodes of each fabric, or see that label-prefix is right"
        yield error(
            "nodes", f"none of {len(found)} nodes has the label {label}: nothing can be attached anywhere", mend
        )
    for node in sorted(on, key=lambda one: one.name):
        yield from _fabric(node, label, config)
    for node in sorted(found, key=lambda one: one.name):
        yield from _limits(node, config)


def _fabric(node: Node, label: str, config: Config) -> Iterator[Finding]:
    value = node.labels[label]
    if not _NUMBER.fullmatch(value):
        what = f"node {node.name}: {label} is no number"
        yield warning("nodes", what, "write the id of its fabric there")
    elif config.fabrics and int(value) not in config.fabrics:
        what = f"node {node.name}: {label}={value} is none of the fabrics in fabric-id-range"
        yield warning("nodes", what, "correct the label or the ConfigMap")


def _limits(node: Node, config: Config) -> Iterator[Finding]:
    """As the scaler reads them: a value that is no number counts as absent."""
    known = {model.device for model in config.models}
    limits: dict[str, dict[str, int]] = defaultdict(dict)
    for label, value in sorted(node.labels.items()):
        prefix, _, rest = label.rpartition("/")
        form = _LIMIT.fullmatch(rest)
        if prefix != config.prefix or form is None:
            continue
        if form[1] not in known:
            yield note("nodes", f"node {node.name}: {label} names no device of the ConfigMap", "remove or correct it")
        elif not _NUMBER.fullmatch(value):
            what = f"node {node.name}: {label} is no whole number and counts as absent"
            yield warning("nodes", what, "write decimal digits, such as 4")
        else:
            limits[form[1]][form[2]] = int(value)
    for device, ends in limits.items():
        if ends.get("min", 0) > ends.get("max", ends.get("min", 0)):
            what = f"node {node.name}: {device} has a minimum of {ends['min']} above its maximum of {ends['max']}"
            yield warning("nodes", what, "correct its labels -size-min and -size-max")


# -- pools -------------------------------------------------------------------------------------------------------------


def pools(context: ExaminationContext) -> Iterator[Finding]:
    """Each pool of the configured models: complete, with binding conditions and the failure condition of a hand-over."""
    slices: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    for one in pool_slices(context):
        slices[one.driver, one.pool].append(one)
    for (_, name), some in sorted(slices.items()):
        pool = gather(some)
        if pool is None:
            continue
        if not pool.usable:
            what = f"pool {name} is incomplete in generation {pool.generation}: the scheduler takes nothing from it"
            yield error(
                "pools", what, "see why the publisher does not finish; two publishers on one driver do this too"
            )
        faults = _unusable(name, list(pool.devices.values()))
        yield from faults
        if pool.usable and not faults:
            yield ok("pools", f"pool {name} is complete: {many(len(pool.devices), 'device')}")


def promises(context: ExaminationContext) -> Iterator[Finding]:
    """What the pools promise against what drivers list on nodes, by product. Who asks for a promised value that no device has is
    allocated from the pool, and gets no device that comes."""
    check, slices, told = "promises", context.slices(), False
    for model in context.config_or_usual().models:
        pools = [one for one in pool_slices(context) if one.driver == model.driver]
        shown = (one for each in pools for one in each.devices.values() if is_of(model, one))
        promised, product = next(shown, None), model.attributes.get("productName", "")
        on_nodes = [(one.node, name, device) for one in slices if one.node for name, device in one.devices.items()]
        alike = [one for one in on_nodes if product and text_attribute(one[2], model.driver, "productName") == product]
        for node, name, device in alike if promised is not None else ():
            assert promised is not None
            told = True
            if differ := differences(promised, device):
                mend = "write in device-info what the driver lists"
                yield warning(check, f"the pools of {model.model} promise {'; '.join(differ)} ({name} on {node})", mend)
                break
        else:
            if alike and promised is not None:
                yield ok(check, f"{model.model}: its pools promise what drivers list for {product}")
    if not told:
        yield note(check, "no device of a pool's product is on a node yet, so promises cannot be compared")


def _unusable(name: str, devices: list[Device]) -> list[Finding]:
    found = []
    bare = sum(not one.binding for one in devices)
    if bare:
        what = f"pool {name}: {bare} devices have no binding conditions, pods would start without them"
        found.append(
            error("pools", what, "see the finding about binding conditions, then let the publisher publish anew")
        )
    waited = [one for one in devices if one.binding]
    for condition, outcome, level in (
        (RESCHEDULE, "no pod can be handed over to an attached device", error),
        (FAILED_CONDITION, "an attach that fails is told by the time-out alone", warning),
    ):
        without = sum(condition not in one.failure for one in waited)
        if without:
            what = f"pool {name}: {without} devices do not list {condition}: {outcome}"
            found.append(level("pools", what, f"add {condition} to the publisher's bindingFailureConditions"))
    return found


# -- publishers --------------------------------------------------------------------------------------------------------


class _Spec(msgspec.Struct, rename="camel"):
    driver: str = ""
    node_name: str = ""


class _Signed(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_signed = msgspec.json.Decoder(_Signed)


def _publishers(meta: _Meta) -> set[str]:
    """Who maintains a slice. The managedFields of an adopted slice still name its maker; there the mark counts."""
    owner = (meta.labels or {}).get(MANAGED_BY, "")
    return {foreign(owner)} if owner else set(writers(meta.managed_fields))


def publishers(context: ExaminationContext) -> Iterator[Finding]:
    """Two cluster-level publishers of one driver delete each other's slices: the upstream helper treats all slices of its driver
    that are not of a node as its own (k8s.io/dynamic-resource-allocation/resourceslice)."""
    ours = {model.driver for model in context.config_or_usual().models}
    managers: dict[str, set[str]] = defaultdict(set)
    for raw in context.everything("resourceslices"):
        try:
            one = _signed.decode(raw)
        except msgspec.DecodeError:
            continue
        if one.spec.driver in ours and not one.spec.node_name:
            managers[one.spec.driver] |= _publishers(one.metadata)
    for driver, names in sorted(managers.items()):
        if len(names) > 1:
            what = (
                f"{len(names)} publishers write pools of {driver} ({several(names)}): each deletes the other's slices"
            )
            yield warning("publishers", what, "let only one of them publish the driver's pools")
        elif names:
            yield ok("publishers", f"{several(names)} alone publishes the pools of {driver}")
