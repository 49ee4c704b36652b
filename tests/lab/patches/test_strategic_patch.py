"""Strategic merge patch: lists merged by key or value, directives, order; and what a client can send wrong."""

import copy
from typing import Any

import pytest

from dds_lab.api.packed import kind_node
from dds_lab.api.patches import strategic_patch
from dds_lab.api.status import ApiError

POD = kind_node("", "v1", "Pod")
NODE = kind_node("", "v1", "Node")
CLAIM = kind_node("resource.k8s.io", "v1", "ResourceClaim")


def condition(kind: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, **more}


def patched(schema: Any, obj: Any, patch: Any) -> Any:
    before = copy.deepcopy((obj, patch))
    outcome = strategic_patch(schema, obj, patch)
    assert (obj, patch) == before, "neither the object nor the patch may change"
    return outcome


def test_lists_with_a_key_are_merged_by_it() -> None:
    pod = {"status": {"conditions": [condition("PodScheduled", "False", reason="Unschedulable"), condition("Ready")]}}
    patch = {"status": {"conditions": [condition("PodScheduled", reason="")]}}
    assert patched(POD, pod, patch)["status"]["conditions"] == [
        condition("PodScheduled", reason=""),
        condition("Ready"),
    ]


def test_new_entries_come_before_those_that_the_patch_does_not_name() -> None:
    pod = {"status": {"conditions": [condition("A"), condition("B")]}}
    patch = {"status": {"conditions": [condition("B", "False"), condition("C")]}}
    kinds = [entry["type"] for entry in patched(POD, pod, patch)["status"]["conditions"]]
    assert kinds == ["A", "B", "C"]
    patch = {"status": {"conditions": [condition("C")]}}
    kinds = [entry["type"] for entry in patched(POD, pod, patch)["status"]["conditions"]]
    assert kinds == ["C", "A", "B"]


def test_an_entry_is_deleted() -> None:
    pod = {"status": {"conditions": [condition("A"), condition("B")]}}
    patch = {"status": {"conditions": [{"$patch": "delete", "type": "A"}]}}
    assert patched(POD, pod, patch)["status"]["conditions"] == [condition("B")]


def test_a_list_is_replaced() -> None:
    pod = {"status": {"conditions": [condition("A"), condition("B")]}}
    patch = {"status": {"conditions": [{"$patch": "replace"}, condition("C")]}}
    assert patched(POD, pod, patch)["status"]["conditions"] == [condition("C")]


def test_a_map_is_replaced_or_emptied() -> None:
    node = {"metadata": {"labels": {"a": "1"}, "name": "n"}}
    replaced = patched(NODE, node, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}})
    assert replaced["metadata"]["labels"] == {"b": "2"}
    emptied = patched(NODE, node, {"metadata": {"labels": {"$patch": "delete"}}})
    assert emptied["metadata"]["labels"] == {}


def test_lists_of_values_are_joined() -> None:
    claim = {"metadata": {"finalizers": ["a/1", "b/2"]}}
    joined = patched(CLAIM, claim, {"metadata": {"finalizers": ["c/3", "a/1"]}})
    assert sorted(joined["metadata"]["finalizers"]) == ["a/1", "b/2", "c/3"]
    less = patched(CLAIM, claim, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1", "x/9"]}})
    assert less["metadata"]["finalizers"] == ["b/2"]
    none = patched(CLAIM, {"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}})
    assert none == {"metadata": {}}


def test_lists_without_a_key_are_replaced() -> None:
    """As B7 has it: the devices in a claim's status have no merge key, so the whole list is exchanged."""
    one, other = ({"driver": "d", "pool": "p", "device": name} for name in ("one", "other"))
    claim = {"status": {"devices": [one], "reservedFor": [{"resource": "pods", "name": "p", "uid": "u1"}]}}
    patch = {"status": {"devices": [other], "reservedFor": [{"resource": "pods", "name": "q", "uid": "u2"}]}}
    outcome = patched(CLAIM, claim, patch)["status"]
    assert outcome["devices"] == [other]
    assert {entry["uid"] for entry in outcome["reservedFor"]} == {"u1", "u2"}


def test_the_order_is_set() -> None:
    pod = {"spec": {"containers": [{"name": name, "image": "i"} for name in ("a", "b", "c")]}}
    patch: Any = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "d"}, {"name": "a"}]}}
    patch["spec"]["containers"] = [{"name": "d", "image": "new"}, {"name": "a", "image": "other"}]
    containers = patched(POD, pod, patch)["spec"]["containers"]
    assert [entry["name"] for entry in containers if entry["name"] != "b"] == ["c", "d", "a"]
    assert {entry["name"]: entry["image"] for entry in containers} == {"a": "other", "b": "i", "c": "i", "d": "new"}
    only = patched(POD, pod, {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}]}})
    assert [entry["name"] for entry in only["spec"]["containers"]] == ["b", "a", "c"]
    claim = {"metadata": {"finalizers": ["a/1", "b/2"]}}
    patch = {"metadata": {"$setElementOrder/finalizers": ["b/2", "a/1"]}}
    assert patched(CLAIM, claim, patch)["metadata"]["finalizers"] == ["b/2", "a/1"]


def test_an_order_for_a_list_that_is_not_there() -> None:
    added = {"$setElementOrder/finalizers": ["b/2", "a/1"], "finalizers": ["b/2", "a/1"]}
    assert patched(CLAIM, {"metadata": {}}, {"metadata": added}) == {"metadata": {"finalizers": ["b/2", "a/1"]}}
    assert patched(CLAIM, {"metadata": {}}, {"metadata": {"$setElementOrder/finalizers": []}}) == {"metadata": {}}


def test_keys_to_retain() -> None:
    pod = {"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}}
    assert patched(POD, pod, patch)["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_directives_do_not_land_in_new_parts() -> None:
    patch = {"metadata": {"labels": {"a": "1", "b": None}, "annotations": {"$patch": "delete"}}}
    assert patched(NODE, {"metadata": {"name": "n"}}, patch) == {"metadata": {"name": "n", "labels": {"a": "1"}}}


def test_a_value_of_another_kind_replaces() -> None:
    assert patched(NODE, {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": "x"}}) == {
        "metadata": {"labels": "x"}
    }


@pytest.mark.parametrize(
    ("code", "patch"),
    [
        (400, []),
        (400, "text"),
        (400, None),
        (400, {"metadata": {"$deleteFromPrimitiveList": ["a"]}}),
        (400, {"metadata": {"$setElementOrder": ["a"]}}),
        (400, {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
        (400, {"metadata": {"$retainKeys": "labels"}}),
        (400, {"metadata": {"$retainKeys": ["name"], "labels": {"a": "1"}}}),
        (422, {"metadata": {"finalizers": [["a/1"]]}}),
        (500, {"metadata": {"labels": {"$patch": "sideways"}}}),
        (500, {"metadata": {"labels": {"$patch": {"deep": 1}}}}),
        (500, {"metadata": {"finalizers": ["a/1", {"x": 1}]}}),
        (500, {"status": {"conditions": [{"status": "True"}]}}),
        (500, {"status": {"conditions": [{"$patch": "delete"}]}}),
        (500, {"status": {"conditions": [{"$patch": "merge", "type": "A"}]}}),
        (500, {"status": {"conditions": [{"$patch": "?", "type": "A"}]}}),
        (500, {"metadata": {"$setElementOrder/finalizers": "a"}}),
        (500, {"metadata": {"$setElementOrder/finalizers": ["a/1"], "finalizers": ["b/2"]}}),
        (500, {"metadata": {"$setElementOrder/finalizers": ["a/1", "b/2"], "finalizers": ["b/2", "a/1"]}}),
    ],
)
def test_bad_patches(code: int, patch: Any) -> None:
    node = {
        "metadata": {"name": "n", "labels": {"a": "1"}, "finalizers": ["a/1"]},
        "status": {"conditions": [condition("A")]},
    }
    before = copy.deepcopy(node)
    with pytest.raises(ApiError) as refused:
        strategic_patch(NODE, node, patch)
    assert refused.value.code == code
    assert node == before
