"""Random operations on the API server against the simplest model of it: a list of all that was ever written.

A list at any version, a page at any time and a watch from any version, through any selector, show what the model says, or
that it is forgotten. A mirror over a watch that is cut again and again ends up with what is there.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object
from dds_lab.api.requests import Call, Outcome, Page, Reading
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError
from dds_lab.api.watches import Watch
from dds_lab.client import Client
from dds_lab.latency import Uniform
from dds_lab.time import VirtualTime

START = 1_795_219_200_000_000
SECOND = 1_000_000
NAMES = ("a", "b", "c", "d")
NAMESPACES = ("default", "other")
SELECTORS = ("", "tier=1", "tier!=1", "tier in (0,2)", "!tier", "tier")

Key = tuple[str, str]
Labels = dict[str, str]


def matching(selector: str, labels: Labels) -> bool:
    """Selectors, written down once more."""
    tier = labels.get("tier")
    return {
        "": True,
        "tier=1": tier == "1",
        "tier!=1": tier != "1",
        "tier in (0,2)": tier in ("0", "2"),
        "!tier": tier is None,
        "tier": tier is not None,
    }[selector]


@dataclass
class Model:
    """Everything that was ever written: (revision, key, labels before, labels after), None for not there."""

    written: list[tuple[int, Key, Labels | None, Labels | None]] = field(default_factory=list)

    def at(self, revision: int) -> dict[Key, Labels]:
        """What is there at a revision, in order."""
        there: dict[Key, Labels] = {}
        for when, key, _, after in self.written:
            if when <= revision:
                there.pop(key, None)
                if after is not None:
                    there[key] = after
        return dict(sorted(there.items()))

    def since(self, revision: int, namespace: str, selector: str) -> list[tuple[str, Key, int]]:
        """What a watch from a revision tells."""
        told = []
        for when, key, before, after in self.written:
            if when <= revision or (namespace and key[0] != namespace):
                continue
            saw = before is not None and matching(selector, before)
            sees = after is not None and matching(selector, after)
            if saw or sees:
                told.append(("MODIFIED" if saw and sees else "ADDED" if sees else "DELETED", key, when))
        return told


class World:
    """A server and the model beside it."""

    def __init__(self, history: int) -> None:
        self.time = VirtualTime(1, START)
        self.server = ApiServer(gates=Gates.for_version("1.36"), now=self.time.now, random=Random(1), history=history)
        self.user = Client(self.server, self.time, "user")
        self.user.create("namespaces", {"metadata": {"name": "other"}})
        self.model = Model()
        self.first = self.server.store.revision

    def write(self, key: Key, tier: int | None) -> None:
        """Create, relabel or (tier -1) delete."""
        namespace, name = key
        there = self.model.at(self.server.store.revision).get(key)
        labels = {} if tier is None else {"tier": str(tier)}
        before = self.server.store.revision
        if tier == -1:
            if there is None:
                return
            self.user.delete("configmaps", name, namespace)
            after: Labels | None = None
        else:
            after = labels
            if there is None:
                self.user.create("configmaps", {"metadata": {"name": name, "labels": labels}}, namespace)
            else:
                wanted = {"tier": labels.get("tier")}
                self.user.patch("configmaps", name, {"metadata": {"labels": wanted}}, namespace)
        if after == there:
            assert self.server.store.revision == before, "a write that changes nothing takes no revision"
        else:
            assert self.server.store.revision == before + 1
            self.model.written.append((before + 1, key, there, after))

    def call(self, verb: str, namespace: str, **reading: Any) -> Call:
        resource = self.user.resource("configmaps")
        return Call(verb=verb, resource=resource, user=self.user.user, namespace=namespace, reading=Reading(**reading))

    def page(self, namespace: str, **reading: Any) -> Page:
        outcome: Outcome = self.server.perform(self.call("list", namespace, **reading))
        assert outcome.page is not None
        return outcome.page

    def watch(self, namespace: str, selector: str, revision: int) -> Watch:
        return self.server.watch(self.call("watch", namespace, labels=selector, version=str(revision)))


def keys(page: Page) -> list[Key]:
    return [key_of(record.object) for record in page.records]


def key_of(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def told(watch: Watch) -> list[tuple[str, Key, int]]:
    return [(type, key_of(record.object), record.revision) for type, record in watch.take()]


KEYS = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
WRITES = st.tuples(KEYS, st.sampled_from((None, 0, 1, 2, -1, -1)))
WHERE = st.sampled_from(("", *NAMESPACES))


@settings(max_examples=60)
@given(st.lists(WRITES, max_size=40), WHERE, st.sampled_from(SELECTORS), st.sampled_from((5, 20_000)), st.data())
def test_lists_and_watches_show_what_was_written(
    writes: list[tuple[Key, int | None]], namespace: str, selector: str, history: int, data: st.DataObject
) -> None:
    world = World(history)
    early = world.watch(namespace, selector, world.first)
    for key, tier in writes:
        world.write(key, tier)
    now = world.server.store.revision
    assert told(early) == world.model.since(world.first, namespace, selector)
    then = data.draw(st.integers(world.first, now))
    forgotten = world.server.store.table("configmaps").compacted > then
    expected = [
        key for key, labels in world.model.at(then).items() if matching(selector, labels) and namespace in ("", key[0])
    ]
    late = world.watch(namespace, selector, then)
    if forgotten:
        assert [type for type, _ in late.take()] == ["ERROR"]
        assert late.closed
        try:
            world.page(namespace, labels=selector, version=str(then), match="Exact")
            raise AssertionError("a list of what is forgotten")
        except ApiError as error:
            assert error.code == 410
    else:
        assert told(late) == world.model.since(then, namespace, selector)
        assert keys(world.page(namespace, labels=selector, version=str(then), match="Exact")) == expected
        key, tier = data.draw(WRITES)
        world.write(key, tier)
        assert told(late) == world.model.since(now, namespace, selector)


@settings(max_examples=40)
@given(
    st.lists(WRITES, max_size=25), st.lists(WRITES, max_size=10), WHERE, st.sampled_from(SELECTORS), st.integers(1, 4)
)
def test_pages_show_one_moment_whatever_is_written_between_them(
    writes: list[tuple[Key, int | None]], later: list[tuple[Key, int | None]], namespace: str, selector: str, limit: int
) -> None:
    world = World(20_000)
    for key, tier in writes:
        world.write(key, tier)
    whole = keys(world.page(namespace, labels=selector))
    found: list[Key] = []
    page = world.page(namespace, labels=selector, limit=limit)
    between = iter(later)
    while True:
        found += keys(page)
        assert len(page.records) <= limit
        if not page.cont:
            break
        if page.remaining is not None:
            assert page.remaining == len(whole) - len(found)
        for key, tier in between:
            world.write(key, tier)
            break
        page = world.page(namespace, labels=selector, limit=limit, cont=page.cont)
    assert found == whole


STEPS = st.one_of(WRITES, st.sampled_from(("cut", "cut for long", "restart", "wait")))


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=40), st.sampled_from(SELECTORS), st.integers(0, 1 << 16))
def test_a_mirror_over_cut_watches_ends_up_with_what_is_there(steps: list[Any], selector: str, seed: int) -> None:
    world = World(20_000)
    mirror = world.user.mirror("configmaps", Uniform(0.0, 1.0), labels=selector)
    known = {key_of(obj): obj for obj in mirror.values()}

    def follow(old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = key_of(obj)
        assert known.get(key) == old, "what is told follows from what was told"
        if new is None:
            del known[key]
        else:
            known[key] = new

    mirror.on_change(follow)
    random = Random(seed)
    for step in steps:
        if step == "cut":
            mirror.cut()
        elif step == "cut for long":
            mirror.cut(random.random() * 3)
        elif step == "restart":
            world.server.restart()
        elif step == "wait":
            world.time.run(world.time.now() + round(random.random() * 2 * SECOND))
        else:
            world.write(*step)
    world.time.run(world.time.now() + 10 * SECOND)
    there = {key_of(obj): obj for obj in world.user.list("configmaps", labels=selector)}
    assert known == there
    assert {key_of(obj): obj for obj in mirror.values()} == there
