"""The store: order, and subscribers that end while they hear. Revisions and history: tests/property/lab/test_store.py."""

from collections.abc import Callable

from dds_lab.api.kinds import Object
from dds_lab.api.store import Change, Store


def thing(name: str, **more: str) -> Object:
    return {"metadata": {"name": name}, **more}


def test_what_was_put_is_not_changed_by_the_store() -> None:
    store, given = Store(), thing("a")
    store.put("things", "a", given)
    assert given == thing("a")


def test_paths_are_in_the_order_of_etcd_and_found_by_namespace() -> None:
    store = Store()
    for path in ("b/x", "a/y", "a/x", "ab/x", "a-b/x"):
        store.put("things", path, thing(path))
    table = store.table("things")
    assert table.paths == ["a-b/x", "a/x", "a/y", "ab/x", "b/x"]
    assert table.under("a/") == ["a/x", "a/y"]
    assert table.under("c/") == []
    assert table.under("") == table.paths


def test_a_subscriber_may_end_while_it_hears() -> None:
    store = Store()
    heard: list[str] = []
    ends: list[Callable[[], None]] = []

    def once(change: Change) -> None:
        heard.append("once")
        ends[0]()

    ends.append(store.subscribe("things", once))
    store.subscribe("things", lambda change: heard.append("always"))
    store.put("things", "a", thing("a"))
    store.put("things", "a", thing("a"))
    assert heard == ["once", "always", "always"]


def test_everything_there_is_comes_in_order() -> None:
    store = Store()
    for key, path in (("b", "y"), ("a", "z"), ("b", "x")):
        store.put(key, path, thing(path))
    assert [(key, path) for key, path, _ in store.records()] == [("a", "z"), ("b", "x"), ("b", "y")]
