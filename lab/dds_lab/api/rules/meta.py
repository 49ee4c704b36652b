"""Object metadata: names, labels, annotations, owners, finalizers, and what an update may change."""

from collections.abc import Iterator

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes
from dds_lab.api.status import Cause

NameCheck = names.Check
ANNOTATIONS_SIZE = 256 * 1024
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
AT = "metadata"


def check(meta: Object, namespaced: bool, name_check: NameCheck = names.dns_subdomain) -> Iterator[Cause]:
    """Causes against the metadata of any object."""
    yield from _names(meta, namespaced, name_check)
    if meta.get("labels"):
        yield from labels(meta["labels"], f"{AT}.labels")
    if meta.get("annotations"):
        yield from annotations(meta["annotations"])
    if meta.get("ownerReferences"):
        yield from owners(meta["ownerReferences"])
    if meta.get("finalizers"):
        yield from finalizers(meta["finalizers"])


def check_changed(new: Object, old: Object) -> Iterator[Cause]:
    """`check` of the parts that are not the same Python object in both. Names cannot change."""
    for key, test in (("labels", labels), ("annotations", annotations)):
        if new.get(key) and new[key] is not old.get(key):
            yield from test(new[key], f"{AT}.{key}")
    if new.get("ownerReferences") and new["ownerReferences"] is not old.get("ownerReferences"):
        yield from owners(new["ownerReferences"])
    if new.get("finalizers") and new["finalizers"] is not old.get("finalizers"):
        yield from finalizers(new["finalizers"])


def check_change(new: Object, old: Object) -> Iterator[Cause]:
    """Causes against changes of immutable metadata. As on a real server, some of `check` is repeated."""
    if old.get("deletionTimestamp") and new.get("finalizers") is not old.get("finalizers"):
        yield from _no_new_finalizers(new, old)
    for key in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(key) != old.get(key):
            yield causes.immutable(f"{AT}.{key}", new.get(key))
    if new.get("labels") is not old.get("labels"):
        yield from labels(new.get("labels") or {}, f"{AT}.labels")
    if new.get("annotations") is not old.get("annotations"):
        yield from annotations(new.get("annotations") or {})
    if new.get("ownerReferences") is not old.get("ownerReferences"):
        yield from owners(new.get("ownerReferences") or [])


def _names(meta: Object, namespaced: bool, name_check: NameCheck) -> Iterator[Cause]:
    name, prefix, namespace = (meta.get(key) or "" for key in ("name", "generateName", "namespace"))
    if prefix:
        yield from causes.invalids(f"{AT}.generateName", prefix, name_check(names.prefix_of(prefix)))
    if not name:
        yield causes.required(f"{AT}.name", "name or generateName is required")
    else:
        yield from causes.invalids(f"{AT}.name", name, name_check(name))
    if namespaced and not namespace:
        yield causes.required(f"{AT}.namespace")
    elif namespaced:
        yield from causes.invalids(f"{AT}.namespace", namespace, names.dns_label(namespace))
    elif namespace:
        yield causes.forbidden(f"{AT}.namespace", "not allowed on this type")


def labels(given: Object, at: str) -> Iterator[Cause]:
    """As on a real server, the path of each cause is that of the whole map."""
    for key, value in given.items():
        yield from causes.invalids(at, key, names.qualified_name(key))
        yield from causes.invalids(at, value, names.label_value(value))


def annotations(given: Object, at: str = f"{AT}.annotations") -> Iterator[Cause]:
    for key in given:
        yield from causes.invalids(at, key, names.qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > ANNOTATIONS_SIZE:
        yield causes.too_long(at, ANNOTATIONS_SIZE)


def owners(given: list[Object]) -> Iterator[Cause]:
    at = f"{AT}.ownerReferences"
    controllers = [owner for owner in given if owner.get("controller")]
    for owner in given:
        if not owner.get("apiVersion"):
            yield causes.invalid(f"{at}.apiVersion", "", "version must not be empty")
        yield from (
            causes.invalid(f"{at}.{key}", "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not owner.get(key)
        )
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            yield causes.invalid(at, "v1, Kind=Event", "is disallowed from being an owner")
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        why = f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        yield causes.invalid(at, given, why)


def finalizers(given: list[str], at: str = f"{AT}.finalizers") -> Iterator[Cause]:
    for name in given:
        problems = names.qualified_name(name)
        yield from causes.invalids(at, name, problems)
        if not problems and "/" not in name and name not in STANDARD_FINALIZERS:
            yield causes.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified")
    if "orphan" in given and "foregroundDeletion" in given:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid(at, given, why)


def _no_new_finalizers(new: Object, old: Object) -> list[Cause]:
    before = old.get("finalizers") or ()
    extra = [name for name in new.get("finalizers") or () if name not in before]
    if not extra:
        return []
    found = "[]string{" + ", ".join(f'"{name}"' for name in extra) + "}"
    why = f"no new finalizers can be added if the object is being deleted, found new finalizers {found}"
    return [causes.forbidden(f"{AT}.finalizers", why)]
