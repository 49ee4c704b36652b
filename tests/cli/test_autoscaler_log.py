"""The commands on an autoscaler's log: alone, and beside the scaler's in one database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_core.autoscaler.records import Server
from tests.core.autoscaler.yard import Yard
from tests.support.commands import FIRST_ATTACH, fine, log_of, refused


@pytest.fixture(scope="module")
def yard() -> Yard:
    """One pod waits for a device, another for a server, of which one is coming and one has failed."""
    yard = Yard(1)
    yard.pool(1)
    yard.pod("one", claim=True)
    yard.pod("two", cpu=15_900)
    yard.refresh()
    yard.grow(1)
    yard.see(Server("s", "big", yard.order(), state="failed", code="NoPower", message="rack 7 is off"))
    return yard


def write(path: str, yard: Yard) -> None:
    with Database(f"sqlite:///{path}") as database:
        at = yard.steps[0].at
        log = database.open_log("lab/autoscaler", cluster="uid", recorded_at=at)
        groups = [step.group(number) for number, step in enumerate(yard.steps)]
        log.append(groups, epoch=log.take_epoch(at), recorded_at=yard.now)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, yard: Yard) -> str:
    path = str(tmp_path_factory.mktemp("autoscaler") / "log.sqlite3")
    fine("db", "upgrade", path)
    write(path, yard)
    return path


def test_status_tells_groups_servers_and_pods(log: str, yard: Yard) -> None:
    said = fine("status", log)
    assert "log lab/autoscaler" in said and "mode autoscale" in said
    assert f"{yard.order()}  big    failed" in said and "NoPower: rack 7 is off" in said
    assert "default/one  device" in said and "default/two  server" in said
    told = json.loads(fine("status", log, "--json"))
    assert told["groups"][0]["group"] == "big" and told["groups"][0]["coming"] == 1
    assert {row["pod"]: row["helps"] for row in told["pods_waiting"]} == {
        "default/one": "device",
        "default/two": "server",
    }


def test_beside_a_scalers_its_groups_follow(tmp_path: Path, yard: Yard) -> None:
    path = log_of(FIRST_ATTACH, tmp_path, "--name", "lab/scaler")
    write(path, yard)
    said = fine("status", path)
    assert said.index("log lab/scaler") < said.index("log lab/autoscaler")
    assert json.loads(fine("status", path, "--json"))["autoscaler"]["servers"] == 2


def test_it_is_verified_replayed_and_told(log: str, yard: Yard) -> None:
    assert "every decision is the one that the rules make" in fine("log", "verify", log)
    assert "every decision is the one" in fine("log", "verify", log)
    assert f"order a server for big as {yard.order()}" in fine("replay", log)
    assert "Cluster Autoscaler asks for 1 server more in big" in fine("timeline", "big", log)
    state = fine("replay", log, "--at", "2100-01-01T00:00:00Z")
    assert "pod default/two: server: " in state and f"{yard.order()} of big failed: NoPower" in state
    ends = ("2023-11-14T22:13:20.2Z", "2023-11-14T22:13:21.4Z")
    assert "group big" in fine("replay", log, "--diff", *ends)
    assert json.loads(fine("replay", log, "--format", "json"))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("claims",), "it is the log of an autoscaler; use dds status, or dds replay --at, on it"),
        (("pools",), "it is the log of an autoscaler"),
        (("replay", "--node", "n"), "--node says nothing about the log of an autoscaler"),
        (("timeline", "nobody"), "nobody"),
    ],
)
def test_what_it_cannot_tell_is_said(log: str, command: tuple[str, ...], said: str) -> None:
    assert said in refused(*command, log)


def test_a_report_of_the_scalers_log_says_what_became_of_servers(tmp_path: Path, yard: Yard) -> None:
    path = log_of(FIRST_ATTACH, tmp_path, "--name", "lab/scaler")
    before = json.loads(fine("report", path, "--json"))["summary"]["notes"]
    write(path, yard)
    after = json.loads(fine("report", path, "--json"))["summary"]["notes"]
    assert after[: len(before)] == before
    assert any(line.startswith("Servers: 1 ordered, 1 of them failed (1 NoPower)") for line in after)
