"""Node selectors (v1.NodeSelector) in full."""

from typing import Any

import pytest

from dds_core.matching.allocator import NodeSelector, node_matches
from dds_core.matching.node_selectors import merged, only

NAME, LABELS = "node0", {"zone": "a", "cores": "16", "empty": "", "word": "x", "grouped": "1_0"}


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return NodeSelector.from_object({"nodeSelectorTerms": list(terms)})


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "meant"),
    [
        (label("zone", "In", "a", "b"), True),
        (label("zone", "In", "b"), False),
        (label("none", "In", "a"), False),
        (label("zone", "NotIn", "b"), True),
        (label("zone", "NotIn", "a"), False),
        (label("none", "NotIn", "a"), True),
        (label("zone", "Exists"), True),
        (label("empty", "Exists"), True),
        (label("none", "Exists"), False),
        (label("none", "DoesNotExist"), True),
        (label("zone", "DoesNotExist"), False),
        (label("cores", "Gt", "15"), True),
        (label("cores", "Gt", "16"), False),
        (label("cores", "Lt", "17"), True),
        (label("cores", "Lt", "16"), False),
        (label("cores", "Gt", "-1"), True),
        (label("cores", "Gt", "many"), False),
        (label("cores", "Gt"), False),
        (label("word", "Lt", "17"), False),
        (label("grouped", "Gt", "5"), False),
        (label("cores", "Gt", "1_0"), False),
        (label("cores", "Lt", "9223372036854775807"), True),
        (label("cores", "Lt", "9223372036854775808"), False),
        (label("none", "Lt", "17"), False),
        (label("zone", "Like", "a"), False),
        (name("In", "node0"), True),
        (name("In", "node1"), False),
        (name("NotIn", "node1"), True),
        (name("NotIn", "node0"), False),
        (name("In", "node0", key="metadata.uid"), False),
        (name("Exists"), False),
        ({}, False),
    ],
)
def test_one_requirement(term: dict[str, Any], meant: bool) -> None:
    """Kubernetes, apimachinery/pkg/labels: Gt and Lt read label and bound with strconv.ParseInt(value, 10, 64)."""
    assert node_matches(selector(term), NAME, LABELS) is meant


def test_all_requirements_of_one_term_or_another_term() -> None:
    both = label("zone", "In", "a") | name("In", "node1")
    assert not node_matches(selector(both), NAME, LABELS)
    assert node_matches(selector(both, label("zone", "Exists")), NAME, LABELS)
    assert not node_matches(selector(), NAME, LABELS)


def test_a_node_without_labels() -> None:
    assert node_matches(selector(label("zone", "DoesNotExist")), NAME, {})
    assert node_matches(only(NAME), NAME, {}) and not node_matches(only("node1"), NAME, {})


def test_selectors_become_one() -> None:
    first = selector(label("zone", "In", "a", "b") | name("In", "node0"))
    second = selector(label("zone", "In", "b", "a"))
    third = selector(label("zone", "Exists"))
    found = merged([first, second, third])
    assert found is not None
    assert found.to_object() == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "zone", "operator": "Exists"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node0"]}],
            }
        ]
    }
    assert merged([]) is None and merged([selector()]) is None
