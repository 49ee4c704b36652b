"""Logs that a released version wrote are read, folded, verified and gone on from by this one (`tests/data/logs/README.md`)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dds_adapters import jsonl
from dds_adapters.jsonl import JsonlLog
from dds_adapters.kubernetes.decode.translate import RESOURCES
from dds_adapters.kubernetes.publish.decode import PUBLISHED
from dds_adapters.kubernetes.watch.delta_queue import ADDED, DELETED, SYNCED, Arrival
from dds_adapters.kubernetes.watch.object_store import seeds
from dds_adapters.runtime.loop import Arriving, Controller
from dds_adapters.runtime.publisher import Probed, PublisherController, RoundEnded
from dds_adapters.runtime.scaler import ScalerController
from dds_adapters.sql import Database, SqlLog, upgrade
from dds_core.errors import DdsError
from dds_core.events import Started
from dds_core.log import Envelope, EventLog, JoinedSource, verify_log
from dds_core.log.envelope import lean
from dds_core.replay import event_of, fold_log, verify
from tests.core.replay.corpus import ARCHIVE, LOGS, REST, Index, Kept, content, digest
from tests.support.sooner import sooner

SCHEMA = "0001"
"""Of the databases."""
SECOND = 1_000_000
NODE = (
    b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"a-new-one","uid":"uid-of-a-new-one","resourceVersion":"1"}}'
)
INDEX = msgspec.json.decode((LOGS / "index.json").read_bytes(), type=Index)
GOING_ON = [one for one in INDEX.logs if one.component != "autoscaler"]


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
def log(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlLog]:
    """The log in a database, to be read."""
    file = restored(kept.database, tmp_path_factory.mktemp(kept.name) / "log.sqlite3")
    with Database(f"sqlite:///{file}") as database:
        yield database.log(kept.log)


@pytest.fixture(scope="module")
def rows(log: SqlLog) -> list[Envelope]:
    """All that is in it."""
    return list(log.read())


@pytest.fixture(params=GOING_ON, ids=lambda kept: str(kept.name))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Kept, SqlLog, list[Envelope]]]:
    """A log in a database of its own, to be written, and what is in it."""
    kept: Kept = request.param
    with Database(f"sqlite:///{restored(kept.database, tmp_path / 'log.sqlite3')}") as database:
        log = database.log(kept.log)
        yield kept, log, list(log.read())


# -- the files ---------------------------------------------------------------------------------------------------------


def test_no_file_was_changed_and_none_is_missing() -> None:
    there = {path.name for path in LOGS.iterdir()} - {"index.json", "README.md"}
    assert there == set(INDEX.files)
    assert {name for one in INDEX.logs for name in (one.database, one.export, one.state)} == there - {ARCHIVE, REST}
    assert {name: sha256(content(name)).hexdigest() for name in sorted(there)} == INDEX.files


# -- reading, folding, deciding ----------------------------------------------------------------------------------------


def test_the_head_and_the_rows_are_what_the_index_says(kept: Kept, log: SqlLog, rows: list[Envelope]) -> None:
    head = log.head()
    assert (head.position, head.hash.hex(), head.component) == (kept.events, kept.head, kept.component)
    assert (head.epoch, head.checkpoint) == (kept.epoch, max(kept.checkpoints, default=0))
    assert list(log.read_lean()) == [lean(row) for row in rows]
    assert dict(sorted(Counter(row.type for row in rows).items())) == kept.types
    assert verify_log(log).events == kept.events


def test_database_and_export_hold_the_same_byte_for_byte(
    kept: Kept, log: SqlLog, rows: list[Envelope], tmp_path: Path
) -> None:
    assert list(JsonlLog(str(LOGS / kept.export)).read()) == rows
    jsonl.export(log, str(tmp_path / "again.jsonl"))
    assert (tmp_path / "again.jsonl").read_bytes() == content(kept.export)


def test_an_archive_and_its_log_are_read_as_one() -> None:
    archive, rest, kept = JsonlLog(str(LOGS / ARCHIVE)), JsonlLog(str(LOGS / REST)), INDEX.logs[0]
    assert archive.span()[1] == rest.span()[0] == kept.checkpoints[-1]
    whole = list(JoinedSource([archive, rest]).read())
    assert whole == list(JsonlLog(str(LOGS / kept.export)).read())
    loaded = fold_log(rest.read(rest.span()[0] - 1), kept.of)
    assert kept.of.same(fold_log(whole, kept.of), loaded)


def test_it_is_folded_to_the_same_state(kept: Kept, rows: list[Envelope]) -> None:
    """First by what the state holds, as that says more; then byte for byte."""
    state = fold_log(rows, kept.of)
    assert kept.of.same(state, kept.of.load(msgspec.Raw(content(kept.state))))
    assert digest(kept.of, state) == kept.fold
    assert digest(kept.of, fold_log(rows[kept.begin :], kept.of)) == kept.loaded


@pytest.mark.parametrize("times", [0.2, 5], ids=["longer", "shorter"])
def test_a_version_that_waits_longer_or_shorter_folds_it_to_the_same_state(
    kept: Kept, rows: list[Envelope], times: float
) -> None:
    """When a step was due is in the log: a release that changes such a constant must not leave a log that it cannot read."""
    with sooner(times):
        state = fold_log(rows, kept.of)
    assert kept.of.same(state, fold_log(rows, kept.of))


def test_the_same_is_decided_again(kept: Kept, rows: list[Envelope]) -> None:
    """A change of the rules is a change of the fingerprint: without one, every decision is the same."""
    report = verify(rows, kept.of)
    assert report.ok, report.differences[:3]
    assert {span.fingerprint for span in report.spans} == {kept.fingerprint}
    assert all(span.same is (kept.fingerprint == kept.of.fingerprint) for span in report.spans)


# -- going on ----------------------------------------------------------------------------------------------------------


def process(kept: Kept, log: EventLog, state: Any, faults: list[DdsError]) -> Controller[Any]:
    """A new one, under the policy that the log has."""
    make = PublisherController if kept.component == "publisher" else ScalerController
    return make(log, state.policy, code="a later version", on_error=faults.append)


def all_listed(controller: Controller[Any], at: int) -> list[Arriving]:
    """Everything was seen: what the log knows is still there."""
    found: list[Arriving] = [Arrival(resource, SYNCED, b"", at, since=at) for resource in sorted(controller.resources)]
    if isinstance(controller, PublisherController):
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


def differences_since(kept: Kept, rows: Sequence[Envelope]) -> list[str]:
    """What verification finds in what was added."""
    report = verify(rows, kept.of)
    return [str(one) for one in report.differences + report.told if one.position > kept.events]


def test_a_new_process_goes_on_from_it(old: tuple[Kept, SqlLog, list[Envelope]]) -> None:
    """It sees a new node and that all else is still there; a quarter of an hour later claims and pods leave."""
    kept, log, rows = old
    component, faults = kept.of, list[DdsError]()
    state = fold_log(rows[kept.begin :], component)
    now = state.process.now + SECOND
    later = now + 900 * SECOND
    controller = process(kept, log, state, faults)

    controller.open(now)
    assert controller.epoch == kept.epoch + 1
    controller.turn([Arrival("nodes", ADDED, NODE, now + SECOND)], (), now + SECOND)
    controller.turn(all_listed(controller, now + 2 * SECOND), (), now + 2 * SECOND)
    assert controller.synced
    controller.turn((), (), later)
    controller.turn(all_left(kept, controller, later + SECOND), (), later + SECOND)
    controller.turn((), (), now + 1800 * SECOND)
    assert faults == [] and controller.behind == 0

    whole = list(log.read())
    fresh = whole[len(rows) :]
    assert whole[: len(rows)] == rows, "what was written stays as it was"
    assert (fresh[0].position, fresh[0].epoch, fresh[0].group) == (kept.events + 1, kept.epoch + 1, 0)
    started = event_of(fresh[0], component)
    assert isinstance(started, Started) and started.fingerprint == component.fingerprint
    seen = "HostObserved" if kept.component == "publisher" else "NodeObserved"
    assert [row.stream for row in fresh if row.type == seen] == ["uid-of-a-new-one"]
    assert verify_log(log).last == log.head().position == fresh[-1].position
    assert differences_since(kept, whole) == []
    assert component.same(fold_log(whole[kept.begin :], component), controller.state)


def test_a_new_process_leaves_a_checkpoint_and_the_next_one_starts_with_it(
    old: tuple[Kept, SqlLog, list[Envelope]],
) -> None:
    kept, log, rows = old
    faults = list[DdsError]()
    state = fold_log(rows[kept.begin :], kept.of)
    now = state.process.now + SECOND
    first = process(kept, log, state, faults)
    first.open(now)
    first.checkpoint(now + SECOND)
    second = process(kept, log, state, faults)
    second.open(now + 2 * SECOND)
    assert (second.epoch, second.checkpoint_at) == (kept.epoch + 2, kept.events + 2)
    assert faults == []
    types = [row.type for row in log.read(kept.events)]
    assert types == ["Started", "Checkpoint", "Started"], "the policy is read as it was written"
    assert differences_since(kept, list(log.read())) == []
    assert verify_log(log).last == kept.events + 3
