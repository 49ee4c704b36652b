"""The store: revisions, order, history and its end."""

from collections.abc import Callable

import pytest

from dds_lab.api.kinds import Object
from dds_lab.api.store import ADDED, DELETED, MODIFIED, Change, Store, TooOld


def thing(name: str, **more: str) -> Object:
    return {"metadata": {"name": name}, **more}


def test_every_write_takes_the_next_revision_and_shows_it() -> None:
    store = Store()
    first = store.put("things", "a", thing("a"))
    other = store.put("others", "a", thing("a"))
    again = store.put("things", "a", thing("a", x="1"))
    gone = store.remove("things", "a")
    revisions = [first.revision, other.revision, again.revision, gone.revision]
    assert revisions == list(range(revisions[0], revisions[0] + 4))
    assert [record.object["metadata"]["resourceVersion"] for record in (first, other, again, gone)] == list(
        map(str, revisions)
    )
    assert gone.object["x"] == "1", "the last content, under the revision of the deletion"
    assert store.get("things", "a") is None


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


def test_subscribers_hear_of_each_change_until_they_end_it() -> None:
    store = Store()
    heard: list[tuple[str, str, bool]] = []
    end = store.subscribe("things", lambda change: heard.append((change.type, change.path, change.old is None)))
    store.put("things", "a", thing("a"))
    store.put("others", "b", thing("b"))
    store.put("things", "a", thing("a"))
    store.remove("things", "a")
    end()
    store.put("things", "a", thing("a"))
    assert heard == [(ADDED, "a", True), (MODIFIED, "a", False), (DELETED, "a", False)]


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


def test_history_tells_the_changes_after_a_revision_and_the_state_at_one() -> None:
    store = Store()
    store.put("things", "a", thing("a"))
    then = store.put("things", "b", thing("b")).revision
    store.put("things", "a", thing("a", x="1"))
    store.remove("things", "b")
    store.put("things", "c", thing("c"))
    table = store.table("things")
    assert [(change.type, change.path) for change in table.since(then)] == [
        (MODIFIED, "a"),
        (DELETED, "b"),
        (ADDED, "c"),
    ]
    paths, records = table.as_of(then)
    assert paths == ["a", "b"] == sorted(records)
    assert "x" not in records["a"].object
    assert table.as_of(store.revision)[0] == ["a", "c"]


def test_history_is_bounded_over_all_tables_and_each_table_knows_where_its_own_ends() -> None:
    store = Store(history=2)
    first = store.put("quiet", "q", thing("q")).revision
    second = store.put("loud", "a", thing("a")).revision
    store.put("loud", "a", thing("a"))
    assert store.table("loud").since(first)[0].revision == second
    with pytest.raises(TooOld) as old:
        store.table("quiet").since(first - 1)
    assert old.value.oldest == first
    assert store.table("quiet").since(first) == [], "nothing was lost of what came after"
    store.put("loud", "a", thing("a"))
    with pytest.raises(TooOld):
        store.table("loud").since(first)
    with pytest.raises(TooOld):
        store.table("loud").as_of(first)


def test_compaction_forgets_everything_before_now() -> None:
    store = Store()
    store.put("things", "a", thing("a"))
    before = store.revision
    store.put("things", "b", thing("b"))
    store.compact()
    with pytest.raises(TooOld):
        store.table("things").since(before)
    assert store.table("things").since(store.revision) == []
    store.put("things", "c", thing("c"))
    assert [change.path for change in store.table("things").since(store.revision - 1)] == ["c"]


def test_what_leaves_a_selector_is_shown_as_it_was_under_the_new_revision() -> None:
    store = Store()
    store.put("things", "a", thing("a", x="1"))
    store.put("things", "a", thing("a", x="2"))
    change = store.table("things").changes[-1]
    assert change.left.object["x"] == "1"
    assert change.left.object["metadata"]["resourceVersion"] == str(change.revision)
    assert change.left is change.left, "one for all who see it leave"


def test_everything_there_is_comes_in_order() -> None:
    store = Store()
    for key, path in (("b", "y"), ("a", "z"), ("b", "x")):
        store.put(key, path, thing(path))
    assert [(key, path) for key, path, _ in store.records()] == [("a", "z"), ("b", "x"), ("b", "y")]
