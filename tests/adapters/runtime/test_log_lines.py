"""A line an event, with names, places and levels; secrets are taken out of everything else that is logged."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.recording import replay_recording
from dds_adapters.runtime import log_lines
from dds_core.errors import InputError
from dds_core.events import ClaimGone, Event, PolicyChanged, Rejected, Started, Synced, WriteRefused
from dds_core.lifecycle import CLAIM_DETACHING
from dds_core.scaler.component import Engine
from dds_core.scaler.policy import Policy
from tests.support.commits import commits

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging belongs to the whole process; other tests want it as it was."""
    root, ours = logging.getLogger(), logging.getLogger("dds")
    levels = root.level, ours.level
    yield
    for handler in [
        one for one in root.handlers if isinstance(one.formatter, log_lines.JsonLines | log_lines.TextLines)
    ]:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    logging.captureWarnings(False)


def told(name: str, level: str = "info", policy: Policy | None = None, *facts: Event) -> list[dict[str, Any]]:
    """The JSON lines of a recording, and of some facts after it."""
    stream = io.StringIO()
    narrator = log_lines.EventLogger(log_lines.start(level, "json", stream))
    engine = Engine()

    def steps() -> Iterator[Any]:
        yield from replay_recording(RECORDINGS / f"{name}.jsonl.gz", policy or Policy(), engine=engine)
        yield from (engine.feed(fact, engine.state.process.now) for fact in facts)

    for one in commits(steps()):
        narrator.committed([one], engine.state)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_transition_and_decision_is_one_line() -> None:
    engine = Engine()
    steps = list(replay_recording(RECORDINGS / "burst.jsonl.gz", Policy(), engine=engine))
    caused = sum(len(step.caused) for step in steps)
    lines = told("burst")
    about_us = {"Started", "PolicyChanged", "Synced"}
    assert sum(line["type"] not in about_us for line in lines) == caused
    positions = [line["position"] for line in lines]
    assert positions == sorted(set(positions))


def test_very_many_steps_of_one_fact_are_counted_and_told_one_by_one_at_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MANY", 1)
    lines = told("node_limit")
    counted = [line for line in lines if line["msg"].endswith("each is in the log, and logged at DEBUG")]
    assert counted and "type" not in counted[0]
    monkeypatch.setattr(log_lines, "MANY", 10_000)
    steps = sum(line["type"] in ("ClaimMoved", "DeviceMoved") for line in told("node_limit"))
    alone = sum(line.get("type") in ("ClaimMoved", "DeviceMoved") for line in lines)
    assert sum(int(line["msg"].split()[0]) for line in counted) == steps - alone
    monkeypatch.setattr(log_lines, "MANY", 1)
    assert sum(line["type"] in ("ClaimMoved", "DeviceMoved") for line in told("node_limit", level="debug")) == steps


def test_a_line_says_who_where_and_why() -> None:
    line = next(line for line in told("first_attach") if line.get("trigger") == "device_ready")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["ts"])
    assert line["msg"] == (
        "claim default/train-1: Attaching -> Attached (device_ready): GPU-1027c4d1-c386-bbc4-cd61-3e30d8f16adf is there and free"
    )
    assert (line["level"], line["type"], line["claim"], line["node"]) == (
        "info",
        "ClaimMoved",
        "default/train-1",
        "node0000",
    )
    assert (line["from"], line["to"], line["epoch"]) == ("Attaching", "Attached", 1)


def test_in_observe_it_says_what_it_would_do() -> None:
    decisions = [line for line in told("first_attach") if line.get("mode") == "observe" and line["type"] != "Started"]
    assert decisions and all("would" in line["msg"] for line in decisions)
    live = [line for line in told("first_attach", policy=Policy(mode="attach")) if line["type"] == "AttachOrdered"]
    assert live[0]["msg"].startswith("dds decided to make request dds-node0000-a100-40g-")
    assert live[0]["request"].startswith("dds-node0000-a100-40g-")


def test_every_line_is_about_names_and_not_uids() -> None:
    for name in ("burst", "node_lost", "extended_resource", "attach_failure"):
        for line in told(name):
            assert "/" in line.get("claim", "/"), line
            assert not re.match(r"(claim|device) [0-9a-f]{8}-", line["msg"]), line


def test_who_went_before_a_start_has_its_name_still() -> None:
    engine, stream = Engine(), io.StringIO()
    attach = PolicyChanged(Policy(mode="attach").model_dump(mode="json"))
    lives = engine.state.lifecycle.lives.rows
    for _ in replay_recording(RECORDINGS / "first_attach.jsonl.gz", Policy(mode="detach"), engine=engine):
        if any(life.state == CLAIM_DETACHING for life in lives.values()):
            break
    ((uid, life),) = lives.items()
    ours = log_lines.EventLogger(log_lines.start("info", "json", stream))
    facts = (Started("1", "f", 1, 2, "attach"), attach, ClaimGone(uid), Synced())
    for one in commits(engine.feed(fact, engine.state.process.now) for fact in facts):
        ours.committed([one], engine.state)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (moved,) = [line for line in lines if line["type"] == "ClaimMoved"]
    assert (moved["claim"], moved["to"]) == (f"{life.namespace}/{life.name}", "Released")
    assert uid not in lives


def test_facts_are_told_at_debug() -> None:
    types = {line["type"] for line in told("first_attach", "debug")}
    assert {"ClaimObserved", "PodObserved", "FabricResourceGone", "ClaimMoved"} <= types
    assert {"ClaimObserved", "PodObserved"}.isdisjoint(line["type"] for line in told("first_attach"))
    allocation = next(
        line for line in told("first_attach", "debug") if line["msg"] == "claim default/train-1: allocation, consumers"
    )
    assert allocation["level"] == "debug"


def test_what_a_person_should_see_is_a_warning() -> None:
    facts: tuple[Event, ...] = (
        WriteRefused(
            decision="a/b:1.2.3", action="AttachOrdered", target="r1", code=403, reason="Forbidden", text="no"
        ),
        Rejected(kind="resourceclaims", uid="u", name="bad", field="spec", reason="is missing", namespace="default"),
    )
    lines = told("first_attach", "warning", None, *facts)
    assert [line["type"] for line in lines] == ["WriteRefused", "Rejected"]
    assert all(line["level"] == "warning" for line in lines)
    assert lines[0]["action"] == "AttachOrdered" and lines[0]["code"] == 403 and lines[0]["reason"] == "Forbidden"
    assert lines[1]["name_of"] == "default/bad" and lines[1]["field"] == "spec"
    failed = told("attach_failure", "warning")
    assert "ClaimFailed" in {line["type"] for line in failed}


def test_how_the_scaler_fares_is_told_at_info() -> None:
    lines = told("first_attach", "info", None, PolicyChanged(policy=Policy(mode="attach").model_dump(mode="json")))
    assert [line["type"] for line in lines if line["type"] in ("Started", "PolicyChanged", "Synced")] == [
        "Started",
        "PolicyChanged",
        "Synced",
        "PolicyChanged",
    ]


def test_an_event_that_cannot_be_told_costs_its_line_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise KeyError("x")

    monkeypatch.setattr(log_lines, "decision_words", broken)
    lines = told("first_attach")
    assert "AttachOrdered cannot be described (KeyError); it is in the log" in [line["msg"] for line in lines]


def test_text_lines_are_for_people() -> None:
    stream = io.StringIO()
    logger = log_lines.start("info", "text", stream)
    logger.warning("the log is away\nfor now", extra={"part": "log", "why": 'it "said" no', "n": 3})
    line = stream.getvalue()
    assert re.fullmatch(r'[-\dT:.]+Z WARNING the log is away for now part=log why="it \\"said\\" no" n=3\n', line), line
    logging.getLogger(log_lines.EVENTS).info("evil\x1b[2J was bound")  # the filter leaves lines about events unchanged
    assert stream.getvalue().endswith(" evil\\x1b[2J was bound\n")


def test_secrets_are_taken_out_of_words_fields_and_tracebacks() -> None:
    stream = io.StringIO()
    logger = log_lines.start("debug", "json", stream)
    logger.info("asked with Authorization: Bearer %s", "abc.def-hunter2")
    logger.info("connected", extra={"url": "postgresql://dds:hunter2@db/dds"})
    try:
        raise RuntimeError("password=hunter2")
    except RuntimeError:
        logger.exception("it failed")
    logging.getLogger("urllib3").warning("token: hunter2")
    text = stream.getvalue()
    assert "hunter2" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 4
    assert lines[2]["error"].startswith("RuntimeError: password=[removed] | raise RuntimeError")


def test_of_other_packages_only_warnings_are_shown() -> None:
    stream = io.StringIO()
    log_lines.start("debug", "json", stream)
    logging.getLogger("urllib3").debug("chatter")
    logging.getLogger("dds.web").debug("ours")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    names = [json.loads(line)["logger"] for line in stream.getvalue().splitlines()]
    assert names == ["dds.web", "py.warnings"]


def said_by(name: str, words: str, *args: object, at: float) -> None:
    """A record of another package, as of an instant in seconds."""
    record = logging.LogRecord(name, logging.WARNING, "", 0, words, args, None)
    record.created = at
    logging.getLogger(name).handle(record)


def test_what_another_package_says_again_is_one_line_a_minute() -> None:
    stream = io.StringIO()
    log_lines.start("debug", "json", stream)
    for second in range(0, 121, 2):
        said_by(
            "urllib3.connectionpool", "Retrying (%r) after connection broken by %r", second, "gone", at=1000.0 + second
        )
    said_by("urllib3.connectionpool", "Connection pool is full (%s)", 10, at=1001.0)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["msg"], line.get("repeated")) for line in lines] == [
        ("Retrying (0) after connection broken by 'gone'", None),
        ("Retrying (60) after connection broken by 'gone'", 29),
        ("Retrying (120) after connection broken by 'gone'", 29),
        ("Connection pool is full (10)", None),
    ]


def test_our_own_words_are_never_held_back() -> None:
    stream = io.StringIO()
    ours = log_lines.start("info", "json", stream)
    for _ in range(3):
        ours.info("once more")
        ours.getChild("events").info("once more")
    assert len(stream.getvalue().splitlines()) == 6


def test_words_that_do_not_fit_their_arguments_do_not_cost_the_line() -> None:
    record = logging.makeLogRecord({"name": "dds", "msg": "%d things", "args": ("many",)})
    assert log_lines.Scrubbing().filter(record)
    assert json.loads(log_lines.JsonLines().format(record))["msg"] == "%d things"


def test_a_reader_that_is_gone_does_not_stop_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    logger = log_lines.start("info", "json", stream)
    stream.close()
    logger.info("nobody reads this")
    assert capsys.readouterr().err == ""


def test_starting_again_takes_the_place_of_the_time_before() -> None:
    first, second = io.StringIO(), io.StringIO()
    log_lines.start("info", "json", first)
    log_lines.start("info", "text", second).info("once")
    assert first.getvalue() == "" and second.getvalue().count("once") == 1


@pytest.mark.parametrize(("level", "form"), [("loud", "json"), ("info", "xml")])
def test_what_does_not_exist_is_told(level: str, form: str) -> None:
    with pytest.raises(InputError, match="use"):
        log_lines.start(level, form)
