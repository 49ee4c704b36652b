"""Kubernetes' strategic merge patch: a merge patch that knows by the schema which lists are merged, and by which key.

Directives: `$patch: replace` and `$patch: delete` in objects and list entries, `$deleteFromPrimitiveList/x`,
`$setElementOrder/x`, `$retainKeys`. Entries that a patch adds come before those that it does not mention, as in the real
server. Only for built-in kinds: a server answers 415 for custom ones before it comes here.
"""

from typing import Any

from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.schema import Node
from dds_adapters.lab.api.status import ApiError, bad_request, internal

PATCH = "$patch"
RETAIN = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList"
ORDER = "$setElementOrder"

_UNTYPED = Node("any")
_GONE: Any = object()


def strategic_patch(schema: Node, obj: Object, patch: Any) -> Object:
    """The object with `patch` merged into it along the schema. ApiError 400, 422 or 500 (as a real server) on a bad patch."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return _merge_map(schema, obj, patch)


def _merge_map(node: Node, original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.get(PATCH, _GONE)
    if directive is not _GONE:
        return _directed(directive, patch)
    out = dict(original)
    rest = dict(patch)
    _retain(out, rest)
    for name in [name for name in rest if name.startswith(ORDER)]:
        _merge_ordered(node, out, rest, name)
    for name, value in rest.items():
        if name.startswith(DELETE_FROM):
            _delete_values(out, _named(name, DELETE_FROM), value)
        elif value is None:
            out.pop(name, None)
        elif name not in out:
            fresh = _plain(value)
            if fresh is not _GONE:
                out[name] = fresh
        else:
            out[name] = _merge_value(_child(node, name), out[name], value)
    return out


def _directed(directive: Any, patch: dict[str, Any]) -> dict[str, Any]:
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != PATCH}
    if directive == "delete":
        return {}
    raise internal(f"unknown patch type: {directive} in map: {patch}")


def _retain(out: dict[str, Any], patch: dict[str, Any]) -> None:
    """`$retainKeys` lists all that may stay: other fields of the original go, and the patch may not set any other."""
    if RETAIN not in patch:
        return
    names = patch.pop(RETAIN)
    bad = bad_request("invalid patch format of retainKeys")
    if not isinstance(names, list):
        raise bad
    for name, value in patch.items():
        if value is not None and not name.startswith((DELETE_FROM, ORDER)) and name not in names:
            raise bad
    for name in list(out):
        if name not in names:
            del out[name]


def _child(node: Node, name: str) -> Node:
    return node.fields.get(name) or node.items or _UNTYPED


def _named(name: str, directive: str) -> str:
    _, slash, field = name.partition("/")
    if not slash:
        what = "setElementOrder" if directive == ORDER else "primitive list"
        raise bad_request(f"invalid patch format of {what}")
    return field


def _delete_values(out: dict[str, Any], name: str, values: Any) -> None:
    if name not in out:
        return
    if not isinstance(values, list) or not isinstance(out[name], list):
        raise bad_request("invalid patch format of primitive list")
    out[name] = [value for value in out[name] if value not in values]


def _plain(value: Any) -> Any:
    """A value that has no counterpart: without directives and nulls; _GONE for one that only says what to delete."""
    if isinstance(value, dict):
        if PATCH in value:
            return _GONE
        inner = {name: _plain(below) for name, below in value.items() if below is not None and not name.startswith("$")}
        return {name: below for name, below in inner.items() if below is not _GONE}
    if isinstance(value, list):
        return [below for below in map(_plain, value) if below is not _GONE]
    return value


def _merge_value(node: Node, original: Any, value: Any) -> Any:
    """A field that both have."""
    if isinstance(original, dict) and isinstance(value, dict):
        if "replace" in node.patch_strategy:
            return value
        return _merge_map(node, original, value)
    if isinstance(original, list) and isinstance(value, list):
        return _merge_list(node, original, value) if "merge" in node.patch_strategy else value
    return _plain(value) if isinstance(value, dict) else value


def _merge_list(node: Node, original: list[Any], patch: list[Any]) -> list[Any]:
    if not original and not patch:
        return original
    if not _of_maps(original, patch):
        merged = _distinct([*original, *patch])
        return _in_order(merged, patch, original, "")
    key = node.patch_key
    if not key:
        raise internal(f"cannot merge lists without merge key for {node.name or 'the list'}")
    server, additions = _special(original, patch, key)
    merged = list(server)
    for entry in additions:
        place = _find(merged, key, _key(entry, key))
        if place < 0:
            merged.append(_plain(entry))
        else:
            merged[place] = _merge_map(node.items or _UNTYPED, merged[place], entry)
    return _in_order(merged, additions, server, key)


def _of_maps(*lists: list[Any]) -> bool:
    """Whether the entries are objects. A list holds either objects or plain values, and no lists."""
    kinds = {type(value) for values in lists for value in values}
    if list in kinds:
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    if dict in kinds and len(kinds) > 1:
        raise internal("list element types are not identical")
    return dict in kinds


def _special(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """(original without entries that the patch deletes, entries that the patch brings)."""
    additions: list[Any] = []
    replace = False
    for entry in patch:
        directive = entry.get(PATCH, _GONE)
        if directive is _GONE:
            additions.append(entry)
        elif directive == "delete":
            gone = _key(entry, key)
            original = [mine for mine in original if mine.get(key, _GONE) != gone]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise internal("merging lists cannot yet be specified in the patch")
        else:
            raise internal(f"unknown patch type: {directive} in map: {entry}")
    return ([] if replace else original), additions


def _key(entry: dict[str, Any], key: str) -> Any:
    if key not in entry:
        raise internal(f"map: {entry} does not contain declared merge key: {key}")
    return entry[key]


def _find(entries: list[Any], key: str, value: Any) -> int:
    for place, entry in enumerate(entries):
        if entry.get(key, _GONE) == value:
            return place
    return -1


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _in_order(merged: list[Any], wanted: list[Any], server: list[Any], key: str) -> list[Any]:
    """Entries that `wanted` names in its order; the others keep theirs, and stay before a wanted one only if they were
    before it in `server`."""

    def rank(values: list[Any], entry: Any) -> int:
        if key:
            return _find(values, key, entry.get(key, _GONE))
        return values.index(entry) if entry in values else -1

    ours = sorted((entry for entry in merged if rank(wanted, entry) >= 0), key=lambda entry: rank(wanted, entry))
    others = sorted((entry for entry in merged if rank(wanted, entry) < 0), key=lambda entry: rank(server, entry))
    out: list[Any] = []
    while ours and others:
        left, right = rank(server, others[0]), rank(server, ours[0])
        out.append(others.pop(0) if 0 <= left < right else ours.pop(0))
    return out + ours + others


def _merge_ordered(node: Node, out: dict[str, Any], patch: dict[str, Any], directive: str) -> None:
    """A list whose order the patch gives, merged and taken out of the patch."""
    order = patch.pop(directive)
    name = _named(directive, ORDER)
    node = _child(node, name)
    original, given = out.get(name, _GONE), patch.pop(name, _GONE)
    if given is None:
        out.pop(name, None)
        return
    if any(value is not _GONE and not isinstance(value, list) for value in (order, original, given)):
        raise internal(f"expected a list for {directive} and {name}")
    if original is _GONE and given is _GONE:
        return
    key = node.patch_key if _of_maps(order) else ""
    if given is not _GONE:
        _check_order(given, order, key, directive)
    if original is _GONE:
        merged = _plain(given)
    elif given is _GONE:
        merged = original
    else:
        merged = _merge_value(node, original, given)
    _of_maps(merged, order)
    out[name] = _in_order(merged, order, [] if original is _GONE else original, key)


def _check_order(given: list[Any], order: list[Any], key: str, directive: str) -> None:
    """What the patch brings is named in the order list, and in the same order."""
    kept = [entry for entry in given if not (isinstance(entry, dict) and PATCH in entry)]
    places = []
    for entry in kept:
        if key and isinstance(entry, dict):
            places.append(_find(order, key, _key(entry, key)))
        else:
            places.append(order.index(entry) if entry in order else -1)
    if -1 in places or places != sorted(places):
        raise internal(f"The order in patch list:\n{kept}\n doesn't match {directive} list:\n{order}\n")
