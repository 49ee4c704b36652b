"""Checks of the API server: whether it answers and knows the user, its release, its clock, whether it stores the fields that a
hand-over needs, and whether it serves the operator's kinds as dds reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.decode import raw_objects
from dds_adapters.kubernetes.doctor.context import ExaminationContext, instant_of
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, note, ok, unknown, warning
from dds_adapters.kubernetes.publish.probe import slice_on_trial
from dds_adapters.kubernetes.watch.watch_spec import DRA, OPERATOR, VERSIONS
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Slice
from dds_core.scaler.model import model_of_pool
from dds_core.timeline.instants import duration, rfc3339

OLDEST, NEWEST = 34, 36
"""Minor numbers of the tested releases. 1.34 is the first that serves resource.k8s.io/v1 by default."""
GATED = 36
"""The minor number from which binding conditions are on by default and status writes of claims need more than patch (KEP-5007;
feature gate DRAResourceClaimGranularStatusAuthorization)."""

SKEW_WARNING, SKEW_ERROR = 2_000_000, 60_000_000
"""Microseconds. A scheduler writes allocation times in whole seconds; certificates and tokens fail at a skew of a minute."""
SECOND = 1_000_000


def reachable(context: ExaminationContext) -> Iterator[Finding]:
    """Whether it answers at all, with any status. Raises Unreachable."""
    code = context.ask("GET", "/version").code
    if code >= 500:
        yield error("server", f"{context.where} answers {code}", "look at the API server's own health")
    else:
        yield ok("server", f"{context.where} answers")


def authentication(context: ExaminationContext) -> Iterator[Finding]:
    """The user that dds is to the server."""
    check = "authentication"
    try:
        name = foreign(context.user())
    except Refused as refused:
        if refused.code == 401:
            mend = "renew the credentials of the kubeconfig, or of the pod's service account"
            yield error(check, "the server does not know these credentials (401)", mend)
        else:
            yield unknown(check, f"the server does not say who we are ({refused.code})")
        return
    if name in ("", "system:anonymous"):
        yield error(check, "we are anonymous", "give a kubeconfig with credentials")
    else:
        yield ok(check, f"as {name}")


def release(context: ExaminationContext) -> Iterator[Finding]:
    """The release, and what follows from it."""
    check, minor, name = "release", context.minor(), context.release()
    if not minor:
        yield unknown(check, name)
    elif minor < OLDEST:
        what = f"{name} does not serve {DRA}/v1 by default"
        yield warning(check, what, f"use 1.{OLDEST} or newer; 1.{GATED} has binding conditions switched on")
    elif minor < GATED:
        what = f"{name}: binding conditions (DRADeviceBindingConditions) are alpha and off by default"
        yield note(check, what, f"switch the gate on in API server and scheduler, or use 1.{GATED}")
    elif minor > NEWEST:
        yield note(check, f"{name} is newer than 1.{NEWEST}, the newest that was tried")
    else:
        yield ok(
            check, f"{name}: binding conditions are beta and on by default; status writes of claims need more rights"
        )


def kinds(context: ExaminationContext) -> Iterator[Finding]:
    """Whether the followed built-in kinds are served in a version that dds understands."""
    wanted = [one for one in VERSIONS if VERSIONS[one][0].startswith(f"{DRA}/") and one != "devicetaintrules"]
    for resource in wanted:
        try:
            version = context.version_of(resource)
        except Refused as refused:
            if refused.code != 404:
                raise
            mend = f"switch DynamicResourceAllocation on and serve {DRA}/v1"
            yield error("kinds", f"{resource} are not served in a version that is understood", mend)
        else:
            yield ok("kinds", f"{resource} are served as {version}")


def clock(context: ExaminationContext) -> Iterator[Finding]:
    """This machine's clock against the server's, by a review: the server does not store it, but stamps it with the second."""
    check = "clock"
    before = context.now()
    stamp = _stamp(context)
    after = context.now()
    if stamp is None:
        yield unknown(check, "the server did not show its clock", "compare both machines' clocks by hand")
        return
    skew = between(stamp, before, after)
    agree = "our clock and the server's agree, as far as its whole seconds tell"
    yield skewed(check, skew, f"the server's ({rfc3339(stamp)})", agree)


def skewed(check: str, skew: int, whose: str, agree: str) -> Finding:
    """Finding for another clock that is `skew` microseconds ahead of this one; `agree` is its text for a negligible skew."""
    what = f"our clock is at least {duration(abs(skew))} {'behind' if skew > 0 else 'ahead of'} {whose}"
    mend = "keep both machines' clocks right with NTP or chrony"
    if abs(skew) > SKEW_ERROR:
        return error(check, what, mend)
    return warning(check, what, mend) if abs(skew) > SKEW_WARNING else ok(check, agree)


def between(stamp: int, before: int, after: int) -> int:
    """The least that the server's clock is ahead of this one, in microseconds (negative: behind), given the whole second that it
    wrote between two readings of this clock. 0 if they may agree."""
    if stamp > after:
        return stamp - after
    if stamp + SECOND <= before:
        return stamp + SECOND - before
    return 0


def _stamp(context: ExaminationContext) -> int | None:
    """When the server got the request, by its own clock, from managedFields; None if missing."""
    path = path_of("selfsubjectaccessreviews", "authorization.k8s.io/v1")
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}},
    }
    found = context.decoded(path, context.accepted(path, context.ask("POST", path, body=body)))
    fields: list[Any] = (found.get("metadata") or {}).get("managedFields") or []
    return next(
        (at for one in fields if isinstance(one, dict) and (at := instant_of(one.get("time"))) is not None), None
    )


# -- binding conditions of slices and allocations ------------------------------------------------------------------------

READY = "FabricDeviceReady"
FIELDS = ("bindingConditions", "bindingFailureConditions")
_SWITCH = (
    "switch DRADeviceBindingConditions on in API server and scheduler (on by default from 1.36), then publish anew"
)
_SLICES = path_of("resourceslices", f"{DRA}/v1")


def binding_conditions(context: ExaminationContext) -> Iterator[Finding]:
    """By a dry run; if that is not allowed, by the published slices."""
    check = "binding conditions"
    if "resourceslices" not in context.served(f"{DRA}/v1"):
        yield from _read_back(check, context, f"{DRA}/v1 is not served, so nothing could be tried")
        return
    try:
        made = context.decoded(_SLICES, context.dry_create(_SLICES, example()))
    except Refused as refused:
        yield from _read_back(check, context, f"a slice on trial was refused ({refused.code})")
        return
    devices: list[dict[str, Any]] = (made.get("spec") or {}).get("devices") or [{}]
    lost = [name for name in FIELDS if not devices[0].get(name)]
    if lost:
        yield error(check, f"the API server drops {' and '.join(lost)} of a slice without a word", _SWITCH)
    else:
        yield ok(check, "the API server keeps binding conditions of a slice (tried by dry-run)")


def _read_back(check: str, context: ExaminationContext, why: str) -> Iterator[Finding]:
    pools = pool_slices(context)
    kept = [one for one in pools if any(device.binding for device in one.devices.values())]
    if kept:
        yield ok(check, f"published slice {kept[0].name} has binding conditions ({why})")
    elif any(one.devices for one in pools):
        yield error(check, f"published slice {pools[0].name} has no binding conditions ({why})", _SWITCH)
    else:
        yield unknown(
            check, f"{why}, and no pool slice is published yet", "look again once the publisher has published one"
        )


def pool_slices(context: ExaminationContext) -> list[Slice]:
    """Slices of the pools of the configured models, sorted by name."""
    config = context.config_or_usual()
    found = [one for one in context.slices() if model_of_pool(config, one.driver, one.pool) is not None]
    return sorted(found, key=lambda one: one.name)


def example() -> dict[str, Any]:
    """A slice that no driver would publish, with one device as a publisher makes them."""
    lost = [RESCHEDULE, FAILED_CONDITION]
    device = {"name": "example", "bindingConditions": [READY], "bindingFailureConditions": lost}
    never = {"dds.cohdi.io/doctor": "never"}
    return slice_on_trial(f"{DRA}/v1", "dds-doctor", "doctor.dds.cohdi.io", never, device)


def scheduler_gates(context: ExaminationContext) -> Iterator[Finding]:
    """No API shows a scheduler's gates. The first allocation of a pool device does, since it copies the binding conditions."""
    check, without = "scheduler gates", ""
    config = context.config_or_usual()
    for claim in context.claims():
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.binding:
                yield ok(check, f"claim {claim.namespace}/{claim.name} was allocated with binding conditions")
                return
            if model_of_pool(config, result.driver, result.pool) is not None:
                without = f"{claim.namespace}/{claim.name}"
    if without:
        mend = "switch DRADeviceBindingConditions on in the scheduler; the pod would start without its device"
        yield error(check, f"claim {without} has a pool device without binding conditions", mend)
    else:
        yield unknown(check, "unknown until the first allocation of a pool device shows them")


def taint_rule_version(context: ExaminationContext) -> str:
    """The version in which DeviceTaintRules are served, "" for none."""
    try:
        return context.version_of("devicetaintrules")
    except Refused as refused:
        if refused.code != 404:
            raise
        return ""


# -- the operator's kinds ----------------------------------------------------------------------------------------------

TYPES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "composabilityrequests": ("ComposabilityRequest", raw_objects.RawComposabilityRequest),
    "composableresources": ("ComposableResource", raw_objects.RawComposableResource),
}
_CHECK = "operator"
_INSTALL = "install the composable resource operator and its CustomResourceDefinitions"
_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def custom_kinds(context: ExaminationContext) -> Iterator[Finding]:
    """Each of the two kinds, and its fields by OpenAPI, else by its CustomResourceDefinition. The decoder's own types say which
    fields dds needs, so the two always agree."""
    for resource, (kind, form) in TYPES.items():
        version = VERSIONS[resource][0]
        if resource not in context.served(version):
            yield error(_CHECK, f"{resource}.{OPERATOR} are not served as {version}", _INSTALL)
            continue
        schema = _published(context, version, kind) or _defined(context, resource, version)
        if schema is None:
            yield unknown(_CHECK, f"{resource} are served as {version}, their fields could not be read")
            continue
        missing = [path for path in fields_of(form) if not has(schema, path)]
        if missing:
            what = (
                f"{resource} lack the field{'s' if len(missing) > 1 else ''} {', '.join('.'.join(p) for p in missing)}"
            )
            yield error(_CHECK, what, "bring the operator and its definitions to the release that the scaler needs")
        else:
            yield ok(_CHECK, f"{resource} are served as {version} with all fields that are read and written")


def fields_of(form: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """Paths of all fields below spec and status that the decoder reads."""
    found = inspect.type_info(form)
    assert isinstance(found, inspect.StructType)
    parts = [one for one in found.fields if one.encode_name in ("spec", "status")]
    return [path for part in parts for path in _leaves((part.encode_name,), part.type)]


def _leaves(path: tuple[str, ...], form: inspect.Type) -> Iterator[tuple[str, ...]]:
    if isinstance(form, inspect.UnionType):
        form = next(one for one in form.types if not isinstance(one, inspect.NoneType))
    if isinstance(form, inspect.StructType):
        for one in form.fields:
            yield from _leaves((*path, one.encode_name), one.type)
    else:
        yield path


def has(schema: Any, path: tuple[str, ...]) -> bool:
    """Whether a schema has the field, or allows any."""
    if not isinstance(schema, dict):
        return False
    if not path or schema.get(_PRESERVED):
        return True
    return has((schema.get("properties") or {}).get(path[0]), path[1:])


def _published(context: ExaminationContext, version: str, kind: str) -> Any:
    """The kind's schema in OpenAPI, None if that cannot be read."""
    path = f"/openapi/v3/apis/{version}"
    try:
        document = context.once(path, lambda: context.decoded(path, context.get(path)))
    except Refused:
        return None
    schemas: dict[str, Any] = (document.get("components") or {}).get("schemas") or {}
    found = next((one for name, one in schemas.items() if name.endswith(f".{kind}")), None)
    return _resolved(found, schemas, ()) if found is not None else None


def _resolved(schema: Any, schemas: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """The schema with its references replaced; a recursive one is cut."""
    if not isinstance(schema, dict):
        return schema
    for one in (schema, *(schema.get("allOf") or ())):
        name = str(one.get("$ref", "")).rpartition("/")[2]
        if name:
            return _resolved(schemas.get(name), schemas, (*inside, name)) if name not in inside else {}
    inner = schema.get("properties") or {}
    return schema | {"properties": {name: _resolved(one, schemas, inside) for name, one in inner.items()}}


def _defined(context: ExaminationContext, resource: str, version: str) -> Any:
    """The schema in the CustomResourceDefinition, None if that cannot be read."""
    path = path_of("customresourcedefinitions", "apiextensions.k8s.io/v1", name=f"{resource}.{OPERATOR}")
    try:
        found = context.decoded(path, context.get(path))
    except Refused:
        return None
    for one in (found.get("spec") or {}).get("versions") or ():
        if f"{OPERATOR}/{one.get('name')}" == version:
            return (one.get("schema") or {}).get("openAPIV3Schema")
    return None
