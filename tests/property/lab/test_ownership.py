"""Patches and owners hold their laws whatever is sent: against definitions, naive references and each other."""

import copy
import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from dds_lab.api import ownership
from dds_lab.api.kinds import Object
from dds_lab.api.ownership.fields import Fields, difference, intersection, paths, union
from dds_lab.api.patches import equal, json_patch, merge_patch, strategic_patch
from dds_lab.api.rules.definitions import node_of
from dds_lab.api.schema import Node
from dds_lab.api.status import ApiError
from tests.property.streams import QUICK

# -- patches -----------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c", "a/b", "~", "0", ""])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["", "x", "y"]))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)


def merged_by_definition(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word by word."""
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        target = dict(target)
        for name, value in patch.items():
            if value is None:
                target.pop(name, None)
            else:
                target[name] = merged_by_definition(target.get(name), value)
        return target
    return patch


@QUICK
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_its_definition(obj: Object, patch: Object) -> None:
    before = copy.deepcopy((obj, patch))
    assert equal(merge_patch(obj, patch), merged_by_definition(obj, patch))
    assert (obj, patch) == before


def without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_lists(below) for name, below in value.items()}
    return len(value) if isinstance(value, list) else value


@QUICK
@given(OBJECTS, OBJECTS)
def test_a_strategic_patch_without_lists_is_a_merge_patch(obj: Object, patch: Object) -> None:
    obj, patch = without_lists(obj), without_lists(patch)
    assert equal(strategic_patch(Node("any"), obj, patch), merge_patch(obj, patch))


class Failed(Exception):
    """The naive patch cannot be carried out."""


def naively_patched(document: Any, operations: list[Object]) -> Any:
    """RFC 6902 on a deep copy, each step as its section says it."""
    document = copy.deepcopy(document)
    for operation in operations:
        kind, path = operation["op"], operation["path"]
        if kind in ("add", "replace"):
            if kind == "replace":
                looked_up(document, path)
            document = put(document, path, copy.deepcopy(operation["value"]), kind == "add")
        elif kind == "remove":
            document = taken_out(document, path)
        elif kind == "move":
            value = looked_up(document, operation["from"])
            if path.startswith(operation["from"] + "/"):
                raise Failed
            document = put(taken_out(document, operation["from"]), path, value, True)
        elif kind == "copy":
            document = put(document, path, copy.deepcopy(looked_up(document, operation["from"])), True)
        elif json.dumps(looked_up(document, path), sort_keys=True) != json.dumps(operation["value"], sort_keys=True):
            raise Failed
    return document


def split(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def looked_up(document: Any, pointer: str) -> Any:
    for part in split(pointer):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            raise Failed
    return document


def put(document: Any, pointer: str, value: Any, insert: bool) -> Any:
    if not pointer:
        return value
    parent, last = looked_up(document, pointer.rpartition("/")[0]), split(pointer)[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and last.isdigit() and int(last) <= len(parent) - (not insert):
        parent[int(last) : int(last) + (not insert)] = [value]
    else:
        raise Failed
    return document


def taken_out(document: Any, pointer: str) -> Any:
    looked_up(document, pointer)
    if not pointer:
        raise Failed
    parent, last = looked_up(document, pointer.rpartition("/")[0]), split(pointer)[-1]
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]
    return document


PARTS = st.sampled_from(["a", "b", "c", "a~1b", "~0", "0", "1", "", "-"])
POINTERS = st.lists(PARTS, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "test"]), "path": POINTERS, "value": JSON}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": POINTERS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "path": POINTERS, "from": POINTERS}),
)


@QUICK
@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_json_patch_is_what_a_naive_one_does(obj: Object, operations: list[Object]) -> None:
    assume(not any(one["op"] == "test" and one["value"] is None for one in operations))  # the real server's own rule
    before = copy.deepcopy((obj, operations))
    try:
        expected = naively_patched(obj, operations)
    except Failed:
        expected = None
    try:
        outcome: Any = json_patch(obj, operations)
    except ApiError as refused:
        assert refused.code == 422
        outcome = None
    assert equal(outcome, expected if isinstance(expected, dict) else None)
    assert (obj, operations) == before


# -- sets of fields ----------------------------------------------------------------------------------------------------

PATHS = st.frozensets(st.lists(st.sampled_from(["f:a", "f:b", 'v:"x"']), min_size=1, max_size=3).map(tuple), max_size=6)


def tree(members: frozenset[tuple[str, ...]]) -> Fields:
    """The set of these paths, built from its definition."""

    def below(prefix: tuple[str, ...]) -> Fields:
        names = sorted(
            {path[len(prefix)] for path in members if path[: len(prefix)] == prefix and len(path) > len(prefix)}
        )
        found = {name: below((*prefix, name)) for name in names}
        return {".": {}, **found} if found and prefix in members else found

    return below(())


@QUICK
@given(PATHS, PATHS)
def test_sets_of_fields_are_sets(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> None:
    left, right = tree(one), tree(other)
    assert union(left, right) == tree(one | other)
    assert difference(left, right) == tree(one - other)
    assert intersection(left, right) == tree(one & other)
    assert len(list(paths(left))) == len(one)


# -- owners ------------------------------------------------------------------------------------------------------------

ENTRY = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    },
}
SCHEMA = node_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "entries": {
                        "type": "array",
                        "items": ENTRY,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            }
        },
    },
    root=True,
)
NAMES = ["k", "l", "m"]
TAGS = st.lists(st.sampled_from(["s", "t"]), unique=True, min_size=1)


def entry(name: str) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({"name": st.just(name)}, optional={"value": st.integers(0, 2), "tags": TAGS})


def entries(names: list[str]) -> st.SearchStrategy[list[Object]]:
    some = st.lists(st.sampled_from(names), unique=True, min_size=1)
    return some.flatmap(lambda chosen: st.tuples(*(entry(name) for name in chosen))).map(list)


def specs(names: list[str]) -> st.SearchStrategy[Object]:
    labels = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1"]), min_size=1)
    return st.fixed_dictionaries({}, optional={"size": st.integers(0, 2), "labels": labels, "entries": entries(names)})


SPECS = specs(NAMES)
MANAGERS = st.sampled_from(["one", "two", "three"])


def apply(live: Object | None, manager: str, spec: Object, force: bool = False) -> Object:
    patch: Object = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}}
    if spec:
        patch["spec"] = spec
    return ownership.applied(SCHEMA, live, patch, manager, "", "g/v1", "2026-01-01T00:00:00Z", force)


def update(live: Object | None, manager: str, spec: Object) -> Object:
    new = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}
    managed = ownership.updated(SCHEMA, live, new, manager, "", "g/v1", "2026-01-01T00:00:00Z")
    return {**new, "metadata": {"name": "x", "managedFields": managed}}


WRITES = st.lists(st.tuples(st.sampled_from([apply, update]), MANAGERS, SPECS), max_size=5)


def written(writes: list[tuple[Any, str, Object]]) -> Object:
    """An object with a history; it starts as somebody's creation."""
    live = update(None, "maker", {})
    for how, manager, spec in writes:
        live = how(live, manager, spec, force=True) if how is apply else how(live, manager, spec)
    return live


def plain(obj: Object) -> Any:
    """What is in an object, whatever the order of its entries, and with emptied containers left out."""
    spec = {name: value for name, value in obj.get("spec", {}).items() if value not in ({}, [], None)}
    if "entries" in spec:
        spec["entries"] = {one["name"]: {**one, "tags": sorted(one.get("tags", []))} for one in spec["entries"]}
    return spec


def covers(value: Any, config: Any) -> bool:
    """Whether everything that a configuration says is so in the value."""
    if isinstance(config, dict):
        return isinstance(value, dict) and all(covers(value.get(name), below) for name, below in config.items())
    if isinstance(config, list) and config and isinstance(config[0], dict):
        found = {one["name"]: one for one in value or []}
        return all(one["name"] in found and covers(found[one["name"]], one) for one in config)
    return set(config) <= set(value or []) if isinstance(config, list) else bool(value == config)


def owned(obj: Object) -> dict[tuple[str, str], Fields]:
    managed = obj["metadata"].get("managedFields", [])
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in managed}


@QUICK
@given(WRITES, MANAGERS, SPECS)
def test_apply_is_idempotent_and_does_what_it_says(writes: Any, manager: str, spec: Object) -> None:
    live = written(writes)
    before = copy.deepcopy(live)
    once = apply(live, manager, spec, force=True)
    assert live == before
    assert covers(once["spec"] if spec else {}, spec)
    assert apply(once, manager, spec) is once, "and without force: nobody else owns another value"


@QUICK
@given(WRITES, MANAGERS, SPECS)
def test_an_apply_without_conflict_is_the_same_with_force(writes: Any, manager: str, spec: Object) -> None:
    live = written(writes)
    assume(owned(live))  # an object whose owners are all gone gets one that stands for everybody before
    forced = apply(live, manager, spec, force=True)
    try:
        asked = apply(live, manager, spec)
    except ApiError as refused:
        assert refused.code == 409
        owners = {key: fields for key, fields in owned(live).items() if key != (manager, "Apply")}
        lost = {
            path for key, fields in owners.items() for path in paths(difference(fields, owned(forced).get(key, {})))
        }
        assert {cause["field"] for cause in refused.causes} <= lost, "each conflict is about what force takes away"
    else:
        assert asked == forced


@QUICK
@given(WRITES, specs(["k"]), specs(["l", "m"]))
def test_managers_of_different_entries_never_meet(writes: Any, first: Object, second: Object) -> None:
    mine = {"entries": first.get("entries", [])}
    yours = {"entries": second.get("entries", [])}
    start = update(None, "maker", {})
    one = apply(apply(start, "one", mine), "two", yours)
    other = apply(apply(start, "two", yours), "one", mine)
    assert plain(one) == plain(other)
    assert owned(one) == owned(other)
    assert covers(one.get("spec", {}), {key: value for key, value in mine.items() if value})
    gone = apply(one, "one", {})
    assert plain(gone) == plain(apply(start, "two", yours))


@QUICK
@given(SPECS, SPECS)
def test_forced_and_dropped_leaves_what_nobody_else_had(first: Object, second: Object) -> None:
    """Who forces his way and then leaves takes along what he took; what he did not touch stays as it was."""
    live = apply(update(None, "maker", {}), "one", first)
    left = apply(apply(live, "two", second, force=True), "two", {})
    assert ("two", "Apply") not in owned(left)
    restored = apply(left, "one", first)
    assert plain(restored) == plain(live)


@QUICK
@given(WRITES, MANAGERS, SPECS)
def test_nobody_owns_what_is_not_there(writes: Any, manager: str, spec: Object) -> None:
    """After an update every owned field is in the object, and whoever lost everything has no entry."""
    live = update(written(writes), manager, spec)
    everything = owned(update(None, "all", live["spec"])).get(("all", "Update"), {})
    applied_last = {key for key in owned(live) if key[1] == "Apply"}
    for key, fields in owned(live).items():
        assert fields
        if key not in applied_last:
            assert difference(fields, everything) == {}, key


@QUICK
@given(WRITES, MANAGERS, SPECS)
def test_an_update_that_changes_nothing_changes_no_owner(writes: Any, manager: str, spec: Object) -> None:
    live = written(writes)
    same = copy.deepcopy(live)
    managed = ownership.updated(SCHEMA, live, same, manager, "", "g/v1", "later")
    assert managed == live["metadata"].get("managedFields", [])


@QUICK
@given(st.lists(st.tuples(MANAGERS, SPECS), max_size=4))
def test_what_only_appliers_wrote_is_exactly_what_they_own(applies: list[tuple[str, Object]]) -> None:
    live = update(None, "maker", {})
    for manager, spec in applies:
        live = apply(live, manager, spec, force=True)
    for manager, _ in applies:
        live = apply(live, manager, {})
    assert plain(live) == {}
    assert [key for key in owned(live) if key[1] == "Apply"] == []
