"""Sets of fields, in the very form in which an object carries them (fieldsV1).

A set is a tree of dicts. A child is named by one element of a path: `f:name` (a field), `k:{"type":"Ready"}` (the entry of
a keyed list), `v:"text"` (a value of a set). An empty dict is a member; a dict with "." is a member that has members below
it; one without "." is only on the way to them. The root is never a member, so `{}` at the root is the empty set. Sets are
never changed in place and share their parts; an operation that changes nothing gives back the same set.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

Fields = dict[str, Any]

MEMBER: Fields = {}
SELF = "."

_encode = msgspec.json.Encoder(order="deterministic").encode


def union(one: Fields, other: Fields) -> Fields:
    """Everything that is in either."""
    if one is other or not other:
        return one
    if not one:
        return other
    out: Fields | None = None
    grown = False
    for name, theirs in other.items():
        ours = one.get(name)
        if ours is None:
            joined, grown = theirs, True
        else:
            joined = _both(ours, theirs)
            if joined is ours:
                continue
        if out is None:
            out = dict(one)
        out[name] = joined
    if out is None:
        return one
    return dict(sorted(out.items())) if grown else out


def _both(ours: Fields, theirs: Fields) -> Fields:
    """The union below one child, where an empty dict is a member and not an empty set."""
    if not ours:
        return ours if not theirs or (len(theirs) == 1 and SELF in theirs) else {SELF: MEMBER, **theirs}
    if not theirs:
        return ours if SELF in ours else {SELF: MEMBER, **ours}
    return union(ours, theirs)


def difference(one: Fields, other: Fields) -> Fields:
    """What is in the first and not in the second, path by path: a path in the second takes nothing below it along."""
    if not one or not other:
        return one
    out: Fields | None = None
    for name in one if len(one) < len(other) else other:
        ours, theirs = one.get(name), other.get(name)
        if ours is None or theirs is None:
            continue
        left = None if ours is theirs else _rest(ours, theirs)
        if left is ours:
            continue
        if out is None:
            out = dict(one)
        if left is None:
            del out[name]
        else:
            out[name] = left
    return one if out is None else out


def _rest(ours: Fields, theirs: Fields) -> Fields | None:
    """The difference below one child; None when nothing is left."""
    if not ours:
        return ours if theirs and SELF not in theirs else None
    if not theirs:
        if SELF not in ours:
            return ours
        left = {name: below for name, below in ours.items() if name != SELF}
    else:
        left = difference(ours, theirs)
    if left is ours:
        return ours
    if len(left) == 1 and SELF in left:
        return MEMBER
    return left or None


def intersection(one: Fields, other: Fields) -> Fields:
    """What is in both."""
    out: Fields = {}
    for name, ours in one.items():
        theirs = other.get(name)
        if theirs is None:
            continue
        common = _common(ours, theirs)
        if common is not None:
            out[name] = common
    return out


def _common(ours: Fields, theirs: Fields) -> Fields | None:
    if not ours:
        return MEMBER if not theirs or SELF in theirs else None
    if not theirs:
        return MEMBER if SELF in ours else None
    both = intersection(ours, theirs)
    if len(both) == 1 and SELF in both:
        return MEMBER
    return both or None


def has(fields: Fields | None) -> bool:
    """Whether the child that was looked up (None when there is none) is itself a member."""
    return fields is not None and (not fields or SELF in fields)


def paths(fields: Fields, before: str = "") -> Iterator[str]:
    """The members as messages show them, like `.status.conditions[type="Ready"].status`; those nearest the root first."""
    for name, below in fields.items():
        if name != SELF and has(below):
            yield before + shown(name)
    for name, below in fields.items():
        if name != SELF and below:
            yield from paths(below, before + shown(name))


def shown(element: str) -> str:
    """One element of a path as messages show it."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in keys.items()) + "]"
    return f"[={rest}]" if kind == "v:" else f"[{rest}]"


def well_formed(fields: Any) -> bool:
    """Whether this is a set of fields: what clients send need not be one."""
    return isinstance(fields, dict) and all(
        (name == SELF and below == {}) or (_is_element(name) and well_formed(below)) for name, below in fields.items()
    )


def _is_element(name: str) -> bool:
    kind, rest = name[:2], name[2:]
    if kind not in ("k:", "v:", "i:"):
        return kind == "f:"
    try:
        value = msgspec.json.decode(rest)
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) if kind == "k:" else kind == "v:" or isinstance(value, int)


def entry_of(keys: Fields) -> str:
    """The element for an entry of a keyed list, from the values of its keys."""
    return "k:" + _encode(keys).decode()


def value_of(value: Any) -> str:
    """The element for a value of a set."""
    return "v:" + _encode(value).decode()
