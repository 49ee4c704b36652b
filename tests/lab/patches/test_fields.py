"""Sets of fields as trees: what they share and how paths are written. Their operations: tests/property/lab/test_ownership.py."""

from dds_lab.api.ownership.fields import Fields, difference, entry_of, paths, union, value_of

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


def test_what_changes_nothing_gives_the_same_set() -> None:
    mine = tree("f:a f:b", "f:c")
    assert union(mine, tree("f:c")) is mine
    assert union(mine, EMPTY) is mine
    assert difference(mine, tree("f:a", "f:x")) is mine
    assert difference(mine, EMPTY) is mine


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
