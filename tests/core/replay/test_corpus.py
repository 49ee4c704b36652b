"""Logs that an earlier version wrote are read, folded, verified and gone on from by this one.

`tests/data/logs/README.md` tells what each of them holds. None of these files may ever be changed: a log of today must be of use
to every later version.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dds_adapters import jsonl
from dds_adapters.jsonl import JsonlLog
from dds_adapters.kubernetes.decode.translate import RESOURCES
from dds_adapters.kubernetes.publish.decode import PUBLISHED
from dds_adapters.kubernetes.watch.delta_queue import ADDED, DELETED, SYNCED, Arrival
from dds_adapters.kubernetes.watch.object_store import seeds
from dds_adapters.runtime.loop import Arriving, Controller
from dds_adapters.runtime.publisher import Probed, Publisher, RoundEnded
from dds_adapters.runtime.scaler import Scaler
from dds_adapters.sql import Database, SqlLog, upgrade
from dds_core.component import COMPONENTS, Component, component_of
from dds_core.errors import DdsError
from dds_core.events import Started
from dds_core.log import Envelope, EventLog, JoinedSource, verify_chain, verify_log
from dds_core.log.codec import decode_anchor, encode_envelope
from dds_core.log.envelope import lean
from dds_core.replay import event_of, fold_log, verify
from dds_core.scaler.fold.decisions import ORDERED
from dds_core.scaler.fold.looks import BUSY, BUSY_SINCE, WROTE
from dds_core.scaler.fold.objects import FIXED, SLICES
from dds_core.scaler.model import NO_DEVICE
from dds_core.scaler.state import State

LOGS = Path(__file__).parents[2] / "data" / "logs"
SCHEMA = "0001"
"""Of the databases."""
COUNTERS_SINCE = (BUSY, BUSY_SINCE, WROTE)
KNOBS_SINCE = ("parent_attributes", "hardware_attributes", "partition_types", "force_detach")
"""Of a driver's policy: a later version fills in its own."""
POLICY_SINCE = (
    "guard_seconds", "guard_settle_milliseconds", "unlisted_grace_seconds", "idle", "attach_cost", "idle_hour_cost",
    "device_ready", "operator_nudge",
)  # fmt: skip
"""Of the policy itself."""
HANDED_OVER = {"attach-prefer": "prefer", "node-limit-plain": "plain"}
"""By modes that are no more; they are read as `clear`."""
TAINT_RULES = dict.fromkeys(("taint-rules", "troubles", "cut-short"), "v1beta2")
"""The version that the state of a log had, when DeviceTaintRules were still made."""
CLEARED_SINCE = {("restarts", position) for position in (207, 247, 327, 529, 569, 733, 773)}
"""Where a claim that was told has let go of its stand-in and not taken its device yet: its time to take it begins there now."""
TABLES_SINCE = ("cooled", "looks", "listings", "paces", "fixed", "unexplained", "sick")
"""Tables of the scaler that are later than the logs and are filled by their events."""
MARKS_SINCE = (ORDERED, FIXED[0])
"""Kinds of marks in the table `fired_deadlines` that are later, too."""
FENCED_SINCE = ("attach-failure", "both-scaler")
"""Where an order was called off without a mark before: since, what hangs counts as a victim until it is gone."""
SECOND = 1_000_000
NODE = (
    b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"a-new-one","uid":"uid-of-a-new-one","resourceVersion":"1"}}'
)


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the index says of a log. `first` and `last` are positions, `head` is the hash of the last. `fold` is the digest of the
    state that all rows amount to (the file `state` holds it), `folds` are those on the way, `loaded` that of what a process
    starts with. The file `next` has what the code that wrote the log did when it went on from it."""

    name: str
    database: str
    export: str
    state: str
    next: str
    archive: str | None
    anchor: str | None
    log: str
    component: str
    cluster: str
    modes: list[str]
    events: int
    first: int
    last: int
    head: str
    epoch: int
    checkpoints: list[int]
    fold: str
    folds: list[tuple[int, str]]
    loaded: str
    fingerprint: str
    unjudged: list[tuple[int, int]]
    types: dict[str, int]

    @property
    def of(self) -> Component[Any]:
        return COMPONENTS[self.component]

    @property
    def after(self) -> int:
        """The position before the first."""
        return self.first - 1

    @property
    def begin(self) -> int:
        """The position before what a process starts with."""
        return max(self.checkpoints, default=self.first) - 1


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`commit` wrote all of it; `files` has the SHA-256 of each file's content, unpacked."""

    commit: str
    files: dict[str, str]
    logs: list[Kept]


INDEX = msgspec.json.decode((LOGS / "index.json").read_bytes(), type=Index)


def content(name: str) -> bytes:
    """A file's content, unpacked."""
    found = (LOGS / name).read_bytes()
    return gzip.decompress(found) if name.endswith(".gz") else found


def state_of(kept: Kept, rows: Sequence[Envelope]) -> Any:
    return fold_log(rows, component=kept.of)


def without_later(state: Any) -> Any:
    """The state without what is noted since; it is of no further use."""
    if isinstance(state, State):
        for name in TABLES_SINCE:
            getattr(state, name).drop_where(lambda key: True)
        state.fired_deadlines.drop_where(lambda mark: mark[0] in MARKS_SINCE)
        for name in COUNTERS_SINCE:
            state.counters.drop(name)
        for uid, life in state.lives.rows.items():
            state.lives.rows[uid] = replace(life, robbed=False, verdict=("", ""), ordered=())
        for uid, device in state.devices.rows.items():
            state.devices.rows[uid] = replace(device, rounds=0, hardware=(), forms=())
        for key, refusal in state.refusals.rows.items():
            state.refusals.rows[key] = replace(refusal, model="", text="", undone=False)
    return state


def digest(kept: Kept, state: Any) -> str:
    """That of the state's plain form: JSON with sorted keys and without spaces; knobs that came later are left out, one
    that went is put back."""
    plain = kept.of.dump(state)
    policy = plain["policy"]
    for knobs in (policy["driver"], *policy["drivers"].values()) if kept.component == "scaler" else ():
        for knob in KNOBS_SINCE:
            knobs.pop(knob, None)
        knobs["capacities"] = []
    if kept.component == "scaler":
        for table in TABLES_SINCE:
            plain.pop(table, None)
        marks = [row for row in plain.pop("passed", ()) if row[0][0] not in MARKS_SINCE]
        plain |= {"passed": marks} if marks else {}
        counters = {name: number for name, number in plain.pop("counters", {}).items() if name not in COUNTERS_SINCE}
        plain |= {"counters": counters} if counters else {}
        if kept.name in FENCED_SINCE:
            fences = {uid: row for uid, row in plain.pop("fences", {}).items() if tuple(row["key"]) != NO_DEVICE}
            plain |= {"fences": fences} if fences else {}
        for life in plain.get("lives", {}).values():
            for field in ("robbed", "verdict", "ordered"):
                life.pop(field, None)
        for device in plain.get("devices", {}).values():
            for field in ("rounds", "hardware", "forms"):
                device.pop(field, None)
        for _, refusal in plain.get("refusals", ()):
            for field in ("model", "text", "undone"):
                refusal.pop(field, None)
        for limit in (policy["limit"], *policy["limits"].values()):
            del limit["fixed"]
        for knob in POLICY_SINCE:
            del policy[knob]
        for scheduler in (policy["scheduler"], *policy["schedulers"].values()):
            del scheduler["hand_over"]
        plain.pop("spending", None)
        if kept.name in TAINT_RULES:
            plain["taint_rules"] = TAINT_RULES[kept.name]
            rest = [row for row in plain.pop("passed", ()) if tuple(row[0]) != SLICES]
            plain |= {"passed": rest} if rest else {}
        policy["hand_over"] = HANDED_OVER.get(kept.name, policy["hand_over"])
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def restored(dump: str, path: Path) -> Path:
    """A database made from a dump, and brought up to date as `dds db upgrade` does it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(content(dump).decode())
    before, _ = upgrade(f"sqlite:///{path}")
    assert before == SCHEMA
    return path


@pytest.fixture(scope="module", params=INDEX.logs, ids=lambda kept: str(kept.name))
def kept(request: pytest.FixtureRequest) -> Kept:
    found: Kept = request.param
    return found


@pytest.fixture(scope="module")
def file(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return restored(kept.database, tmp_path_factory.mktemp(kept.name) / "log.sqlite3")


@pytest.fixture(scope="module")
def log(kept: Kept, file: Path) -> Iterator[SqlLog]:
    """The log in a database, to be read."""
    with Database(f"sqlite:///{file}") as database:
        yield database.log(kept.log)


@pytest.fixture(scope="module")
def rows(kept: Kept, log: SqlLog) -> list[Envelope]:
    """All that is in it."""
    return list(log.read(kept.after))


@pytest.fixture
def copy(kept: Kept, file: Path, tmp_path: Path) -> Iterator[SqlLog]:
    """The log in a database of its own, to be written."""
    shutil.copy(file, tmp_path / file.name)
    with Database(f"sqlite:///{tmp_path / file.name}") as database:
        yield database.log(kept.log)


# -- the files ---------------------------------------------------------------------------------------------------------


def test_no_file_was_changed_and_none_is_missing() -> None:
    there = {path.name for path in LOGS.iterdir()} - {"index.json", "README.md"}
    assert there == set(INDEX.files)
    named = {name for one in INDEX.logs for name in (one.database, one.export, one.state, one.next)}
    assert named | {name for one in INDEX.logs for name in (one.archive, one.anchor) if name} == there
    assert {name: sha256(content(name)).hexdigest() for name in sorted(there)} == INDEX.files


def test_the_readme_tells_of_every_log() -> None:
    text = (LOGS / "README.md").read_text(encoding="utf-8")
    assert [one.name for one in INDEX.logs if f"`{one.name}`" not in text] == []
    assert INDEX.commit in text


@pytest.mark.parametrize("name", sorted({one.database for one in INDEX.logs}))
def test_a_database_holds_the_logs_that_the_index_says_and_no_other(name: str, tmp_path: Path) -> None:
    with Database(f"sqlite:///{restored(name, tmp_path / 'log.sqlite3')}") as database:
        assert [head.log for head in database.heads()] == sorted(one.log for one in INDEX.logs if one.database == name)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_database_and_file_hold_the_same_byte_for_byte(kept: Kept, log: SqlLog, rows: list[Envelope]) -> None:
    file = JsonlLog(str(LOGS / kept.export))
    assert file.name == log.name == kept.log and component_of(file.name) is kept.of
    assert file.span() == log.span() == (kept.first, kept.last)
    assert list(file.read(kept.after)) == rows
    assert list(file.read_lean(kept.after)) == list(log.read_lean(kept.after)) == [lean(row) for row in rows]
    assert content(kept.export).splitlines()[1:-1] == [encode_envelope(row) for row in rows]


def test_it_is_exported_as_it_was(kept: Kept, log: SqlLog, tmp_path: Path) -> None:
    path = tmp_path / "again.jsonl"
    jsonl.export(log, str(path))
    assert path.read_bytes() == content(kept.export)


def test_the_head_and_the_rows_are_what_the_index_says(kept: Kept, log: SqlLog, rows: list[Envelope]) -> None:
    head = log.head()
    assert (head.cluster, head.component, head.epoch) == (kept.cluster, kept.component, kept.epoch)
    assert (head.position, head.hash.hex(), head.archived) == (kept.last, kept.head, kept.after)
    assert head.checkpoint == max(kept.checkpoints, default=0)
    assert head.recorded_at == rows[-1].recorded_at
    assert (head.epoch, head.ordinal) == max((row.epoch, row.group) for row in rows)
    assert len(rows) == kept.events
    assert dict(sorted(Counter(row.type for row in rows).items())) == kept.types
    assert [row.position for row in rows if row.type == "Checkpoint"] == kept.checkpoints
    versions: Counter[str] = Counter()
    for row in rows:
        versions[row.stream] = max(versions[row.stream], row.version)
    assert {stream: log.stream_version(stream) for stream in versions} == versions


def test_the_chain_holds_up_to_the_head(kept: Kept, log: SqlLog) -> None:
    for report in (verify_log(log), verify_chain(JsonlLog(str(LOGS / kept.export)).read(kept.after))):
        assert (report.log, report.first, report.last, report.events) == (kept.log, kept.first, kept.last, kept.events)
        assert report.hash.hex() == kept.head
        assert bool(report.unjudged) == bool(kept.unjudged)


# -- folding and deciding ----------------------------------------------------------------------------------------------


def test_it_is_folded_to_the_same_picture(kept: Kept, rows: list[Envelope]) -> None:
    """First by what the state holds, as that says more; then by its plain form, byte for byte, here and on the way."""
    component = kept.of
    whole = component.load(json.loads(content(kept.state)))
    state = state_of(kept, rows)
    if kept.name in TAINT_RULES:  # when slices changed is remembered since
        state.fired_deadlines.drop(SLICES)
    assert component.same(without_later(state), whole)
    assert digest(kept, state) == kept.fold
    done, state = 0, component.state()
    for position, expected in kept.folds:
        part = rows[done : position - kept.after]
        state = fold_log(part, component, state if done else None)
        same = digest(kept, state) == expected
        assert same is ((kept.name, position) not in CLEARED_SINCE), f"up to position {position}"
        done += len(part)
    assert kept.folds[-1] == (kept.last, kept.fold)


def test_a_checkpoint_is_loaded(kept: Kept, rows: list[Envelope]) -> None:
    """What a process starts with is what the whole log amounts to, unless a part of that was erased."""
    loaded = state_of(kept, rows[kept.begin - kept.after :])
    assert digest(kept, loaded) == kept.loaded
    assert kept.of.same(without_later(loaded), without_later(state_of(kept, rows))) or kept.unjudged


def test_the_same_is_decided_again(kept: Kept, rows: list[Envelope]) -> None:
    """Whoever has changed what is decided has written other code, and says so by the fingerprint. What claims ask for is not in
    the scaler's logs, so it decides otherwise now; of the publisher's, no decision was meant to change."""
    component = kept.of
    report = verify(rows, component=component, at_most=len(rows))
    assert report.last == kept.last and report.unjudged == kept.unjudged
    starts = (event_of(row, component) for row in rows if row.type == "Started")
    assert [event.fingerprint for event in starts if isinstance(event, Started)][-1] == kept.fingerprint
    assert report.ok, "what is decided otherwise now was decided by other code"
    assert all(span.same is (span.fingerprint == component.fingerprint) for span in report.spans)
    if kept.component == "publisher":
        assert [str(one) for one in report.told] == []


# -- going on ----------------------------------------------------------------------------------------------------------


def process(kept: Kept, log: EventLog, state: Any, faults: list[DdsError]) -> Controller[Any]:
    """A new one, under the policy that the log has and on an API server that serves what it did."""
    if kept.component == "publisher":
        return Publisher(log, state.policy, code="a later version", on_error=faults.append)

    return Scaler(log, state.policy, code="a later version", on_error=faults.append)


def all_listed(controller: Controller[Any], at: int) -> list[Arriving]:
    """Everything was seen: what the log knows is still there."""
    found: list[Arriving] = [Arrival(resource, SYNCED, b"", at, since=at) for resource in sorted(controller.resources)]
    if isinstance(controller, Publisher):
        found = [Probed(None, at), RoundEnded(controller.state.models, at), *found]
    return found


def all_left(kept: Kept, controller: Controller[Any], at: int) -> list[Arriving]:
    """Claims, and pods without a node, are gone."""
    known = seeds(controller.state, PUBLISHED if kept.component == "publisher" else RESOURCES)
    return [
        Arrival(resource, DELETED, msgspec.json.encode({"metadata": one}), at)
        for resource in ("resourceclaims", "pods")
        for one in sorted(known.get(resource, ()), key=lambda one: one.uid)
    ]


def told(row: Envelope) -> bytes:
    """What is new in a row, as the files `next` have it: all but what place, time of writing and chance have put there."""
    assert row.data is not None
    states = (row.from_state, row.to_state)
    return msgspec.json.encode((row.type, row.stream, row.occurred_at, *states, row.causation_id, row.data.decode()))


def differences_since(kept: Kept, rows: Iterable[Envelope]) -> list[str]:
    """What verification finds in what was added; in all of a publisher's log."""
    report = verify(rows, component=kept.of)
    found = report.differences + report.told
    return [str(one) for one in found if one.position > kept.last or kept.component == "publisher"]


def test_a_new_process_goes_on_from_it(kept: Kept, copy: SqlLog, rows: list[Envelope]) -> None:
    """It sees a new node and that all else is still there; a quarter of an hour later claims and pods leave."""
    component, faults = kept.of, list[DdsError]()
    state = state_of(kept, rows[kept.begin - kept.after :])
    now = state.now + SECOND
    later = now + 900 * SECOND
    controller = process(kept, copy, state, faults)

    controller.open(now)
    assert controller.epoch == kept.epoch + 1
    controller.turn([Arrival("nodes", ADDED, NODE, now + SECOND)], (), now + SECOND)
    controller.turn(all_listed(controller, now + 2 * SECOND), (), now + 2 * SECOND)
    assert controller.synced
    controller.turn((), (), later)
    controller.turn(all_left(kept, controller, later + SECOND), (), later + SECOND)
    controller.turn((), (), now + 1800 * SECOND)
    assert faults == [] and controller.behind == 0

    whole = list(copy.read(kept.after))
    fresh = whole[len(rows) :]
    assert whole[: len(rows)] == rows, "what was written stays as it was"
    assert (fresh[0].position, fresh[0].epoch, fresh[0].group) == (kept.last + 1, kept.epoch + 1, 0)
    started = event_of(fresh[0], component)
    assert isinstance(started, Started) and started.fingerprint == component.fingerprint
    seen = "HostObserved" if kept.component == "publisher" else "NodeObserved"
    assert [row.stream for row in fresh if row.type == seen] == ["uid-of-a-new-one"]
    if kept.component == "publisher":
        assert [told(row) for row in fresh[1:]] == content(kept.next).splitlines()
    assert verify_log(copy).last == copy.head().position == fresh[-1].position
    assert differences_since(kept, whole) == []
    assert component.same(state_of(kept, whole[kept.begin - kept.after :]), controller.state)


def test_a_new_process_leaves_a_checkpoint_and_the_next_one_starts_with_it(
    kept: Kept, copy: SqlLog, rows: list[Envelope]
) -> None:
    faults = list[DdsError]()
    state = state_of(kept, rows[kept.begin - kept.after :])
    now = state.now + SECOND
    first = process(kept, copy, state, faults)
    first.open(now)
    first.checkpoint(now + SECOND)
    second = process(kept, copy, state, faults)
    second.open(now + 2 * SECOND)
    assert (second.epoch, second.checkpoint_at) == (kept.epoch + 2, kept.last + 2)
    assert faults == []
    types = [row.type for row in copy.read(kept.last)]
    assert types == ["Started", "Checkpoint", "Started"], "the policy is read as it was written"
    assert differences_since(kept, copy.read(kept.after)) == []
    assert verify_log(copy).last == kept.last + 3


# -- archives ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[one for one in INDEX.logs if one.archive], ids=lambda kept: str(kept.name))
def cut(request: pytest.FixtureRequest) -> Kept:
    """A log whose beginning is in an archive."""
    found: Kept = request.param
    return found


def test_an_archive_and_its_log_are_read_as_one(cut: Kept, tmp_path: Path) -> None:
    assert cut.archive is not None and cut.anchor is not None
    archive, rest = JsonlLog(str(LOGS / cut.archive)), JsonlLog(str(LOGS / cut.export))
    joined = JoinedSource([archive, rest])
    anchor = decode_anchor(content(cut.anchor))
    assert (archive.span()[1], anchor.log) == (cut.first, cut.log)
    report = verify_chain(joined.read(), anchors=[anchor])
    assert (report.first, report.last, report.hash.hex()) == (1, cut.last, cut.head)
    whole, loaded = state_of(cut, list(joined.read())), state_of(cut, list(rest.read(cut.after)))
    assert cut.of.same(without_later(whole), without_later(loaded)), "a checkpoint has no more than was noted then"
    upgrade(url := f"sqlite:///{tmp_path}/whole.sqlite3")
    with Database(url) as database:
        database.import_log(joined.read(), anchors=[anchor])
        assert list(database.log(cut.log).read()) == list(joined.read())
