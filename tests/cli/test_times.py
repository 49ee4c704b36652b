"""`--since`, `--until` and `--at`: what is cut off is not shown, and what is shown is as in the whole story."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from dds_commands import main
from tests.support.commands import FIRST_ATTACH, fine, log_of, refused

CLAIM = "default/train-1"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"))


def entries(*args: str) -> list[dict[str, Any]]:
    found = json.loads(fine(*args, "--json"))["entries"]
    assert isinstance(found, list)
    return [one for one in found if one["kind"] != "rest"]


@pytest.mark.parametrize("command", [("timeline", CLAIM), ("timeline", "node0001"), ("replay",)])
def test_the_entries_of_a_period_are_those_of_the_whole(command: tuple[str, ...], log: str) -> None:
    for source in (FIRST_ATTACH, log):
        whole = entries(*command, source)
        assert len(whole) > 3
        at, position = whole[2]["at"], whole[2]["position"]
        later, up_to = [one for one in whole if one["at"] >= at], [one for one in whole if one["at"] <= at]
        assert entries(*command, source, "--since", at) == later
        assert entries(*command, source, "--until", at) == up_to
        assert entries(*command, source, "--since", str(position)) == [o for o in whole if o["position"] >= position]
        assert entries(*command, source, "--until", str(position)) == [o for o in whole if o["position"] <= position]
        assert entries(*command, source, "--since", at, "--until", at) == [one for one in whole if one["at"] == at]
        assert entries(*command, source, "--since", "1d") == whole


def options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command with its options."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from options(inner, (*path, name))
    else:
        yield " ".join(path), {opt for one in command.params for opt in one.opts}


def test_at_is_of_a_state_and_until_of_a_period_in_every_command() -> None:
    of = dict(options(main))
    both = {"claims", "devices", "replay"}  # a state, or with --all and without --at what has been
    assert {name for name, opts in of.items() if "--at" in opts} == {*both, "pools"}
    assert {name for name, opts in of.items() if "--since" in opts} == {
        *both, "timeline", "incident", "report", "usage", "export", "log tail",
    }  # fmt: skip
    assert all("--until" in opts for opts in of.values() if "--since" in opts)


def test_a_state_is_that_at_an_instant_or_a_position(log: str) -> None:
    position = str(entries("replay", log, "--until", "02:11:20")[-1]["position"])
    for command in ("claims", "devices", "replay"):
        (_, *shown), (_, *same) = (fine(command, log, "--at", one).splitlines() for one in ("02:11:20", position))
        assert shown and [line.split()[:2] for line in same] == [line.split()[:2] for line in shown]
    assert "as of 2026-11-21T02:12:00.000000Z" in fine("claims", log, "--at", "02:12")


def test_what_is_counted_is_what_is_shown_and_the_end_is_the_end() -> None:
    whole, part = (json.loads(fine("replay", FIRST_ATTACH, *more, "--json")) for more in ((), ("--since", "02:11:20")))
    assert part["summary"]["claims"] == whole["summary"]["claims"]
    changes = [one for one in part["entries"] if one["kind"] in ("claim", "device")]
    assert 0 < part["summary"]["changes"] == len(changes) < whole["summary"]["changes"]
    assert 0 < part["summary"]["facts"] < whole["summary"]["facts"]


def test_the_newest_events_of_a_period(log: str) -> None:
    rows = [json.loads(line) for line in fine("log", "tail", log, "-n", "1000", "--format", "jsonl").splitlines()][1:]

    def tail(*args: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in fine("log", "tail", log, *args, "--format", "jsonl").splitlines()]

    at = "2026-11-21T02:11:10.000000Z"
    since, until = [one for one in rows if one["at"] >= at], [one for one in rows if one["at"] <= at]
    assert len(since) > 20 and len(until) > 20
    assert tail("--since", at)[-len(since) :] == since
    assert tail("--until", at) == until[-20:]
    assert tail("--since", at, "-n", "3") == since[-3:]
    assert tail("--since", "30", "--until", "39") == [one for one in rows if 30 <= one["position"] <= 39]
    assert (
        tail("--until", at, "--type", "ClaimMoved", "-n", "1") == [o for o in until if o["type"] == "ClaimMoved"][-1:]
    )
    assert "nothing has happened since" in refused("log", "tail", log, "--since", "2099-01-01T00:00Z")
    assert "what is followed has no end" in refused("log", "tail", log, "--follow", "--until", at)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("timeline", CLAIM, "--at", "02:12"), "No such option '--at'"),
        (
            ("claims", "--until", "02:12"),
            "--until says nothing of what is there; give --at for the state at an instant",
        ),
        (
            ("claims", "--since", "02:12"),
            "--since says nothing of what is there; give --at for the state at an instant",
        ),
        (("devices", "--all", "--at", "02:12"), "--at shows a state, --all what has been; give --until"),
        (("replay", "--at", "02:12", "--until", "02:11"), "--at and --until do not go together"),
        (("replay", "--since", "02:11", "--at", "02:12"), "--at and --since do not go together"),
        (("replay", "--since", "02:12", "--until", "02:11:10"), "--since 02:12 is after --until 02:11:10"),
        (("replay", "--at", "02:12", "--since", "02:12"), "--at and --since do not go together"),
        (("replay", "--until", "0"), "positions begin with 1"),
        (("devices", "--at", "noon"), "'noon' is no instant; write 2026-11-21T02:11:05.761Z"),
    ],
)
def test_a_period_that_cannot_be_is_refused(args: tuple[str, ...], said: str) -> None:
    assert said in refused(*args, FIRST_ATTACH)
