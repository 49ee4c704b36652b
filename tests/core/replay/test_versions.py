"""Whether this version of dds can go on with a log, and whether the one that wrote it could do so after that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dds_core.autoscaler.component import AUTOSCALER
from dds_core.engine import EngineOf, Step, checkpoint
from dds_core.errors import PolicyError, UnknownEvent
from dds_core.events import SCHEMA_VERSION, PolicyChanged, Started
from dds_core.kit.policy import logged
from dds_core.log import Group, MemoryLog
from dds_core.log.envelope import NewEvent
from dds_core.publisher.component import PUBLISHER
from dds_core.replay import WrittenBy, versions, written_by
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, read_policy
from tests.core.golden.replays import RECORDED_AT, log_of, replayed

LATER = Step(2**50, Started("0.9.0", "f" * 64, SCALER.projection, 2, "observe"), [])
Change = Callable[[NewEvent], NewEvent]


def in_next_form(event: NewEvent) -> NewEvent:
    return replace(event, schema_version=SCHEMA_VERSION + 1)


def with_later(*steps: Step, change: Change = lambda event: event) -> MemoryLog:
    """The log of a recording that 0.9.0 has gone on with; `change` makes its events those of its form."""
    log = log_of(replayed("first_attach"))
    groups = [step.group(place) for place, step in enumerate((LATER, *steps))]
    changed = [Group(one.ordinal, tuple(map(change, one.events))) for one in groups]
    log.append(changed, epoch=log.take_epoch(RECORDED_AT), recorded_at=RECORDED_AT)
    return log


def test_a_log_names_the_version_that_wrote_it_last() -> None:
    assert written_by(log_of([]), SCALER) == WrittenBy("", 0)
    assert written_by(log_of(replayed("first_attach")), SCALER) == WrittenBy("golden", SCHEMA_VERSION)
    assert written_by(with_later(), SCALER) == WrittenBy("0.9.0", SCHEMA_VERSION)


def test_only_what_a_start_reads_counts() -> None:
    """What was written in another form before the newest checkpoint is behind it."""
    log = with_later(change=lambda event: replace(event, type="Dreamt"))
    with pytest.raises(UnknownEvent):
        written_by(log, SCALER)
    group = checkpoint(SCALER, SCALER.state(), 2**50, "0.1.7").group(5)
    log.append([group], epoch=log.head().epoch, recorded_at=RECORDED_AT)
    assert written_by(log, SCALER) == WrittenBy("0.1.7", SCHEMA_VERSION)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_next_form, "Started is written in version 2 of its form, this version of dds knows up to 1; dds 0.9.0 wrote it"),
        (lambda event: replace(event, type="Dreamt"), "type 'Dreamt' is not known; dds golden wrote it"),
    ],
    ids=["form", "type"],
)  # fmt: skip
def test_a_log_of_a_later_version_is_refused_with_its_name(change: Change, words: str) -> None:
    log = with_later(change=change)
    with pytest.raises(UnknownEvent, match=words) as told:
        written_by(log, SCALER)
    assert told.value.where == f"log {log.name}, position {log.head().position}"
    assert "or a newer one, or with a copy of the log from before" in told.value.fix


def test_a_later_projection_is_refused_with_its_name() -> None:
    written = checkpoint(SCALER, SCALER.state(), 2**50, "0.9.0")
    log = with_later(written._replace(fact=replace(written.fact, projection=SCALER.projection + 1)))
    with pytest.raises(UnknownEvent, match=r"the checkpoint holds projection 2, .*; dds 0\.9\.0 wrote it"):
        written_by(log, SCALER)


def test_the_way_back_ends_with_another_form_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    found, empty = written_by(with_later(), SCALER), WrittenBy("", 0)
    assert [one.way_back_ends for one in (found, empty)] == ["", ""]
    monkeypatch.setattr(versions, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    words = "events are written in version 2 of their form from now on, dds 0.9.0 reads up to 1"
    assert [one.way_back_ends for one in (found, empty)] == [words, ""]


@pytest.mark.parametrize("component", [SCALER, PUBLISHER, AUTOSCALER], ids=lambda one: one.name)
def test_a_policy_of_another_version_is_read_without_the_fields_that_this_one_does_not_know(component: Any) -> None:
    """A release that adds a field closes no way back, and one that removes it reads older logs; a person's file is refused."""
    plain = component.policy({})
    written = {**plain.model_dump(mode="json"), "warp_factor": 9}
    engine = EngineOf(component)
    engine.feed(Started("0.9.0", "f" * 64, component.projection, 1, "observe"), 1)
    engine.feed(PolicyChanged(policy=written), 2)
    assert engine.state.policy == plain
    picture = msgspec.json.decode(component.dump(engine.state))
    picture["policy"]["warp_factor"] = 9
    assert component.load(msgspec.Raw(msgspec.json.encode(picture))).policy == plain
    with pytest.raises(PolicyError, match="warp_factor: is no field here"):
        component.policy(written)


def test_a_section_of_such_a_policy_too_and_nothing_else_is_let_pass() -> None:
    written = {"scheduler": {"binding_timeout_seconds": 90, "warp": 1}, "schedulers": {"other": {"warp": 2}}}
    found = logged(Policy, written)
    assert found == read_policy({"scheduler": {"binding_timeout_seconds": 90}, "schedulers": {"other": {}}})
    with pytest.raises(PolicyError, match="no_removal_seconds"):
        logged(Policy, {"no_removal_seconds": "long", "warp": 1})
