"""Sets of fields in the form of fieldsV1, and walks over objects along their schema: differences, mentions, merge, removal.

A set is a tree of dicts. A key is one element of a path: `f:name` (a field), `k:{"type":"Ready"}` (an entry of a keyed list) or
`v:"text"` (a value of a set). An empty dict is a member. A dict with "." is a member with members below it; one without "." is
only on the way to them. The root is never a member, so `{}` at the root is the empty set. Sets never change in place and share
their parts; an operation that changes nothing returns the same set.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from dds_lab.api.schema import EMPTY, MISSING, Node

Fields = dict[str, Any]

MEMBER: Fields = {}
SELF = "."

_encode = msgspec.json.Encoder(order="deterministic").encode


def union(one: Fields, other: Fields) -> Fields:
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
    """The members of the first set that are not in the second. A member of the second removes nothing below itself."""
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
    """The difference below one child; None if nothing is left."""
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
    """Whether a child (None if absent) is itself a member."""
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
    """Whether a value from a client is a set of fields."""
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
    """The path element of an entry of a keyed list, from its key values."""
    return "k:" + _encode(keys).decode()


def value_of(value: Any) -> str:
    """The path element of a value of a set."""
    return "v:" + _encode(value).decode()


# -- walks over granular positions (objects, maps, keyed lists, sets); everything else is one leaf
#
# Parts that are the same Python object on both sides are skipped. That makes small changes of large objects cheap.

ANYTHING = Node("any", preserve_unknown=True)
"""For fields that are not declared: maps are granular, lists and scalars are leaves."""

_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "string"),
    "time": ((str,), "string"),
    "microtime": ((str,), "string"),
    "bytes": ((str,), "string"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
    "boolean": ((bool,), "boolean"),
}


_KEY_DEFAULTS = {("ContainerPort", "protocol"): "TCP"}
"""Key fields of built-in kinds that a server fills in, by type and field. An entry without the field has this value."""


def is_map(node: Node, value: Any) -> bool:
    """Whether each field has its own owners."""
    if node.type in ("object", "map"):
        return not node.atomic
    return node.type == "any" and node.preserve_unknown and isinstance(value, dict)


def is_list(node: Node) -> bool:
    """Whether each entry has its own owners."""
    return node.type == "list" and node.list_type != "atomic"


def child(node: Node, name: str) -> Node:
    """The node of a field; ANYTHING if it is not declared."""
    return node.fields.get(name) or node.items or ANYTHING


def differences(node: Node, old: Any, new: Any) -> tuple[Fields | None, Fields | None]:
    """(new or changed fields, removed fields): None for none, `{}` for this position itself. MISSING is an absent side; at most
    one may be absent."""
    if old is new:
        return None, None
    if is_map(node, old if new is MISSING else new):
        if (isinstance(old, dict) and old) or (isinstance(new, dict) and new):
            taken, gone = map_differences(node, old, new)
            return _own(taken, old), _own(gone, new)
    elif is_list(node) and ((isinstance(old, list) and old) or (isinstance(new, list) and new)):
        taken, gone = _list_differences(node, old, new)
        return _own(taken, old), _own(gone, new)
    if old is MISSING:
        return MEMBER, None
    if new is MISSING:
        return None, MEMBER
    return (None, None) if old == new else (MEMBER, None)


def _own(below: Fields, other: Any) -> Fields | None:
    """A container that is absent on the other side is itself a difference."""
    if other is not MISSING:
        return below or None
    return {SELF: MEMBER, **below} if below else MEMBER


def map_differences(node: Node, old: Any, new: Any, leave: frozenset[str] = frozenset()) -> tuple[Fields, Fields]:
    """`differences` of the fields of an object or map, without those in `leave`."""
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    zeros = EMPTY if old is MISSING else node.zeros  # a field that is always there needs no owner
    taken: Fields = {}
    gone: Fields = {}
    for name, value in after.items():
        previous = before.get(name, MISSING)
        if previous is value or name in leave:
            continue
        if previous is MISSING and name in zeros:
            previous = zeros[name]
        more, less = differences(child(node, name), previous, value)
        if more is not None:
            taken[f"f:{name}"] = more
        if less is not None:
            gone[f"f:{name}"] = less
    for name, value in before.items():
        if name not in after and name not in leave:
            less = differences(child(node, name), value, MISSING)[1]
            if less is not None:
                gone[f"f:{name}"] = less
    return _sorted(taken), _sorted(gone)


def _list_differences(node: Node, old: Any, new: Any) -> tuple[Fields, Fields]:
    before, after = _entries(node, old), _entries(node, new)
    item = node.items or ANYTHING
    taken: Fields = {}
    gone: Fields = {}
    for element, value in after.items():
        more, less = differences(item, before.get(element, MISSING), value)
        if more is not None:
            taken[element] = more
        if less is not None:
            gone[element] = less
    for element, value in before.items():
        if element not in after:
            less = differences(item, value, MISSING)[1]
            if less is not None:
                gone[element] = less
    return _sorted(taken), _sorted(gone)


def _entries(node: Node, values: Any) -> dict[str, Any]:
    """Entries of a keyed list or set by path element: the first of equal ones, and none without a key."""
    found: dict[str, Any] = {}
    for value in values if isinstance(values, list) else ():
        element, _ = element_of(node, value)
        if element:
            found.setdefault(element, value)
    return found


def element_of(node: Node, value: Any) -> tuple[str, str]:
    """(path element of an entry, "") or ("", what is wrong with it)."""
    if node.list_type == "set":
        if value is None:
            return "", "associative list without keys has an element that's an explicit null"
        if isinstance(value, dict):
            return "", "associative list without keys has an element that's a map type"
        if isinstance(value, list):
            return "", "not supported: associative list with lists as elements"
        return value_of(value), ""
    if value is None:
        return "", "associative list with keys may not have a null element"
    if not isinstance(value, dict):
        return "", "associative list with keys may not have non-map elements"
    keys = {}
    for name in node.list_keys:
        found = value.get(name, MISSING)
        if found is MISSING:
            item = node.items or ANYTHING
            field = item.fields.get(name)
            default = MISSING if field is None else field.default
            found = default if default is not MISSING else _KEY_DEFAULTS.get((item.name, name), MISSING)
        if found is not MISSING:
            keys[name] = found
    if not keys:
        names = " ".join(f'"{name}"' for name in node.list_keys)
        why = f"associative list with keys has an element that omits all key fields [{names}]"
        return "", f"{why} (and doesn't have default values for any key fields)"
    return entry_of(keys), ""


def mentioned(node: Node, value: Any, path: str, errors: list[str]) -> Fields | None:
    """The fields that an applied configuration mentions, in the form of `differences`. Problems are added to `errors`."""
    if node.type in ("object", "map") or is_map(node, value):
        return _mentioned_map(node, value, path, errors)
    if node.type == "list":
        return _mentioned_list(node, value, path, errors)
    expected = _SCALARS.get(node.type)
    if expected is not None and value is not None:
        kinds, words = expected
        if not isinstance(value, kinds) or (isinstance(value, bool) and node.type != "boolean"):
            errors.append(f"{path}: expected {words}, got {value!r}")
    return MEMBER


def _mentioned_map(node: Node, value: Any, path: str, errors: list[str]) -> Fields | None:
    if value is None:
        return MEMBER if node.atomic else None
    if not isinstance(value, dict):
        errors.append(f"{path}: expected map, got {value!r}")
        return None
    found: Fields = {}
    for name, below in value.items():
        if name not in node.fields and node.items is None and not node.preserve_unknown:
            errors.append(f"{path}.{name}: field not declared in schema")
            continue
        inner = mentioned(child(node, name), below, f"{path}.{name}", errors)
        if below is None or below == {}:
            inner = MEMBER
        elif name not in node.fields:
            inner = {SELF: MEMBER, **inner} if inner else MEMBER
        if inner is not None:
            found[f"f:{name}"] = inner
    return MEMBER if node.atomic else _sorted(found) or None


def _mentioned_list(node: Node, value: Any, path: str, errors: list[str]) -> Fields | None:
    if value is None:
        return MEMBER if node.list_type == "atomic" else None
    if not isinstance(value, list):
        errors.append(f"{path}: expected list, got {value!r}")
        return None
    item = node.items or ANYTHING
    if node.list_type == "atomic":
        for index, below in enumerate(value):
            mentioned(item, below, f"{path}[{index}]", errors)
        return MEMBER
    found: Fields = {}
    for index, below in enumerate(value):
        element, wrong = element_of(node, below)
        if wrong:
            errors.append(f"{path}: element {index}: {wrong}")
            continue
        place = shown(element)
        if element in found:
            errors.append(f"{path}: duplicate entries for key {place}")
        inner = mentioned(item, below, path + place, errors)
        found[element] = {SELF: MEMBER, **inner} if inner else MEMBER
    return _sorted(found) or None


def merged(node: Node, live: Any, applied: Any) -> Any:
    """`applied` laid over `live`: nothing is removed, leaves are the applied ones. `live` itself if nothing changes."""
    if live is MISSING or applied is live:
        return applied
    if is_map(node, applied) and isinstance(live, dict) and isinstance(applied, dict):
        return _merged_map(node, live, applied)
    if is_list(node) and isinstance(live, list) and isinstance(applied, list):
        return _merged_list(node, live, applied)
    if is_map(node, applied) and applied is None and live:
        return live
    if is_list(node) and applied is None and live:
        return live
    return live if live == applied and type(live) is type(applied) else applied


def _merged_map(node: Node, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] | None = None
    for name, value in applied.items():
        before = live.get(name, MISSING)
        after = merged(child(node, name), before, value)
        if after is before:
            continue
        if out is None:
            out = dict(live)
        out[name] = after
    return live if out is None else out


def _merged_list(node: Node, live: list[Any], applied: list[Any]) -> list[Any]:
    """Entries of both. Applied ones keep their order; those only in the live list stay before the entry that followed them."""
    left = [(element_of(node, value)[0], value) for value in live]
    right = {element_of(node, value)[0]: value for value in applied}
    before = dict(reversed(left))
    shared = iter([element for element in right if element in before])
    awaited = next(shared, "")
    item = node.items or ANYTHING
    out: list[Any] = []
    at = 0
    for element, value in right.items():
        while at < len(left) and left[at][0] != awaited:
            name, mine = left[at]
            if name not in right:
                out.append(mine)
            at += 1
        out.append(merged(item, before.get(element, MISSING), value))
        if element == awaited:
            awaited = next(shared, "")
            at += 1
    out.extend(value for name, value in left[at:] if name not in right)
    same = len(out) == len(live) and all(one is other for one, other in zip(out, live, strict=True))
    return live if same else out


def without(node: Node, value: Any, fields: Fields) -> Any:
    """The value without a set of fields. A container that loses everything is MISSING; an atomic one is removed whole."""
    if is_map(node, value) and isinstance(value, dict):
        kept: dict[str, Any] = {}
        for name, below in value.items():
            inner = fields.get(f"f:{name}")
            if has(inner):
                continue
            left = without(child(node, name), below, inner) if inner else below
            if left is not MISSING:
                kept[name] = left
        return kept or MISSING
    if is_list(node) and isinstance(value, list):
        items: list[Any] = []
        for below in value:
            inner = fields.get(element_of(node, below)[0])
            if has(inner):
                continue
            left = without(node.items or ANYTHING, below, inner) if inner else below
            if left is not MISSING:
                items.append(left)
        return items or MISSING
    return MISSING if isinstance(value, dict | list) else value


def named(node: Node, fields: Fields) -> Fields:
    """The set with every named field on the way to a member: the owner of `spec.size` keeps `spec` alive."""
    out: Fields | None = None
    for name, below in fields.items():
        if not below or name == SELF:
            continue
        inner = named(_below(node, name), below)
        if SELF not in inner and name[:2] == "f:" and name[2:] in node.fields:
            inner = {SELF: MEMBER, **inner}
        if inner is not below:
            if out is None:
                out = dict(fields)
            out[name] = inner
    return fields if out is None else out


def _below(node: Node, element: str) -> Node:
    if element[:2] == "f:":
        return child(node, element[2:])
    return node.items or ANYTHING


def _sorted(fields: Fields) -> Fields:
    return dict(sorted(fields.items())) if len(fields) > 1 else fields
