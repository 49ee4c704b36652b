"""JSON patch (RFC 6902) as a real API server takes it: all of its operations, and everything that can be wrong with one."""

import copy
from typing import Any

import pytest

from dds_lab.api.patches import MOST_OPERATIONS, json_patch
from dds_lab.api.status import ApiError

Json = Any


def op(kind: str, path: str, value: Json = None, **more: Json) -> dict[str, Json]:
    return {"op": kind, "path": path, **({} if kind in ("remove", "move", "copy") else {"value": value}), **more}


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        # RFC 6902, appendix A
        ({"foo": "bar"}, [op("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [op("replace", "/baz", "boo")], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [op("move", "/qux/thud", **{"from": "/foo/waldo"})],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"foo": [1, 2, 3, 4]}, [op("move", "/foo/3", **{"from": "/foo/1"})], {"foo": [1, 3, 4, 2]}),
        ({"baz": "qux", "foo": ["a", 2, "c"]}, [op("test", "/baz", "qux"), op("test", "/foo/1", 2)], None),
        ({"foo": "bar"}, [op("add", "/child", {"grandchild": {}})], {"foo": "bar", "child": {"grandchild": {}}}),
        ({"foo": "bar"}, [op("add", "/baz", "qux", xyz=123)], {"foo": "bar", "baz": "qux"}),
        ({"/": 9, "~1": 10}, [op("test", "/~01", 10)], None),
        ({"foo": ["bar"]}, [op("add", "/foo/-", ["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
        # beyond it
        ({"a": {"b": 1}}, [op("copy", "/c", **{"from": "/a"}), op("add", "/c/b", 2)], {"a": {"b": 1}, "c": {"b": 2}}),
        ({"a": [1, 2]}, [op("replace", "/a/-1", 9)], {"a": [1, 9]}),
        ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
        ({"": {"": 1}}, [op("replace", "//", 2)], {"": {"": 2}}),
        ({"a": None}, [op("replace", "/a", 1)], {"a": 1}),
        ({"a": 1}, [{"op": "add", "path": "/b"}], {"a": 1, "b": None}),
        ({"a": {}}, [op("test", "/a/missing", None)], None),
        ({"a": 1}, [op("move", "/a", **{"from": "/a"})], None),
        ({"a": 1}, [], None),
    ],
)
def test_operations(document: Json, operations: Json, expected: Json) -> None:
    before = copy.deepcopy((document, operations))
    outcome = json_patch(document, operations)
    assert outcome == (document if expected is None else expected)
    assert (document, operations) == before, "neither the object nor the patch may change"


@pytest.mark.parametrize(
    "operations",
    [
        [op("test", "/labels/app", "other")],
        [op("test", "/flag", 1)],
        [op("test", "/list", [1, 2, 3.5])],
        [op("test", "/missing/deep", None)],
        [op("replace", "/labels/none/deep", "1")],
        [op("replace", "/labels/none", "1")],
        [op("remove", "/labels/none")],
        [op("remove", "")],
        [op("replace", "", ["no object"])],
        [op("add", "/labels/app/deeper", "1")],
        [op("add", "/none/deeper", "1")],
        [op("add", "/list/4", 1)],
        [op("add", "/list/x", 1)],
        [op("add", "/list/01", 1)],
        [op("add", "/list/-9", 1)],
        [op("add", "/list/" + "9" * 400, 1)],
        [op("replace", "/list/3", 1)],
        [op("replace", "/list/-", 1)],
        [op("remove", "/list/-")],
        [op("add", "labels", 1)],
        [{"op": "add", "value": 1}],
        [{"op": "copy", "path": "/x"}],
        [op("move", "/labels/app/inner", **{"from": "/labels"})],
        [op("move", "/x", **{"from": "/none"})],
        [op("swap", "/list/0", 1)],
        [{"path": "/x"}],
        [op("add", "/fine", 1), op("remove", "/none")],
    ],
)
def test_what_cannot_be_carried_out(operations: Json) -> None:
    document = {"labels": {"app": "y"}, "list": [1, 2, 3], "flag": True}
    before = copy.deepcopy(document)
    with pytest.raises(ApiError) as refused:
        json_patch(document, operations)
    assert refused.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }
    assert document == before


@pytest.mark.parametrize(
    "patch", [{}, {"op": "add"}, "text", 5, None, True, ["text"], [["op"]], [{"op": 5, "path": "/a"}], [{"path": {}}]]
)
def test_what_is_no_patch(patch: Json) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, patch)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def test_too_many_operations() -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, [op("test", "/a", 1)] * (MOST_OPERATIONS + 1))
    assert refused.value.code == 413
    assert refused.value.status["message"] == "The allowed maximum operations in a JSON patch is 10000, got 10001"


def test_copies_cannot_blow_up() -> None:
    """Each copy doubles the document: without a limit a patch of 2 KiB would ask for more than a terabyte."""
    doubling = [op("add", "/a", ["x" * 100])] + [op("copy", "/a/-", **{"from": "/a"})] * 40
    with pytest.raises(ApiError) as refused:
        json_patch({}, doubling)
    assert refused.value.code == 422


@pytest.mark.parametrize(
    "operations",
    [
        [op("add", "/a" * depth, {}) for depth in range(1, 300)],
        [each for _ in range(1_000) for each in (op("move", "/b/c", **{"from": "/a"}), op("move", "/a", **{"from": "/b"}),
                                                 op("add", "/b", {}))],
        [op("add", "/a", {}), *(op("add", "/a" * depth, {}) for depth in range(2, 1_100))],
    ],
)  # fmt: skip
def test_nothing_gets_deeper_than_what_can_be_walked(operations: Json) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": {}, "b": {}}, operations)
    assert refused.value.code == 422


def test_untouched_parts_are_shared() -> None:
    document = {"spec": {"large": [1]}, "status": {}}
    outcome = json_patch(document, [op("add", "/status/x", 1)])
    assert outcome["spec"] is document["spec"]
