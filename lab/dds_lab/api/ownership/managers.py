"""metadata.managedFields: one entry for each (manager, operation, version, subresource), in a real server's order."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from dds_lab.api.bodies import too_deep
from dds_lab.api.kinds import Object
from dds_lab.api.ownership.fields import (
    MEMBER,
    SELF,
    Fields,
    difference,
    intersection,
    map_differences,
    mentioned,
    merged,
    named,
    paths,
    union,
    well_formed,
    without,
)
from dds_lab.api.schema import Node
from dds_lab.api.status import Cause, apply_conflict, bad_request, internal

Entry = dict[str, Any]

UPDATES_KEPT = 10
"""If there are more entries of updates, the oldest are merged."""
OLD_UPDATES = "ancient-changes"
BEFORE_APPLY = "before-first-apply"

_UNOWNED = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "selfLink", "managedFields", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds",
})  # fmt: skip
_TYPE_META = frozenset(("apiVersion", "kind"))
_RESET = {"": frozenset({"status"}), "status": frozenset({"metadata", "spec"})}
"""What a write through the main resource ("") or a subresource cannot change."""

_TEXT = Node("string")
_TEXTS = "name generateName namespace uid resourceVersion selfLink creationTimestamp deletionTimestamp"
_METADATA = Node(
    "object",
    {
        **dict.fromkeys(_TEXTS.split(), _TEXT),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), Node("integer")),
        "managedFields": Node("list", items=Node("any")),
        "labels": Node("map", items=_TEXT),
        "annotations": Node("map", items=_TEXT),
        "finalizers": Node("list", items=_TEXT, list_type="set"),
        "ownerReferences": Node("list", items=Node("object", atomic=True), list_type="map", list_keys=("uid",)),
    },
)
"""Used if a schema does not describe metadata."""


def updated(
    schema: Node,
    old: Object | None,
    new: Object,
    manager: str,
    subresource: str,
    api_version: str,
    now_text: str,
) -> list[Entry]:
    """metadata.managedFields after a create (`old` is None), an update or a patch.

    `manager` gets the new and changed fields; the others lose what changed or was removed. If nothing changes that can be
    owned, the result is the same list. An object without entries is not tracked until a client applies it.
    """
    entries, tracked = _entries_before(old, new, subresource)
    if not tracked and old is not None:
        return entries
    taken, gone = _changes(schema, old, new, _RESET.get(subresource, frozenset()))
    if not taken and not gone:
        return entries
    mine: Entry | None = None
    kept: list[Entry] = []
    for entry in entries:
        if mine is None and _is_of(entry, manager, "Update", subresource, api_version):
            mine = entry
        else:
            kept.extend(_losing(entry, taken, gone))
    if mine is None and taken:
        kept.append(_entry(manager, "Update", api_version, now_text, taken, subresource))
    elif mine is not None:
        fields = union(difference(mine["fieldsV1"], gone), taken)
        if fields:
            kept.append({**mine, "fieldsV1": fields, "time": now_text} if taken else {**mine, "fieldsV1": fields})
    return _ordered(_capped(kept))


def applied(
    schema: Node,
    live: Object | None,
    patch: Object,
    manager: str,
    subresource: str,
    api_version: str,
    now_text: str,
    force: bool,
) -> Object:
    """The object after a server-side apply of `patch`, with its managedFields; `live` itself if nothing changed.

    ApiError 400 for a patch of another version or with managedFields; 409 with owners and fields if values that others own
    would change and `force` is not given; 500, as on a real server, for undeclared fields and duplicate keys. What `kubectl`
    applied in its older way does not conflict with `kubectl`.
    """
    _check_head(patch, api_version)
    schema = _rooted(schema)
    left_out = _RESET.get(subresource, frozenset())
    own = _mentioned(schema, patch, left_out)
    before = _entries_before_apply(schema, live, api_version, now_text)
    last: Fields = {}
    others: list[Entry] = []
    previous: Entry | None = None
    for entry in before:
        if _is_of(entry, manager, "Apply", subresource):
            last, previous = entry["fieldsV1"], entry
        else:
            others.append(entry)
    start: Object = {} if live is None else live
    result = merged(schema, start, patch)
    if last and last != own:
        result = _pruned(schema, result, _less(last, left_out), own, others)
    taken, gone = _changes(schema, live, result, left_out)
    if not force:
        _check_conflicts(others, difference(taken, taken_over(schema, live, manager, api_version)))
    kept = [survivor for entry in others for survivor in _losing(entry, taken, gone)]
    if own:
        same = result is start or result == start
        time = now_text if not same else (previous or {}).get("time", "")
        kept.append(_entry(manager, "Apply", api_version, time, own, subresource))
    return _with_entries(remembered(result, patch, manager), _ordered(kept), live)


def _with_entries(result: Object, entries: list[Entry], live: Object | None) -> Object:
    if entries == _list(result):
        return live if live is not None and result == live else result
    metadata = {name: value for name, value in (result.get("metadata") or {}).items() if name != "managedFields"}
    if entries:
        metadata["managedFields"] = entries
    return {**result, "metadata": metadata}


def _check_head(patch: Object, api_version: str) -> None:
    given = patch.get("apiVersion", "")
    if given != api_version:
        words = f"Specified patch version: {given}, expected: {api_version}"
        raise bad_request(f"Incorrect version specified in apply patch. {words}")
    metadata = patch.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _mentioned(schema: Node, patch: Object, left_out: frozenset[str]) -> Fields:
    """The fields that the patch mentions and that can have owners."""
    errors: list[str] = []
    whole = mentioned(schema, patch, "", errors)
    if errors:
        metadata = patch.get("metadata")
        place = metadata if isinstance(metadata, dict) else {}
        group, _, version = str(patch.get("apiVersion", "")).rpartition("/")
        what = f"{place.get('namespace', '')}/{place.get('name', '')}; {group}/{version}, Kind={patch.get('kind', '')}"
        words = errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in errors)
        raise internal(f"failed to create typed patch object ({what}): {words}")
    return _less(_ownable(whole or {}), left_out)


def _ownable(fields: Fields) -> Fields:
    """Without the fields that have no owner: the type, and the metadata that the server maintains."""
    kept = {name: below for name, below in fields.items() if name[2:] not in _TYPE_META}
    metadata = {
        name: below
        for name, below in kept.pop("f:metadata", MEMBER).items()
        if name != SELF and name[2:] not in _UNOWNED
    }
    return dict(sorted({**kept, "f:metadata": metadata}.items())) if metadata else kept


def _less(fields: Fields, left_out: frozenset[str]) -> Fields:
    return {name: below for name, below in fields.items() if name[2:] not in left_out} if left_out else fields


def _pruned(schema: Node, result: Object, last: Fields, own: Fields, others: list[Entry]) -> Object:
    """Without what the manager applied last time and leaves out now, unless another manager owns it."""
    left = difference(named(schema, last), named(schema, own))
    for entry in others:
        if not left:
            break
        left = difference(left, named(schema, entry["fieldsV1"]))
    if not left:
        return result
    pruned: Object = without(schema, result, left)
    return pruned


def _check_conflicts(others: list[Entry], taken: Fields) -> None:
    causes = []
    for entry in sorted(others, key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", ""))):
        for path in paths(intersection(entry["fieldsV1"], taken)):
            causes.append(Cause("FieldManagerConflict", f"conflict with {_owner(entry)}", path))
    if causes:
        raise apply_conflict(causes)


def _owner(entry: Entry) -> str:
    words = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        words += f' with subresource "{entry["subresource"]}"'
    return words + (f" using {entry['apiVersion']}" if entry["operation"] == "Update" else "")


def _changes(schema: Node, old: Object | None, new: Object, left_out: frozenset[str]) -> tuple[Fields, Fields]:
    """(new or changed fields, removed fields), only those that can have owners."""
    start: Object = old or {}
    taken, gone = map_differences(schema, start, new, left_out | _TYPE_META | {"metadata"})
    if "metadata" not in left_out:
        more, less = map_differences(_metadata(schema), start.get("metadata"), new.get("metadata"), _UNOWNED)
        if more:
            taken = dict(sorted({**taken, "f:metadata": more}.items()))
        if less:
            gone = {**gone, "f:metadata": less}
    return taken, gone


def _metadata(schema: Node) -> Node:
    node = schema.fields.get("metadata")
    return node if node is not None and node.fields else _METADATA


@lru_cache(maxsize=256)
def _rooted(schema: Node) -> Node:
    if _metadata(schema) is not _METADATA:
        return schema
    fields = {**schema.fields, "metadata": _METADATA, "apiVersion": _TEXT, "kind": _TEXT}
    return replace(schema, fields=fields)


def _entries_before(old: Object | None, new: Object, subresource: str) -> tuple[list[Entry], bool]:
    """The entries before a write, and whether the object is tracked. A write through the main resource may send its own; `[{}]`
    means none. Missing or malformed ones change nothing."""
    live: list[Entry] = _list(old)
    sent = _list(new)
    if subresource or sent is live or not sent or sent == live:
        return live, bool(live)
    if sent == [{}]:
        return [], False
    if not all(_well_formed(entry) for entry in sent):
        return live, bool(live)
    return sent, True


def _list(obj: Object | None) -> list[Entry]:
    entries: list[Entry] = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    return entries


def _well_formed(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and entry.get("fieldsType") == "FieldsV1"
        and all(isinstance(entry.get(name, ""), str) for name in ("manager", "apiVersion", "subresource", "time"))
        and entry.get("apiVersion", "") != ""
        and well_formed(entry.get("fieldsV1"))
    )


def _entries_before_apply(schema: Node, live: Object | None, api_version: str, now_text: str) -> list[Entry]:
    """The live entries. An object without any is tracked from now on: one manager owns all its fields."""
    entries = _list(live)
    if entries or live is None:
        return entries
    everything, _ = _changes(schema, None, live, frozenset())
    return [_entry(BEFORE_APPLY, "Update", api_version, now_text, everything, "")] if everything else []


def _is_of(entry: Entry, manager: str, operation: str, subresource: str, api_version: str = "") -> bool:
    return (
        entry.get("manager", "") == manager
        and entry["operation"] == operation
        and entry.get("subresource", "") == subresource
        and (not api_version or entry["apiVersion"] == api_version)
    )


def _losing(entry: Entry, taken: Fields, gone: Fields) -> tuple[Entry, ...]:
    """The entry without what changed or was removed; empty if nothing is left."""
    fields = entry["fieldsV1"]
    kept = difference(difference(fields, taken), gone)
    if kept is fields:
        return (entry,)
    return ({**entry, "fieldsV1": kept},) if kept else ()


def _entry(manager: str, operation: str, api_version: str, time: str, fields: Fields, subresource: str) -> Entry:
    entry: Entry = {"manager": manager, "operation": operation, "apiVersion": api_version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


def _capped(entries: list[Entry]) -> list[Entry]:
    """With at most UPDATES_KEPT entries of updates: the oldest of each version are merged."""
    if len(entries) <= UPDATES_KEPT:
        return entries
    updates = sorted((entry for entry in entries if entry["operation"] == "Update"), key=_age)
    surplus = len(updates) - UPDATES_KEPT
    if surplus <= 0:
        return entries
    kept = [entry for entry in entries if entry["operation"] != "Update"]
    shared: dict[str, Entry] = {}
    for place, entry in enumerate(updates):
        version = entry["apiVersion"]
        first = shared.get(version)
        if surplus <= 0:
            kept.extend(updates[place:])
            break
        if first is None:
            shared[version] = entry
        else:
            fields = union(first["fieldsV1"], entry["fieldsV1"])
            shared[version] = _entry(OLD_UPDATES, "Update", version, entry.get("time", ""), fields, "")
            surplus -= 1
    return kept + list(shared.values())


def _age(entry: Entry) -> tuple[str, str, str]:
    return entry.get("time", ""), entry.get("manager", ""), entry.get("subresource", "")


def _ordered(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=_place) if len(entries) > 1 else entries


def _place(entry: Entry) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time", ""),
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


# -- kubectl's older way of applying, which keeps the whole configuration in an annotation
#
# A server-side apply by `kubectl` takes over what the older way applied and nobody has changed since. It also updates the
# annotation, so that both ways can be mixed. Other managers get none of this.

MANAGER = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LARGEST = 256 * 1024
"""Limit for all annotations of an object, in bytes. Beyond it the annotation is removed."""

_encode = msgspec.json.Encoder(order="sorted").encode


def taken_over(schema: Node, live: Object | None, manager: str, api_version: str) -> Fields:
    """The fields that kubectl set in the older way and that still have that value. They do not conflict with its apply."""
    text = _annotations(live).get(LAST_APPLIED) if manager == MANAGER and live is not None else None
    if not text:
        return {}
    try:
        last = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    if not isinstance(last, dict) or too_deep(last) or last.get("apiVersion") != api_version:
        return {}
    errors: list[str] = []
    fields = mentioned(schema, last, "", errors)
    if errors or not fields:
        return {}
    changed, gone = map_differences(schema, last, live)
    return difference(difference(fields, changed), gone)


def remembered(result: Object, applied: Object, manager: str) -> Object:
    """The object. If it has the annotation, it now says what was just applied."""
    annotations = _annotations(result)
    if manager != MANAGER or not annotations.get(LAST_APPLIED):
        return result
    text = _encode(_without_annotation(applied)).decode() + "\n"
    if text == annotations[LAST_APPLIED]:
        return result
    made = {**annotations, LAST_APPLIED: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in made.items()) > LARGEST:
        del made[LAST_APPLIED]
    return {**result, "metadata": {**result["metadata"], "annotations": made}}


def _annotations(obj: Object | None) -> dict[str, Any]:
    metadata = (obj or {}).get("metadata") or {}
    found: dict[str, Any] = metadata.get("annotations") or {}
    return found


def _without_annotation(applied: Object) -> Object:
    metadata = dict(applied.get("metadata") or {})
    kept = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED}
    return {**applied, "metadata": {**metadata, "annotations": kept} if kept else metadata}
