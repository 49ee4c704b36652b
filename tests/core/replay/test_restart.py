"""Killed after any append, and started again: the same decisions up to re-issue, and the same state at the end.

A start loads the log, takes a new epoch, lists the cluster, appends what differs, then `Synced`, and goes on. Nothing is
missed, except in one test that says so; what a process may miss while it is down is the matter of the property tests.

In mode observe recordings are replayed as they are, and every instant has to agree. In mode attach what the reference ordered
counts as our orders (`as_ours`), so that the cluster answers them; what the cluster does not show after a start is decided
again, marked as re-issued, and a deadline that rests on its instant moves with it. That works where the recording answers all
that we order (`ANSWERED`); elsewhere an order stands unanswered for ever, and a start drops it once nobody needs it: there only
promises, the log and the objects have to agree. Nobody in a recording answers our marks, so mode detach is left to the
property tests, whose operator does.

Left out when states are compared, each because it says when something was learned or told, and nothing rests on it for the
claims and devices that are there: `epoch` (there was another start), `level_at` (a start makes a level pass), `counters` and
`shown` (what was told, and how often), and `passed` (the instants of deadlines that came back).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from dds_adapters.kubernetes.decode.translate import RESOURCES, Translator
from dds_adapters.kubernetes.recording import RecordedEvent
from dds_core.engine import Step
from dds_core.events import OBSERVED, Decision, Event, PolicyChanged, Started, Synced, encode
from dds_core.log import MemoryLog
from dds_core.model import request_name
from dds_core.replay import fold_log, verify
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import ORDER, PROJECTION, dump
from tests.core.golden.replays import CLUSTER, CODE, LOG_NAME, RECORDED_AT, SALTS, SMALL, policy_of, recorded
from tests.support.plain import plain

Key = tuple[str, str]


class Killed(NamedTuple):
    """Where a run was killed: after how many appended groups, and how many raw events it had taken in."""

    groups: int
    events: int


class Listing:
    """The objects of the cluster, as they are when somebody lists them."""

    def __init__(self) -> None:
        self._objects: dict[Key, bytes] = {}

    def watch(self, event: RecordedEvent) -> None:
        """The cluster changes."""
        if event.type == "BOOKMARK":
            return
        key = (event.resource, msgspec.json.decode(event.raw)["metadata"]["uid"])
        if event.type == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = event.raw

    def differences(self, engine: Engine, translator: Translator) -> Iterator[Event]:
        """The facts by which what is listed differs from the state; each is to be folded before the next is taken."""
        for resource, known in RESOURCES.items():
            listed = {uid: raw for (kind, uid), raw in self._objects.items() if kind == resource}
            gone: Any = OBSERVED[known.kind][1]
            for uid in sorted(set(engine.state.table(known.kind)) - set(listed)):
                yield gone(uid=uid)
            for uid in sorted(listed):
                yield from translator.translate(resource, "ADDED", listed[uid])


class Run:
    """One process: an engine, its log and its epoch. `steps` are those of this process only."""

    def __init__(self, log: MemoryLog, policy: Policy, engine: Engine | None = None) -> None:
        self.log = log
        self.engine = engine if engine is not None else Engine()
        self.translator = Translator(self.engine.state)
        self.steps: list[Step] = []
        self.policy = policy
        self._epoch = log.take_epoch(RECORDED_AT)

    @classmethod
    def fresh(cls, policy: Policy) -> Run:
        return cls(MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS), policy)

    @classmethod
    def loaded(cls, log: MemoryLog, policy: Policy) -> Run:
        """A new process on what the log holds."""
        return cls(log, policy, Engine(fold_log(log.read(), SCALER)))

    def start(self, at: int, listing: Listing) -> None:
        """Who decides, under which policy, what the cluster looks like, and that the state is whole."""
        mode = self.policy.mode
        self._append(Started(code=CODE, fingerprint=CODE, projection=PROJECTION, epoch=self._epoch, mode=mode), at)
        if self.engine.state.policy != self.policy or not self.engine.state.process.synced_at:
            self._append(PolicyChanged(policy=self.policy.model_dump(mode="json")), at)
        for fact in listing.differences(self.engine, self.translator):
            self._append(fact, at)
        self._append(Synced(), at)

    def take(self, event: RecordedEvent) -> Iterator[None]:
        """One raw event and what is due before it; yields after each append."""
        for fact in self.translator.translate(event.resource, event.type, event.raw):
            for step in self.engine.run([(event.at, fact)]):
                self._keep(step)
                yield

    def _append(self, fact: Event, at: int) -> None:
        self._keep(self.engine.feed(fact, at))

    def _keep(self, step: Step) -> None:
        self.log.append([step.group(len(self.steps))], epoch=self._epoch, recorded_at=RECORDED_AT)
        self.steps.append(step)


def as_ours(events: Iterable[RecordedEvent]) -> Iterator[RecordedEvent]:
    """The recording as if what the reference ordered had been our orders: its requests bear our names."""
    names: dict[str, str] = {}
    for event in events:
        if event.type == "BOOKMARK":
            continue
        found = msgspec.json.decode(event.raw)
        if event.resource == "composabilityrequests":
            wanted = found["spec"]["resource"]
            name = found["metadata"]["name"]
            names[name] = request_name(wanted["target_node"], wanted["type"], wanted["model"])
            found["metadata"]["name"] = names[name]
            found["metadata"].pop("generateName", None)
        elif event.resource == "composableresources":
            labels = found["metadata"]["labels"]
            labels["app.kubernetes.io/managed-by"] = names[labels["app.kubernetes.io/managed-by"]]
        else:
            yield event
            continue
        yield msgspec.structs.replace(event, raw=msgspec.json.encode(found))


def whole(events: list[RecordedEvent], policy: Policy) -> tuple[Run, list[Killed]]:
    """The run that nobody disturbs, and every place at which another one can be killed."""
    run = Run.fresh(policy)
    run.start(events[0].at, Listing())
    places = [Killed(len(run.steps), 0)]
    for count, event in enumerate(events):
        for _ in run.take(event):
            places.append(Killed(len(run.steps), count))
        places[-1] = places[-1]._replace(events=count + 1) if places[-1].groups == len(run.steps) else places[-1]
    return run, places


def cut(run: Run, groups: int) -> MemoryLog:
    """The log as it is after so many appended groups."""
    log = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
    epoch = log.take_epoch(RECORDED_AT)
    kept = [step.group(ordinal) for ordinal, step in enumerate(run.steps[:groups])]
    log.append(kept, epoch=epoch, recorded_at=RECORDED_AT)
    return log


HISTORY = ("epoch", "level_at", "counters", "shown")

ANSWERED = (
    "first_attach",
    "many_devices",
    "two_requests",
    "pool_exhausted",
    "attach_failure",
    "node_limit",
    "withdrawn",
    "node_lost",
)
"""The recordings in which the reference orders what we would have ordered in its place."""

OBJECTS = ("claims", "pods", "nodes", "slices", "classes", "taint_rules", "requests", "resources", "configs")
assert set(OBJECTS) < set(ORDER), "tables that are compared are there"

EQUAL = [(name, "observe") for name in SMALL] + [(name, "attach") for name in ANSWERED]


def prepared(name: str, mode: str) -> tuple[list[RecordedEvent], Policy]:
    """The recording's events and policy in a mode."""
    events = recorded(name) if mode == "observe" else as_ours(recorded(name))
    return list(events), policy_of(name).model_copy(update={"mode": mode})


def compared(run: Run) -> dict[str, Any]:
    """The state without history, and without what was decided of a label that its node is seen to have so: nobody carries out the
    decisions beside a recording, so a label that was to be removed and is wanted again was never away. A listing settles that."""
    state = run.engine.state
    has = {node.name: node.labels for node in state.fleet.nodes.rows.values()}
    parts = {name: value for name, value in plain(state).items() if name not in HISTORY}
    labelled = [
        ((node, key), value) for (node, key), value in parts.get("labelled", ()) if has[node].get(key, "") != value
    ]
    return parts | {"labelled": labelled}


def caused(run: Run, after: int = 0) -> list[tuple[int, bytes]]:
    """What was decided and what was gone through, in mode observe with its instants; without what is re-issued."""
    observes = run.policy.mode == "observe"
    return [
        (step.at if observes else 0, encode(event))
        for step in run.steps[after:]
        for event, _ in step.caused
        if not (isinstance(event, Decision) and event.reissued)
    ]


def restarted(events: list[RecordedEvent], run: Run, place: Killed) -> Run:
    """The run killed at `place` and started again; every promise stands, and only `Synced` decides anything."""
    listing = Listing()
    for event in events[: place.events]:
        listing.watch(event)
    again = Run.loaded(cut(run, place.groups), run.policy)
    promised = promises(again)
    again.start(again.engine.state.process.now, listing)
    assert promises(again) == promised
    assert not [step for step in again.steps if not isinstance(step.fact, Synced) and step.caused]
    return again


def promises(run: Run) -> dict[str, tuple[ReservedDevice, ...]]:
    return {key: row.promises for key, row in run.engine.state.hand_over.reservations.rows.items()}


def finish(events: list[RecordedEvent], again: Run, place: Killed) -> None:
    """On to the end of the recording; the log that two processes wrote verifies."""
    for event in events[place.events :]:
        for _ in again.take(event):
            pass
    report = verify(again.log.read(), SCALER, fingerprint=CODE)
    assert report.ok, report.differences[:3]


def check(events: list[RecordedEvent], run: Run, place: Killed) -> None:
    again = restarted(events, run, place)
    finish(events, again, place)
    assert caused(again) == caused(run, place.groups)
    assert compared(again) == compared(run)


def thinned(places: list[Killed], count: int) -> list[Killed]:
    """So many places, evenly spread, the last one among them."""
    stride = max(1, len(places) // count)
    return places[::-1][::stride][::-1]


@pytest.mark.parametrize("mode", ["observe", "attach"])
@pytest.mark.parametrize("name", ["first_attach", "attach_failure"])
def test_a_restart_changes_nothing_that_is_decided(name: str, mode: str) -> None:
    events, policy = prepared(name, mode)
    run, places = whole(events, policy)
    for place in thinned(places, 10):
        check(events, run, place)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "mode"), EQUAL)
def test_a_restart_after_any_append_changes_nothing_that_is_decided(name: str, mode: str) -> None:
    events, policy = prepared(name, mode)
    run, places = whole(events, policy)
    for place in places:
        check(events, run, place)


@pytest.mark.soak
def test_a_restart_after_every_fiftieth_append_of_the_burst_changes_nothing_that_is_decided() -> None:
    events, policy = prepared("burst", "observe")
    run, places = whole(events, policy)
    for place in places[::50]:
        check(events, run, place)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["burst", *(name for name in SMALL if name not in ANSWERED)])
def test_a_restart_keeps_every_promise_where_orders_stay_unanswered(name: str) -> None:
    events, policy = prepared(name, "attach")
    run, places = whole(events, policy)
    for place in places[:: 50 if name == "burst" else 1]:
        again = restarted(events, run, place)
        finish(events, again, place)
        for table in OBJECTS:
            assert compared(again).get(table) == compared(run).get(table)


@pytest.mark.parametrize("name", ["first_attach", "node_lost", "pool_exhausted"])
def test_what_was_missed_while_nobody_watched_is_found_by_listing(name: str) -> None:
    """Ten raw events pass before the new process lists: objects gone, objects made anew, allocations changed."""
    events, policy = prepared(name, "observe")
    run, places = whole(events, policy)
    for place in thinned(places, 12):
        later = place._replace(events=min(place.events + 10, len(events)))
        again = restarted(events, run, later)
        finish(events, again, later)
        for table in (*OBJECTS, "rejections"):
            assert compared(again).get(table) == compared(run).get(table)
        assert states(again) == states(run)


def states(run: Run) -> dict[str, list[str]]:
    """What claims and devices amount to."""
    state = run.engine.state
    return {
        "claims": sorted(f"{uid} {life.state}" for uid, life in state.lifecycle.lives.rows.items()),
        "devices": sorted(f"{uid} {life.state}" for uid, life in state.lifecycle.devices.rows.items()),
    }


def test_the_places_are_all_the_appends() -> None:
    run, places = whole(*prepared("first_attach", "observe"))
    assert [place.groups for place in places] == list(range(places[0].groups, len(run.steps) + 1))


def test_the_log_of_the_run_that_nobody_disturbs_is_the_picture() -> None:
    for mode in ("observe", "attach"):
        run, places = whole(*prepared("many_devices", mode))
        assert dump(Run.loaded(cut(run, places[-1].groups), run.policy).engine.state) == dump(run.engine.state)
