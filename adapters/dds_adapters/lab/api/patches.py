"""The patches that clients send: JSON patch (RFC 6902), JSON merge patch (RFC 7386), and Kubernetes' strategic merge patch.

Pure functions: the object and the patch stay as they are, the outcome shares what did not change. What cannot be done is
said as a real server says it: 400 for a patch that is none, 422 for one that does not fit the object.
"""

from typing import Any

import msgspec

from dds_adapters.lab.api.bodies import too_deep
from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.status import ApiError, bad_request, rejected_patch
from dds_adapters.lab.api.strategic import strategic_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]

MOST_OPERATIONS = 10_000
MOST_COPIED = 3 * 1024 * 1024
"""Bytes that the `copy` operations of one patch may add up to."""

_NOTHING: Any = object()


def merge_patch(obj: Object, patch: Any) -> Object:
    """The object with the members of `patch` laid over it, null removing one (RFC 7386). ApiError 400 unless it is an object."""
    if not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: {not_an_object(patch)}")
    return _merged(obj, patch)


def _merged(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    changed = not isinstance(target, dict)
    for name, value in patch.items():
        if value is None:
            changed |= out.pop(name, _NOTHING) is not _NOTHING
            continue
        before = out.get(name, _NOTHING)
        after = _merged(before, value) if isinstance(value, dict) else value
        if after is not before:
            out[name] = after
            changed = True
    return out if changed else target


def not_an_object(value: Any) -> str:
    """What Go says of a JSON value that is not an object."""
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number", type(None): "null"}
    return f"json: cannot unmarshal {names.get(type(value), 'value')} into Go value of type map[string]interface {{}}"


def json_patch(obj: Object, operations: Any) -> Object:
    """The object after all operations in order (RFC 6902), or none of them.

    ApiError 400 for what is no list of operations, 413 for too many, 422 when one cannot be carried out (a test that fails,
    a path that is not there, an unknown operation) or the outcome is nested too deeply: a real server does not say which.
    """
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
    """A JSON pointer (RFC 6901) in its parts."""
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
    """The place in a list that a token names; from the end when negative (as the real server's library has it)."""
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
    """The document with `change(container, last token)` done to a copy of the container at the path's end."""
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
    """A member that is not there equals null, as in the real server's library; every other missing place fails."""
    if path and expected is None:
        parent = _get(document, path[:-1])
        if isinstance(parent, dict) and parent.get(path[-1]) is None:
            return
    if not equal(_get(document, path), expected):
        raise rejected_patch()


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(mine, yours) for mine, yours in zip(one, other, strict=True))
    return bool(one == other)
