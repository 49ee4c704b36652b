"""Server-side apply: who owns what afterwards, what conflicts, what goes; and everything that can be wrong with one."""

import copy
from typing import Any

import pytest

from dds_lab.api import ownership
from dds_lab.api.kinds import Object
from dds_lab.api.packed import kind_node
from dds_lab.api.rules.definitions import node_of
from dds_lab.api.status import ApiError

CLAIM = kind_node("resource.k8s.io", "v1", "ResourceClaim")
POD = kind_node("", "v1", "Pod")
NODE = kind_node("", "v1", "Node")
VERSION = "resource.k8s.io/v1"


def claim(**status: Any) -> Object:
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n", "uid": "u"},
        "spec": {"devices": {"requests": []}},
        "status": status,
    }


def device(name: str, **more: Any) -> Object:
    return {"driver": "d", "pool": "p", "device": name, **more}


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def apply(
    live: Object | None, manager: str, force: bool = False, at: str = "2026-01-01T00:00:00Z", **status: Any
) -> Object:
    patch = {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n"},
        "status": status,
    }
    before = copy.deepcopy((live, patch))
    outcome = ownership.applied(CLAIM, live, patch, manager, "status", VERSION, at, force)
    assert (live, patch) == before, "neither the object nor the configuration may change"
    return outcome


def update(live: Object, manager: str, at: str = "2026-01-01T00:00:00Z", **status: Any) -> Object:
    new = {**live, "status": status}
    managed = ownership.updated(CLAIM, live, new, manager, "status", VERSION, at)
    return {**new, "metadata": {**live["metadata"], "managedFields": managed}}


def created(**status: Any) -> Object:
    new = claim(**status)
    managed = ownership.updated(CLAIM, None, new, "maker", "", VERSION, "2025-12-31T00:00:00Z")
    return {**new, "metadata": {**new["metadata"], "managedFields": managed}}


def owners(obj: Object) -> dict[tuple[str, str], Object]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])
    }


def names(obj: Object) -> list[str]:
    return [entry["device"] for entry in obj.get("status", {}).get("devices", [])]


def test_equal_values_are_shared_and_survive_the_first_who_leaves() -> None:
    both = apply(apply(created(), "a", devices=[device("x")]), "b", devices=[device("x")])
    assert owners(both)["a", "Apply"] == owners(both)["b", "Apply"]
    one = apply(both, "a", devices=[])
    assert names(one) == ["x"]
    assert ("a", "Apply") not in owners(one)
    none = apply(one, "b", devices=[])
    assert names(none) == []
    assert ("b", "Apply") not in owners(none)


def test_a_new_manager_of_what_is_there_has_no_time() -> None:
    """As in a real server: an apply that does not change the object stamps nothing."""
    shared = apply(apply(created(), "a", devices=[device("x")]), "b", devices=[device("x")])
    entry = next(entry for entry in shared["metadata"]["managedFields"] if entry["manager"] == "b")
    assert "time" not in entry


def test_all_conflicts_are_named_by_owner() -> None:
    live = apply(created(), "zoe", devices=[device("x", conditions=[condition("Ready")])])
    live = update(live, "al", **{**live["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]})
    with pytest.raises(ApiError) as refused:
        apply(
            live, "b", devices=[device("x", conditions=[condition("Ready", "False") | {"reason": "Other"}])],
            reservedFor=[{"resource": "pods", "name": "q", "uid": "u"}],
        )  # fmt: skip
    place = '.status.devices[device="x",driver="d",pool="p"].conditions[type="Ready"]'
    assert refused.value.status["message"] == (
        "Apply failed with 3 conflicts: "
        f'conflicts with "al" with subresource "status" using {VERSION}:\n- .status.reservedFor[uid="u"].name\n'
        f'conflicts with "zoe" with subresource "status":\n- {place}.reason\n- {place}.status'
    )
    assert len(refused.value.causes) == 3


def test_one_manager_may_both_update_and_apply() -> None:
    """They are two owners: an update made by `a` conflicts with an apply of `a`."""
    live = update(created(), "a", devices=[device("x", conditions=[condition("Ready")])])
    with pytest.raises(ApiError) as refused:
        apply(live, "a", devices=[device("x", conditions=[condition("Ready", "False")])])
    assert refused.value.code == 409


def test_what_is_left_out_goes_only_if_nobody_else_has_it() -> None:
    live = apply(created(), "a", devices=[device("x", conditions=[condition("Ready")]), device("y")])
    live = apply(live, "b", devices=[device("x", networkData={"interfaceName": "eth0"})])
    live = apply(live, "a", devices=[device("y")])
    assert live["status"]["devices"] == [device("x", networkData={"interfaceName": "eth0"}), device("y")]


def test_updates_of_others_inside_what_goes_go_along() -> None:
    """Who changed only a condition inside an entry does not hold the entry."""
    live = apply(created(), "a", devices=[device("x", conditions=[condition("Ready")])])
    live = update(live, "u", devices=[device("x", conditions=[condition("Ready", "False")])])
    live = apply(live, "a", devices=[])
    assert names(live) == []
    assert list(owners(live)) == [("maker", "Update")]


def test_order_of_entries() -> None:
    live = apply(created(), "a", devices=[device("x"), device("y")])
    live = apply(live, "b", devices=[device("z"), device("y")])
    assert names(live) == ["x", "z", "y"]
    live = apply(live, "c", devices=[device("w")])
    assert names(live) == ["x", "z", "y", "w"]


def test_an_object_without_owners_is_taken_over_as_before_the_first_apply() -> None:
    live = apply(claim(devices=[device("x", conditions=[condition("Ready")])]), "a", devices=[device("y")])
    assert [key for key, _ in owners(live)] == ["a", "before-first-apply"]
    with pytest.raises(ApiError) as refused:
        apply(live, "a", devices=[device("x", conditions=[condition("Ready", "False")])])
    assert f'conflict with "before-first-apply" using {VERSION}' in str(refused.value)


def test_updates_of_objects_without_owners_are_not_tracked() -> None:
    assert ownership.updated(CLAIM, claim(), claim(devices=[]), "u", "status", VERSION, "now") == []


def test_the_other_part_is_not_owned() -> None:
    """Spec and metadata through the status, the status through the object: no owner, no conflict."""
    live = apply(created(), "a", devices=[device("x", conditions=[condition("Ready")])])
    patch = {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "labels": {"l": "1"}},
        "status": {"devices": [device("x", conditions=[condition("Ready", "False")])]},
    }
    labelled = ownership.applied(CLAIM, live, patch, "b", "", VERSION, "now", False)
    assert owners(labelled)["b", "Apply"] == {"f:metadata": {"f:labels": {"f:l": {}}}}
    outcome = ownership.applied(CLAIM, live, {**patch, "status": {}}, "b", "status", VERSION, "now", False)
    assert owners(outcome)["b", "Apply"] == {"f:status": {}}


def test_metadata_is_owned_but_for_what_the_server_keeps() -> None:
    patch = {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "name": "c", "namespace": "n", "uid": "u", "generation": 3, "creationTimestamp": None, "resourceVersion": "5",
            "labels": {"a": "1"}, "annotations": {"b/c": "2"}, "finalizers": ["x/y"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "9"}],
        },
    }  # fmt: skip
    made = ownership.applied(CLAIM, None, patch, "a", "", VERSION, "now", False)
    assert owners(made)["a", "Apply"] == {
        "f:metadata": {
            "f:annotations": {"f:b/c": {}},
            "f:finalizers": {'v:"x/y"': {}},
            "f:labels": {"f:a": {}},
            "f:ownerReferences": {'k:{"uid":"9"}': {}},
        }
    }


def test_key_fields_with_a_default_count_where_they_are_left_out() -> None:
    """A container's port is known by number and protocol, and the protocol is TCP unless given."""

    def pod(*ports: Object) -> Object:
        container = {"name": "c", "image": "i", "ports": list(ports)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}

    made = ownership.applied(POD, None, pod({"containerPort": 80}), "a", "", "v1", "now", False)
    ports = owners(made)["a", "Apply"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(ports) == ['k:{"containerPort":80,"protocol":"TCP"}']
    both = ownership.applied(POD, made, pod({"containerPort": 80, "protocol": "UDP"}), "b", "", "v1", "now", False)
    assert len(both["spec"]["containers"][0]["ports"]) == 2


def test_atomic_lists_and_maps_are_one_value() -> None:
    def node(**taint: str) -> Object:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [taint]}}

    live = ownership.applied(NODE, None, node(key="a", effect="NoSchedule"), "a", "", "v1", "now", False)
    assert owners(live)["a", "Apply"] == {"f:spec": {"f:taints": {}}}
    with pytest.raises(ApiError) as refused:
        ownership.applied(NODE, live, node(key="b", effect="NoSchedule"), "b", "", "v1", "now", False)
    assert refused.value.causes[0]["field"] == ".spec.taints"


ENTRY = {"type": "object", "properties": {"x": {"type": "integer"}}}
SCHEMA = node_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
                    "map": {"type": "object", "additionalProperties": ENTRY},
                },
            }
        },
    },
    root=True,
)  # fmt: skip


def custom(live: Object | None, manager: str, force: bool = False, **spec: Any) -> Object:
    patch = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k"}, "spec": spec}
    return ownership.applied(SCHEMA, live, patch, manager, "", "g/v1", "2026-01-01T00:00:00Z", force)


def test_metadata_of_custom_kinds_is_merged() -> None:
    """Their schemas say nothing of it."""

    def labelled(live: Object | None, manager: str, **labels: str) -> Object:
        patch = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k", "labels": labels}}
        return ownership.applied(SCHEMA, live, patch, manager, "", "g/v1", "2026-01-01T00:00:00Z", False)

    live = labelled({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k", "uid": "u"}}, "a", x="1")
    live = labelled(live, "b", y="2")
    assert (live["metadata"]["uid"], live["metadata"]["labels"]) == ("u", {"x": "1", "y": "2"})
    assert labelled(live, "a", z="3")["metadata"]["labels"] == {"y": "2", "z": "3"}


def test_custom_kinds() -> None:
    live = custom(
        None, "a", free={"deep": {"er": 1}, "list": [1]}, tags=["x", "y"], whole={"k": "v"}, map={"m": {"x": 1}}
    )
    assert owners(live)["a", "Apply"]["f:spec"] == {
        "f:free": {"f:deep": {".": {}, "f:er": {}}, "f:list": {}},
        "f:map": {"f:m": {".": {}, "f:x": {}}},
        "f:tags": {'v:"x"': {}, 'v:"y"': {}},
        "f:whole": {},
    }
    live = custom(live, "b", tags=["y", "z"])
    assert live["spec"]["tags"] == ["x", "y", "z"]
    live = custom(live, "a", tags=["x"], map={"n": {"x": 2}})
    assert live["spec"] == {"tags": ["x", "y", "z"], "map": {"n": {"x": 2}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"unknown": 1}, ".spec.unknown: field not declared in schema"),
        ({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]'),
        ({"tags": [None]}, "element 0: associative list without keys has an element that's an explicit null"),
        ({"tags": [{"a": 1}]}, "element 0: associative list without keys has an element that's a map type"),
        ({"tags": [["a"]]}, "element 0: not supported: associative list with lists as elements"),
        ({"tags": "x"}, ".spec.tags: expected list, got 'x'"),
        ({"map": []}, ".spec.map: expected map, got []"),
        ({"map": {"m": {"x": "1"}}}, ".spec.map.m.x: expected numeric (int or float), got '1'"),
        ({"map": {"m": {"x": True}}}, ".spec.map.m.x: expected numeric (int or float), got True"),
        (
            {"unknown": 1, "tags": "x"},
            "errors:\n  .spec.unknown: field not declared in schema\n  .spec.tags: expected list",
        ),
    ],
)
def test_what_does_not_fit_the_schema(spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        custom(None, "a", **spec)
    assert refused.value.code == 500
    assert "reason" not in refused.value.status
    assert refused.value.status["message"].startswith("failed to create typed patch object (/k; g/v1, Kind=K): ")
    assert words in refused.value.status["message"]


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([{"conditions": []}], "omits all key fields"),
        ([None], "may not have a null element"),
        (["x"], "may not have non-map elements"),
        ([device("x"), device("x")], 'duplicate entries for key [device="x",driver="d",pool="p"]'),
        (
            [device("x", conditions=[condition("A"), condition("A")])],
            'conditions: duplicate entries for key [type="A"]',
        ),
        ([device("x", conditions=[{"status": "True"}])], "omits all key fields"),
    ],
)
def test_entries_that_cannot_be_told_apart(devices: Any, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply(created(), "a", devices=devices)
    assert refused.value.code == 500
    assert words in refused.value.status["message"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"apiVersion": "other/v1"}, "Specified patch version: other/v1, expected: resource.k8s.io/v1"),
        ({"apiVersion": ""}, "Incorrect version specified in apply patch"),
        ({"metadata": {"name": "c", "managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)  # fmt: skip
def test_heads_that_are_refused(changes: Object, words: str) -> None:
    patch = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": {"name": "c"}, **changes}
    with pytest.raises(ApiError) as refused:
        ownership.applied(CLAIM, None, patch, "a", "", VERSION, "now", False)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert words in str(refused.value)


@pytest.mark.parametrize("metadata", [None, "text", [], 5])
def test_metadata_that_is_none(metadata: Any) -> None:
    """It is refused, or nothing but the type is applied; it is never an error of the server's own making."""
    patch = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata}
    try:
        ownership.applied(CLAIM, created(), patch, "a", "", VERSION, "now", False)
    except ApiError as refused:
        assert refused.code == 500
        assert ".metadata: expected map" in str(refused)
    else:
        assert metadata is None
