"""Create, update and patch, in the order of a real server: decode, prepare, own, validate, admit, store.

The differences between kinds are in their strategies; patches and field owners are in `patches` and `ownership`. A write that
changes nothing succeeds without a new revision or event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from dds_lab.api import ownership, patches, status
from dds_lab.api.access import Access, Attributes, Rule, attributes_of, rule
from dds_lab.api.clock import Clock
from dds_lab.api.kinds import RBAC, RESOURCE, Object, Resource
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.rules import causes
from dds_lab.api.status import Cause
from dds_lab.api.store import Record, Store
from dds_lab.api.strategies import Strategy

Admission = Callable[[Call, Object | None, Object | None], list[Cause] | None]
"""A validating hook, called with the call, the old object and the new one. It returns objections, or raises ApiError."""

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONGEST_PREFIX = 58
NAME_ATTEMPTS = 8
TERMINATING = "Terminating"
MADE_BY_UPDATE = frozenset(
    {"events", "leases.coordination.k8s.io"}
    | {f"{plural}.{RBAC}" for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")}
)
"""Kinds whose update creates a missing object."""


class Writer:
    def __init__(
        self, store: Store, registry: Registry, clock: Clock, random: Random, access: Access, track_updates: bool
    ) -> None:
        """Without `track_updates`, updates leave managedFields unchanged, which is faster. Apply still keeps its own."""
        self._store = store
        self._registry = registry
        self._clock = clock
        self._random = random
        self._access = access
        self._track_updates = track_updates
        self.admission: list[Admission] = []

    def create(self, call: Call) -> Outcome:
        strategy = self._registry.strategy(call.resource)
        check_identity(call, call.body, at_create=True)
        decoded, unknown = strategy.decode(call.body)
        warnings = unknown_fields(call, unknown)
        obj = strategy.to_storage(decoded)
        return self._create(call, strategy, obj, warnings)

    def _create(self, call: Call, strategy: Strategy, obj: Object, warnings: tuple[str, ...]) -> Outcome:
        """An applied `obj` already has its managedFields."""
        resource, meta = call.resource, obj.get("metadata") or {}
        if call.verb == "update":
            check_uid(call, meta, "")
        elif meta.get("resourceVersion") not in (None, "", "0"):
            raise status.internal("resourceVersion should not be set on objects to be created")
        self._check_namespace(call)
        applied = call.verb == "patch"
        left_out = ("resourceVersion",) if applied else ("resourceVersion", "managedFields")
        meta = {key: value for key, value in meta.items() if key not in left_out}
        name = call.name or meta.get("name") or self._generated_name(call, meta.get("generateName") or "")
        meta["name"] = name
        meta["uid"] = self._uid()
        meta["creationTimestamp"] = self._clock.text()
        sent = strategy.defaulted(in_namespace({**obj, "metadata": meta}, call.namespace), None)
        new = strategy.for_create(sent)
        if not applied:
            new = self._owned(call, strategy, None, new, without_status(sent, resource))
        new = strategy.admitted(new)
        causes = [*strategy.check_create(new), *self._admin_access(resource, new)]
        if causes:
            raise status.invalid_object(resource, name, causes)
        self._check_rights(call, strategy, new, None)
        admit(self.admission, call, None, new)
        path = f"{call.namespace}/{name}" if resource.namespaced else name
        if self._store.get(resource.key, path) is not None:
            raise status.already_exists(resource, name)
        if call.writing.dry_run:
            return Outcome(code=201, object=strategy.from_storage(new), warnings=warnings)
        record = self._store.put(resource.key, path, new)
        return Outcome(code=201, object=strategy.from_storage(record.object), record=record, warnings=warnings)

    def _admin_access(self, resource: Resource, new: Object) -> list[Cause]:
        if resource.group != RESOURCE or not resource.namespaced:
            return []
        namespace = self._store.get("namespaces", new["metadata"]["namespace"])
        return check_admin_access(new, namespace.object if namespace else None)

    def _check_namespace(self, call: Call) -> None:
        if not call.resource.namespaced:
            return
        found = self._store.get("namespaces", call.namespace)
        if found is None:
            namespaces = self._registry.by_key("namespaces")
            raise status.not_found(namespaces, call.namespace)
        if (found.object.get("status") or {}).get("phase") == TERMINATING:
            name = str((call.body.get("metadata") or {}).get("name", ""))
            why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {call.namespace} is being terminated"}
            raise status.forbidden(
                f'{call.resource.name} "{name}" is forbidden: {why}',
                status.details_of(call.resource, name, causes=[{**cause, "field": "metadata.namespace"}]),
            )

    def _generated_name(self, call: Call, prefix: str) -> str:
        if not prefix:
            cause = Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
            raise status.invalid_object(call.resource, "", [cause])
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = prefix[:LONGEST_PREFIX] + "".join(self._random.choices(SUFFIX_LETTERS, k=5))
            path = f"{call.namespace}/{name}" if call.resource.namespaced else name
            if self._store.get(call.resource.key, path) is None:
                break
        return name

    def _uid(self) -> str:
        bits = self._random.getrandbits(128) & ~(0xF << 76) | 4 << 76  # version 4
        text = f"{bits & ~(0x3 << 62) | 0x2 << 62:032x}"  # variant of RFC 4122
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def update(self, call: Call) -> Outcome:
        """Replace the whole object. If it is missing, an update of the MADE_BY_UPDATE kinds creates it."""
        old = self._store.get(call.resource.key, call.path)
        if old is not None and call.body is old.object and self._takes_as_sent(call.resource):
            admit(self.admission, call, call.body, call.body)
            return Outcome(object=call.body, record=old)
        strategy = self._registry.strategy(call.resource)
        check_identity(call, call.body)
        if old is None and call.resource.key in MADE_BY_UPDATE and not call.subresource:
            self._access.check(call.user, attributes_of(call, "create"))
            return self.create(call)
        old = self._existing(call)
        decoded, unknown = strategy.decode(call.body, strategy.from_storage(old.object))
        warnings = unknown_fields(call, unknown)
        return self._update(call, strategy, old, strategy.to_storage(decoded), warnings)

    def _takes_as_sent(self, resource: Resource) -> bool:
        """Whether an update that sends back the very object that is stored, as controllers do at each poll, can meet no objection
        but that of admission. Built-in kinds may change what they are sent, and managedFields an untracked update may not."""
        alike = resource.custom and resource.api_version == resource.stored_api_version
        return alike and not self._track_updates

    def patch(self, call: Call) -> Outcome:
        """Change part of the object. A server-side apply creates a missing object."""
        strategy = self._registry.strategy(call.resource)
        if call.writing.how == "apply":
            return self._apply(call, strategy)
        old = self._existing(call)
        live = strategy.from_storage(old.object)
        patched = _patched(call, strategy, live)
        check_identity(call, patched)
        try:
            decoded, unknown = strategy.decode(patched, live)
            warnings = unknown_fields(call, unknown)
        except status.ApiError as problem:
            raise useless_patch(call, problem) from None
        return self._update(call, strategy, old, strategy.to_storage(decoded), warnings)

    def _apply(self, call: Call, strategy: Strategy) -> Outcome:
        options, resource = call.writing, call.resource
        check_applied(call)
        old = self._store.get(resource.key, call.path)
        uid = (call.body.get("metadata") or {}).get("uid")
        if old is None and (call.subresource or uid):
            raise nothing_to_apply_to(call, uid)
        live = strategy.from_storage(old.object) if old is not None else None
        applied = ownership.applied(
            strategy.schema, live, call.body, options.manager, call.subresource, resource.api_version,
            self._clock.text(), options.force,
        )  # fmt: skip
        merged, _ = strategy.decode(applied, live)
        new = strategy.to_storage(merged)
        if old is None:
            self._access.check(call.user, attributes_of(call, "create"))
            return self._create(call, strategy, new, ())
        return self._update(call, strategy, old, new, (), applied=True)

    def _existing(self, call: Call) -> Record:
        record = self._store.get(call.resource.key, call.path)
        if record is None:
            raise status.not_found(call.resource, call.name)
        return record

    def _update(
        self, call: Call, strategy: Strategy, record: Record, decoded: Object, warnings: tuple[str, ...],
        applied: bool = False,
    ) -> Outcome:  # fmt: skip
        resource, old = call.resource, record.object
        decoded = in_namespace(decoded, call.namespace)
        check_preconditions(call, old, decoded["metadata"])
        new = strategy.for_update(decoded, old, call.subresource)
        if not applied:
            sent = {**new, "status": decoded.get("status")} if call.subresource == "status" else new
            new = self._owned(call, strategy, old, new, sent)
        causes = strategy.check_update(new, old, call.subresource)
        if causes:
            raise status.invalid_object(resource, call.name, causes)
        self._check_rights(call, strategy, new, old)
        admit(self.admission, call, old, new)
        if same(new, old):
            return Outcome(object=strategy.from_storage(old), record=record, warnings=warnings)
        if call.writing.dry_run:
            return Outcome(object=strategy.from_storage(new), warnings=warnings)
        if old["metadata"].get("deletionGracePeriodSeconds") == 0 and not new["metadata"].get("finalizers"):
            self._store.remove(resource.key, call.path)
            return Outcome(object=strategy.from_storage(new), warnings=warnings)
        kept = self._store.put(resource.key, call.path, new)
        return Outcome(object=strategy.from_storage(kept.object), record=kept, warnings=warnings)

    def _owned(self, call: Call, strategy: Strategy, old: Object | None, new: Object, sent: Object) -> Object:
        """`new` with its managedFields after this write. `sent` is what counts as set by the client: the object before the
        server's own changes (statuses of deallocated devices removed, first status set)."""
        had = (old or {}).get("metadata", {}).get("managedFields")
        if self._track_updates:
            version = call.resource.api_version
            before = strategy.from_storage(old) if old is not None else None
            managed: Any = ownership.updated(
                strategy.schema, before, strategy.from_storage(sent), call.writing.manager, call.subresource, version,
                self._clock.text(),
            )  # fmt: skip
        else:
            managed = had
        if managed is new["metadata"].get("managedFields"):
            return new
        meta = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
        if managed:
            meta["managedFields"] = managed
        return {**new, "metadata": meta}

    def _check_rights(self, call: Call, strategy: Strategy, new: Object, old: Object | None) -> None:
        """Check the permissions that depend on the content of the write."""
        if call.user.master:
            return
        if call.resource.group == RBAC:
            check_escalation(self._access, call, new)
        elif old is not None:
            self._access.check_granular(call, strategy.granular(new, old, call.subresource, call.verb))


def admit(admission: list[Admission], call: Call, old: Object | None, new: Object | None) -> None:
    """Call every hook. ApiError 403 if one objects."""
    for hook in admission:
        causes = hook(call, old, new)
        if causes:
            words = ", ".join(cause.message for cause in causes)
            raise status.forbidden(
                f"admission webhook denied the request: {words}",
                status.details_of(call.resource, call.name, causes=[vars(cause) for cause in causes]),
            )


def _patched(call: Call, strategy: Strategy, live: Object) -> Object:
    how, body = call.writing.how, call.body
    if how == "json":
        return patches.json_patch(live, body)
    if how == "merge":
        return patches.merge_patch(live, body)
    return patches.strategic_patch(strategy.schema, live, body)


# -- checks of every write, whatever the kind


def check_identity(call: Call, body: Any, at_create: bool = False) -> None:
    """ApiError 400 unless the body has the kind, version, namespace and name of the path."""
    resource = call.resource
    if not isinstance(body, dict):
        raise status.bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    kind, version = body.get("kind", ""), body.get("apiVersion", "")
    if resource.custom and not (kind and version):
        raise status.bad_request(f"Object 'Kind' or 'apiVersion' is missing in a {resource.kind}")
    if (kind and kind != resource.kind) or (version and version != resource.api_version):
        raise status.bad_request(
            f"{resource.kind} in version \"{resource.version}\" cannot be handled as a {resource.kind}: "
            f"converting {version} {kind} to {resource.api_version} {resource.kind}: the API version and kind in the data "
            "do not match the expected ones"
        )  # fmt: skip
    meta = body.get("metadata")
    if meta is None and at_create:
        return
    if not isinstance(meta, dict):
        raise _nameless(call)
    namespace = meta.get("namespace") or ""
    if resource.namespaced and namespace and namespace != call.namespace:
        if at_create:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        words = (
            f"the namespace of the object ({namespace}) does not match the namespace on the request ({call.namespace})"
        )
        raise status.bad_request(words)
    if at_create:
        return
    name = meta.get("name") or ""
    if not name:
        raise _nameless(call)
    _check_name(call, name)


def _nameless(call: Call) -> status.ApiError:
    words = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
    return status.bad_request(words)


def _check_name(call: Call, name: str) -> None:
    if name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def unknown_fields(call: Call, unknown: list[str]) -> tuple[str, ...]:
    """Warnings about unknown fields, which were removed. ApiError 400 with strict validation."""
    if not unknown or call.writing.validation == "Ignore":
        return ()
    words = [f'unknown field "{path}"' for path in unknown]
    if call.writing.validation == "Strict":
        resource = call.resource
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(words)}"
        )
    return tuple(words)


def same(new: Object, old: Object) -> bool:
    """Whether a write changes nothing. The resourceVersion and the times in managedFields do not count."""
    if new.keys() != old.keys() or any(
        part is not old[key] and part != old[key] for key, part in new.items() if key != "metadata"
    ):
        return False
    fresh, kept = new["metadata"], old["metadata"]
    if fresh is kept:
        return True
    for key in fresh.keys() | kept.keys():
        if key in ("resourceVersion", "managedFields") or fresh.get(key) == kept.get(key):
            continue
        return False
    owned, before = fresh.get("managedFields"), kept.get("managedFields")
    return owned is before or _without_times(owned) == _without_times(before)


def _without_times(managed: list[Object] | None) -> list[Object]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in managed or []]


def in_namespace(obj: Object, namespace: str) -> Object:
    """The object with the namespace of its path, or without one if the path has none."""
    meta = obj["metadata"]
    if (meta.get("namespace") or "") == namespace:
        return obj
    kept = {key: value for key, value in meta.items() if key != "namespace"}
    return {**obj, "metadata": {**kept, "namespace": namespace} if namespace else kept}


def without_status(obj: Object, resource: Resource) -> Object:
    """What the creator of an object owns: not the status if it is a subresource."""
    return {key: value for key, value in obj.items() if key != "status"} if "status" in resource.subresources else obj


def check_uid(call: Call, meta: Object, kept: str) -> None:
    """Conflict if the client sent another uid than the stored one ("" for no object), so that an update never brings back a
    deleted object."""
    uid = meta.get("uid")
    if uid and uid != kept:
        key = f"/registry/{call.resource.plural}/{call.path}"
        raise status.conflict(
            call.resource, call.name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
            f" UID in precondition: {uid}, UID in object meta: {kept}",
        )  # fmt: skip


def check_preconditions(call: Call, old: Object, meta: Object) -> None:
    """Compare the uid and resourceVersion that the client sent with the stored ones. ApiError 409 or 422."""
    kept = old["metadata"]
    version = meta.get("resourceVersion") or ""
    resource = call.resource
    if (resource.custom or resource.conditional) and call.verb == "update" and version in ("", "0"):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(resource.plural, call.name, [cause], resource.group)
    check_uid(call, meta, kept["uid"])
    if version not in ("", "0") and version != kept["resourceVersion"]:
        if not (version.isascii() and version.isdigit()):
            cause = Cause(
                "FieldValueInvalid", f'Invalid value: "{version}": must be an integer', "metadata.resourceVersion"
            )
            raise status.invalid_object(call.resource, call.name, [cause])
        raise status.conflict(call.resource, call.name)


def check_applied(call: Call) -> None:
    """ApiError 400 or 422 if the body of an apply lacks a required field or has a forbidden one."""
    body = call.body
    if not call.writing.manager:
        cause = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise status.invalid("PatchOptions", "", [cause], "meta.k8s.io")
    if not isinstance(body, dict):
        raise status.bad_request("error decoding YAML: the applied configuration must be an object")
    if not (body.get("kind") and body.get("apiVersion")):
        raise status.bad_request("apply patch must include kind and apiVersion")
    check_identity(call, {"metadata": {}, **body}, at_create=True)
    meta = body.get("metadata") or {}
    if not isinstance(meta, dict):
        raise status.bad_request("metadata of the applied configuration must be an object")
    if meta.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    _check_name(call, meta.get("name") or call.name)


def useless_patch(call: Call, problem: status.ApiError) -> status.ApiError:
    """The error for a patch whose result is no object of its kind: 422, where a whole body gets 400."""
    if problem.code != 400:
        return problem
    words = str(problem).partition(f"cannot be handled as a {call.resource.kind}: ")[2] or str(problem)
    shown = msgspec.json.encode(call.body).decode()
    return status.invalid("", "", [Cause("FieldValueInvalid", f"Invalid value: {shown}: {words}", "patch")])


def nothing_to_apply_to(call: Call, uid: str | None) -> status.ApiError:
    """The error for an apply that may not create the missing object."""
    if call.subresource:
        return status.not_found(call.resource, call.name)
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return status.conflict(call.resource, call.name, why)


# -- users cannot grant permissions that they do not have
#
# The user's own rules must cover the rules of the role, or of the role that a binding refers to, unless the user may `escalate`
# (roles) or `bind` (bindings). As on a real server, each write checks all rules, also those granted before.

EVERYTHING = [Rule(("*",), ("*",), ("*",)), Rule(("*",), paths=("*",))]
"""What a role with an aggregationRule counts as granting, since it can gather any rule."""
BINDINGS = ("clusterrolebindings", "rolebindings")


def check_escalation(access: Access, call: Call, new: Object) -> None:
    """ApiError 403 if the write grants more than its user has."""
    if call.resource.plural in BINDINGS:
        granted = list(access.role_rules(new.get("roleRef") or {}, call.namespace))
    else:
        granted = [rule(each) for each in new.get("rules") or ()]
        if new.get("aggregationRule"):
            granted += EVERYTHING
    if not granted or _excused(access, call, new):
        return
    own = access.rules_in(call.user, call.namespace)
    missing = [each for each in granted if not all(_covered(own, part) for part in _parts(each))]
    if missing:
        name = str(new["metadata"]["name"])
        words = "\n".join(_shown(each) for each in missing)
        message = (
            f'{call.resource.name} "{name}" is forbidden: user "{call.user.name}" (groups={_quoted(call.user.groups)}) is '
            f"attempting to grant RBAC permissions not currently held:\n{words}"
        )
        raise status.forbidden(message, status.details_of(call.resource, name))


def _excused(access: Access, call: Call, new: Object) -> bool:
    if call.resource.plural in BINDINGS:
        reference = new.get("roleRef") or {}
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        name = str(reference.get("name", ""))
        asked = Attributes(verb="bind", group=RBAC, resource=plural, name=name, namespace=call.namespace)
    else:
        name = str(new["metadata"]["name"])
        plural = call.resource.plural
        asked = Attributes(verb="escalate", group=RBAC, resource=plural, name=name, namespace=call.namespace)
    return access.allowed(call.user, asked)


def _parts(granted: Rule) -> Iterator[Attributes]:
    """Every single permission in a rule. A wildcard counts as a name that only a wildcard covers."""
    for verb in granted.verbs:
        for path in granted.paths:
            yield Attributes(verb=verb, path=path)
        for group in granted.groups:
            for target in granted.resources:
                resource, _, subresource = target.partition("/")
                for name in granted.names or ("",):
                    yield Attributes(verb=verb, group=group, resource=resource, subresource=subresource, name=name)


def _covered(own: list[Rule], part: Attributes) -> bool:
    return any(each.allows(part) for each in own)


def _shown(granted: Rule) -> str:
    if granted.paths:
        return f"{{NonResourceURLs:{_quoted(granted.paths)}, Verbs:{_quoted(granted.verbs)}}}"
    names = f", ResourceNames:{_quoted(granted.names)}" if granted.names else ""
    shown = f"APIGroups:{_quoted(granted.groups)}, Resources:{_quoted(granted.resources)}{names}"
    return f"{{{shown}, Verbs:{_quoted(granted.verbs)}}}"


def _quoted(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


# -- admin access to devices, for which an administrator must have labelled the namespace

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"


def check_admin_access(obj: Object, namespace: Object | None) -> list[Cause]:
    """Causes against a new ResourceClaim or ResourceClaimTemplate in this namespace (the object)."""
    template = obj.get("kind") == "ResourceClaimTemplate"
    at = "spec.spec.devices.requests" if template else "spec.devices.requests"
    spec = obj.get("spec") or {}
    requests = ((spec.get("spec") or {} if template else spec).get("devices") or {}).get("requests") or ()
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    if labels.get(ADMIN_ACCESS) == "true":
        return []
    why = f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
    return [
        causes.forbidden(f"{at}[{index}].adminAccess", why)
        for index, request in enumerate(requests)
        if (request.get("exactly") or {}).get("adminAccess")
    ]
