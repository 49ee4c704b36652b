"""Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch.

Pure functions: the result shares unchanged parts with the object. Errors are a real server's: 400 for a malformed patch, 422
for one that does not fit the object.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dds_lab.api.bodies import too_deep
from dds_lab.api.kinds import Object
from dds_lab.api.schema import Node
from dds_lab.api.status import ApiError, bad_request, internal, rejected_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]

_GONE: Any = object()
MOST_OPERATIONS = 10_000
MOST_COPIED = 3 * 1024 * 1024
"""Limit for the sum of all `copy` operations of one patch, in bytes."""


def merge_patch(obj: Object, patch: Any) -> Object:
    """The object after a merge patch; null removes a member. ApiError 400 unless the patch is an object."""
    if not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: {not_an_object(patch)}")
    return _merged(obj, patch)


def _merged(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    changed = not isinstance(target, dict)
    for name, value in patch.items():
        if value is None:
            changed |= out.pop(name, _GONE) is not _GONE
            continue
        before = out.get(name, _GONE)
        after = _merged(before, value) if isinstance(value, dict) else value
        if after is not before:
            out[name] = after
            changed = True
    return out if changed else target


def not_an_object(value: Any) -> str:
    """Go's error text for a JSON value that is not an object."""
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number", type(None): "null"}
    return f"json: cannot unmarshal {names.get(type(value), 'value')} into Go value of type map[string]interface {{}}"


def json_patch(obj: Object, operations: Any) -> Object:
    """The object after all operations in order, or none. ApiError 400 unless `operations` is a list of operations, 413 for too
    many. ApiError 422, without a reason as on a real server, if one fails or is unknown, or if the result is nested too
    deep."""
    _check_operations(operations)
    try:
        document = _patched(obj, operations)
    except RecursionError:
        raise rejected_patch() from None
    if not isinstance(document, dict) or too_deep(document):
        raise rejected_patch()
    return document


def _patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    copied = 0
    for operation in operations:
        kind, path = operation.get("op"), _tokens(operation.get("path"))
        if kind == "copy":
            value = _get(document, _tokens(operation.get("from")))
            copied += len(msgspec.json.encode(value))
            if copied > MOST_COPIED:
                raise rejected_patch()
            document = _add(document, path, value)
        elif kind == "move":
            origin = _tokens(operation.get("from"))
            if len(origin) < len(path) and path[: len(origin)] == origin:
                raise rejected_patch()
            value = _get(document, origin)
            document = _add(_remove(document, origin), path, value)
        elif kind == "test":
            _test(document, path, operation.get("value"))
        elif kind == "add":
            document = _add(document, path, operation.get("value"))
        elif kind == "replace":
            document = _replace(document, path, operation.get("value"))
        elif kind == "remove":
            document = _remove(document, path)
        else:
            raise rejected_patch()
    return document


def _check_operations(operations: Any) -> None:
    if not isinstance(operations, list):
        words = not_an_object(operations).split(" into ")[0]
        if isinstance(operations, dict):
            words = "json: cannot unmarshal object"
        raise bad_request(f"error decoding patch: {words} into Go value of type []handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            words = not_an_object(operation).split(" into ")[0]
            raise bad_request(f"error decoding patch: {words} into Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if not isinstance(operation.get(name, ""), str | None):
                words = not_an_object(operation[name]).split(" into ")[0]
                words = f"{words} into Go struct field jsonPatchOp.{name} of type string"
                raise bad_request(f"error decoding patch: {words}")
    if len(operations) > MOST_OPERATIONS:
        words = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", words)


def _tokens(pointer: Any) -> list[str]:
    if pointer == "":
        return []
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise rejected_patch()
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def _get(document: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(document, token, len(document) - 1)]
        else:
            raise rejected_patch()
    return document


def _index(items: list[Any], token: str, last: int) -> int:
    """The list index that a token names. Negative ones count from the end, as in the real server's library."""
    digits = token.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (digits != "0" and digits.startswith("0")) or len(digits) > 9:
        raise rejected_patch()
    place = int(token)
    if place < 0:
        place += last + 1
    if not 0 <= place <= last:
        raise rejected_patch()
    return place


def _inside(document: Any, path: list[str], change: Any) -> Any:
    """The document with `change(container, last token)` applied to a copy of the container at the path's end."""
    token = path[0]
    if not isinstance(document, dict | list):
        raise rejected_patch()
    copy = document.copy()
    if len(path) == 1:
        change(copy, token)
        return copy
    if isinstance(copy, dict):
        if token not in copy:
            raise rejected_patch()
        copy[token] = _inside(copy[token], path[1:], change)
    else:
        place = _index(copy, token, len(copy) - 1)
        copy[place] = _inside(copy[place], path[1:], change)
    return copy


def _add(document: Any, path: list[str], value: Any) -> Any:
    def change(container: Any, token: str) -> None:
        if isinstance(container, dict):
            container[token] = value
        elif token == "-":
            container.append(value)
        else:
            container.insert(_index(container, token, len(container)), value)

    return _inside(document, path, change) if path else value


def _replace(document: Any, path: list[str], value: Any) -> Any:
    def change(container: Any, token: str) -> None:
        if isinstance(container, list):
            container[_index(container, token, len(container) - 1)] = value
        elif token in container:
            container[token] = value
        else:
            raise rejected_patch()

    return _inside(document, path, change) if path else value


def _remove(document: Any, path: list[str]) -> Any:
    def change(container: Any, token: str) -> None:
        if isinstance(container, list):
            del container[_index(container, token, len(container) - 1)]
        elif token in container:
            del container[token]
        else:
            raise rejected_patch()

    if not path:
        raise rejected_patch()
    return _inside(document, path, change)


def _test(document: Any, path: list[str], expected: Any) -> None:
    """A missing member equals null, as in the real server's library. Any other missing path fails."""
    if path and expected is None:
        parent = _get(document, path[:-1])
        if isinstance(parent, dict) and parent.get(path[-1]) is None:
            return
    if not equal(_get(document, path), expected):
        raise rejected_patch()


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON values. Unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(mine, yours) for mine, yours in zip(one, other, strict=True))
    return bool(one == other)


# -- strategic merge patch: the schema says which lists are merged, and by which key
#
# Directives: `$patch: replace` and `$patch: delete` in objects and list entries, `$deleteFromPrimitiveList/x`,
# `$setElementOrder/x`, `$retainKeys`. As in a real server, entries that a patch adds come before those that it does not
# mention. Patches of custom kinds never get here: they are answered with 415.

PATCH = "$patch"
RETAIN = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList"
ORDER = "$setElementOrder"

_UNTYPED = Node("any")


def strategic_patch(schema: Node, obj: Object, patch: Any) -> Object:
    """The object with `patch` merged in along the schema. ApiError 400, 422 or 500 for a bad patch, as on a real server."""
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
    """`$retainKeys` lists all fields that may stay. Others are removed, and the patch may not set them."""
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
    """A value without counterpart in the object: without directives and nulls. _GONE if it only says what to delete."""
    if isinstance(value, dict):
        if PATCH in value:
            return _GONE
        inner = {name: _plain(below) for name, below in value.items() if below is not None and not name.startswith("$")}
        return {name: below for name, below in inner.items() if below is not _GONE}
    if isinstance(value, list):
        return [below for below in map(_plain, value) if below is not _GONE]
    return value


def _merge_value(node: Node, original: Any, value: Any) -> Any:
    """Merge a field that both the object and the patch have."""
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
    """Whether the entries are objects. ApiError for lists, and for objects mixed with plain values."""
    kinds = {type(value) for values in lists for value in values}
    if list in kinds:
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    if dict in kinds and len(kinds) > 1:
        raise internal("list element types are not identical")
    return dict in kinds


def _special(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """(the original without the entries that the patch deletes, the entries that the patch adds or changes)"""
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
    """Entries in `wanted` take that order. The others keep theirs; one comes before a wanted entry only if it did in
    `server`."""

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
    """Merge the list whose order the patch gives, and remove it from the patch."""
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
    """The entries of the patch must all be in the order list, in the same order."""
    kept = [entry for entry in given if not (isinstance(entry, dict) and PATCH in entry)]
    places = []
    for entry in kept:
        if key and isinstance(entry, dict):
            places.append(_find(order, key, _key(entry, key)))
        else:
            places.append(order.index(entry) if entry in order else -1)
    if -1 in places or places != sorted(places):
        raise internal(f"The order in patch list:\n{kept}\n doesn't match {directive} list:\n{order}\n")
