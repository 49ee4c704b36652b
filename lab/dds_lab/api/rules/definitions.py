"""CustomResourceDefinition: checks, and the status that a server gives it."""

from collections.abc import Iterable, Iterator

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, structural
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

SCOPES = ("Cluster", "Namespaced")
APPROVED = "api-approved.kubernetes.io"
"""The annotation that a definition needs in a group of Kubernetes' own domains."""
PROTECTED = ("k8s.io", "kubernetes.io")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class Definitions(BuiltIn):
    counted = True

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        if old is not None and spec is old.get("spec"):
            return obj
        given = spec.get("names") or {}
        kind = given.get("kind") or ""
        filled = {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {}
        made = {**given, **{key: value for key, value in filled.items() if not given.get(key)}}
        changes: Object = {"names": made}
        if not spec.get("conversion"):
            changes["conversion"] = {"strategy": "None"}
        return {**obj, "spec": {**spec, **changes}}

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """The names are accepted and the kind is established at once; a real server's controllers take a moment."""
        return new if subresource else accepted(new, self.second())

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        given = spec.get("names") or {}
        yield from _check_names(obj, spec, given)
        if spec.get("scope") not in SCOPES:
            yield causes.not_supported("spec.scope", spec.get("scope") or "", SCOPES)
        if spec.get("preserveUnknownFields"):
            why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            yield causes.invalid("spec.preserveUnknownFields", True, why)
        if (spec.get("conversion") or {}).get("strategy") != "None":
            yield causes.not_supported("spec.conversion.strategy", spec["conversion"].get("strategy") or "", ("None",))
        yield from _check_versions(spec)

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        if subresource == "status":
            return
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        yield from [] if spec is before else self.check(new)
        for key in ("scope", "group"):
            if is_established(old) and spec.get(key) != before.get(key):
                yield causes.immutable(f"spec.{key}", spec.get(key))
        stored = set((old.get("status") or {}).get("storedVersions") or ())
        missing = stored - {version.get("name") for version in spec.get("versions") or ()}
        for name in sorted(missing):
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
            )
            yield causes.invalid("status.storedVersions", [name], why)


def is_established(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def accepted(obj: Object, second: str) -> Object:
    """The definition with the status of a real server's controllers: names accepted, kind established."""
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", second),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", second),
    ]
    spec = obj.get("spec") or {}
    before = (obj.get("status") or {}).get("storedVersions") or []
    stored = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    kept = [*before, *(name for name in stored if name not in before)]
    given = (obj.get("status") or {}).get("conditions") or []
    status = {
        "conditions": given if is_established(obj) else conditions,
        "acceptedNames": spec.get("names") or {},
        "storedVersions": kept,
    }
    return obj if status == obj.get("status") else {**obj, "status": status}


def _condition(kind: str, reason: str, message: str, second: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": second, "reason": reason, "message": message}


def _check_names(obj: Object, spec: Object, given: Object) -> Iterator[Cause]:
    group, plural = spec.get("group") or "", given.get("plural") or ""
    name = obj["metadata"].get("name") or ""
    if name != f"{plural}.{group}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield causes.required("spec.group")
    else:
        yield from causes.invalids("spec.group", group, names.dns_subdomain(group))
        if "." not in group:
            yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if group.endswith(tuple(f".{domain}" for domain in PROTECTED)) or group in PROTECTED:
        given_approval = (obj["metadata"].get("annotations") or {}).get(APPROVED) or ""
        if not given_approval.startswith(("https://", "http://", "unapproved")):
            why = 'protected groups must have approval annotation "api-approved.kubernetes.io"'
            yield causes.required(f"metadata.annotations[{APPROVED}]", why)
    for key in ("plural", "singular", "kind", "listKind"):
        value = given.get(key) or ""
        if not value:
            yield causes.required(f"spec.names.{key}")
        else:
            yield from causes.invalids(f"spec.names.{key}", value, names.dns_label(value.lower()))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield causes.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for key in ("shortNames", "categories"):
        for index, value in enumerate(given.get(key) or ()):
            yield from causes.invalids(f"spec.names.{key}[{index}]", value, names.dns_label(value))


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    if not versions:
        yield causes.required("spec.versions", "must have exactly one version marked as storage version")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        at, name = f"spec.versions[{index}]", version.get("name") or ""
        yield from causes.invalids(f"{at}.name", name, names.dns_label(name))
        if name in seen:
            yield causes.invalid("spec.versions", versions, "must contain unique version names")
        seen.add(name)
        yield from _check_schema(version, at)
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _check_column(column, f"{at}.additionalPrinterColumns[{number}]")
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield causes.invalid("spec.versions", None, "must have exactly one version marked as storage version")


def _check_schema(version: Object, at: str) -> Iterable[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        return [causes.required(f"{at}.schema.openAPIV3Schema", "schemas are required")]
    return structural.check(schema, f"{at}.schema.openAPIV3Schema")


def _check_column(column: Object, at: str) -> Iterator[Cause]:
    yield from (causes.required(f"{at}.{key}") for key in ("name", "jsonPath") if not column.get(key))
    if column.get("type") not in COLUMN_TYPES:
        yield causes.not_supported(f"{at}.type", column.get("type") or "", COLUMN_TYPES)
