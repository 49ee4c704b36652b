"""Sets of fields as trees: the four operations, against sets of paths."""

import pytest

from dds_lab.api.ownership.fields import Fields, difference, entry_of, intersection, paths, union, value_of

EMPTY: Fields = {}


def tree(*members: str) -> Fields:
    """A set from paths whose elements are separated by blanks."""
    out: Fields = {}
    for member in members:
        elements = member.split()
        at = out
        for element in elements[:-1]:
            below = at.setdefault(element, {"": None})
            at = below if below else at[element]
            if at == {}:
                at["."] = {}
            at.pop("", None)
        last = at.get(elements[-1])
        at[elements[-1]] = {} if last is None else {".": {}, **last}
    return out


A, B, AB = "f:a", "f:b", "f:a f:b"


@pytest.mark.parametrize(
    ("one", "other", "joined", "both", "rest"),
    [
        ((), (), (), (), ()),
        ((A,), (), (A,), (), (A,)),
        ((), (A,), (A,), (), ()),
        ((A,), (A,), (A,), (A,), ()),
        ((A,), (B,), (A, B), (), (A,)),
        ((A, AB), (A,), (A, AB), (A,), (AB,)),
        ((A, AB), (AB,), (A, AB), (AB,), (A,)),
        ((AB,), (A,), (A, AB), (), (AB,)),
        ((A,), (AB,), (A, AB), (), (A,)),
        ((A, AB), (A, AB), (A, AB), (A, AB), ()),
        (("f:a f:b", "f:a f:c"), ("f:a f:c", "f:a f:d"), ("f:a f:b", "f:a f:c", "f:a f:d"), ("f:a f:c",), ("f:a f:b",)),
        (
            ('k:{"x":1} f:y', 'k:{"x":1}'),
            ('k:{"x":1}',),
            ('k:{"x":1} f:y', 'k:{"x":1}'),
            ('k:{"x":1}',),
            ('k:{"x":1} f:y',),
        ),
    ],
)
def test_operations(
    one: tuple[str, ...], other: tuple[str, ...], joined: tuple[str, ...], both: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    left, right = tree(*one), tree(*other)
    assert union(left, right) == tree(*joined)
    assert intersection(left, right) == tree(*both)
    assert difference(left, right) == tree(*rest)
    assert (left, right) == (tree(*one), tree(*other)), "sets are never changed in place"


def test_what_changes_nothing_gives_the_same_set() -> None:
    mine = tree("f:a f:b", "f:c")
    assert union(mine, tree("f:c")) is mine
    assert union(mine, EMPTY) is mine
    assert difference(mine, tree("f:a", "f:x")) is mine
    assert difference(mine, EMPTY) is mine


def test_names_are_in_order() -> None:
    joined = union(tree("f:m"), tree("f:a", "f:z", 'k:{"x":1}'))
    assert list(joined) == ["f:a", "f:m", "f:z", 'k:{"x":1}']


def test_paths_as_messages_show_them() -> None:
    fields = {
        "f:status": {
            "f:devices": {
                'k:{"device":"pool-dev-0","driver":"gpu.nvidia.com","port":8}': {".": {}, "f:pool": {}},
            }
        },
        "f:metadata": {"f:finalizers": {".": {}, 'v:"a/b"': {}}},
        "f:list": {"i:3": {}},
    }
    assert sorted(paths(fields)) == [
        ".list[3]",
        ".metadata.finalizers",
        '.metadata.finalizers[="a/b"]',
        '.status.devices[device="pool-dev-0",driver="gpu.nvidia.com",port=8]',
        '.status.devices[device="pool-dev-0",driver="gpu.nvidia.com",port=8].pool',
    ]


def test_elements_are_canonical() -> None:
    assert entry_of({"protocol": "TCP", "port": 80}) == 'k:{"port":80,"protocol":"TCP"}'
    assert value_of("a/b") == 'v:"a/b"'
    assert value_of(5) == "v:5"
