"""`dds serve` as a program, beside a lab over HTTP: how it starts, what it says, how it ends."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.lease.elector import RESOURCE as LEASES
from dds_adapters.sql import Database
from dds_core.scaler.policy import Policy
from dds_lab.lab import Lab
from dds_lab.shipped import find
from tests.support.commands import PROGRAM, dds, environment, fine, one_line, program
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.serve_program import LEASE, NAME, Program
from tests.support.wire import away

SPEED = 4.0
LOG = "log.sqlite3"
HEEDING = ("env", "--default-signal=HUP")  # the tests themselves may run under nohup


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=SPEED) as lab:
        yield lab


def started(
    lab: LiveLab, folder: Path, *options: str, before: tuple[str, ...] = (), policy: Policy | None = None
) -> Program:
    """The program; as it is installed first where no policy is given."""
    return Program(lab, str(folder / LOG), folder, policy or Policy(), "--migrate", *options, before=before)


def types(folder: Path) -> Counter[str]:
    """Of the events in its log."""
    if not (folder / LOG).exists() or dds("db", "check", str(folder / LOG)).exit_code:
        return Counter()
    with Database(f"sqlite:///{folder / LOG}") as database:
        heads = database.heads()
        return Counter(row.type for row in database.log(heads[0].log).read()) if heads else Counter()


def status(folder: Path) -> Any:
    return json.loads(fine("status", "--json", str(folder / LOG)))


def ordered(lab: LiveLab) -> list[Any]:
    return lab.call(lambda lab: lab.client("test").list("composabilityrequests"))


def test_a_first_installation_observes_and_calls_nobody(tmp_path: Path) -> None:
    """In a cluster as it is by default: without DeviceTaintRules."""
    scenario = without_scaler(find("first_attach"))
    scenario = scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"taint_rules": "none"})})
    with LiveLab(scenario, tmp_path, speed=SPEED) as lab, started(lab, tmp_path) as ours:
        eventually(lambda: "AttachOrdered" in types(tmp_path))
        eventually(lambda: "readyz check passed" in ours.probe().text)
        assert ours.metric("dds_synced") == 1
        said = status(tmp_path)
        assert said["log"] == f"{NAME}/scaler"
        assert said["mode"]["effective"] == "observe"
        assert said["synced"]
        assert ours.end() == 0
        assert ordered(lab) == []
        assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 0
    told = {line["level"]: line["msg"] for line in ours.lines() if line.get("part") == "devicetaintrules"}
    assert "nothing to do, everything else goes on" in told["info"], told
    called = [line for line in ours.lines() if line["level"] in ("warning", "error")]
    odd = {"clock", "loop"}  # the lab's clock runs faster, and the machine may be busy
    assert not [line for line in called if line.get("part") not in odd]
    assert len(ours.lines()) == len(ours.said.read_text().splitlines()), "each line is JSON"
    assert ours.says("would")
    fine("log", "verify", str(tmp_path / LOG))


@pytest.mark.smoke
def test_a_claim_is_served_in_mode_detach(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, policy=QUICK) as ours:
        eventually(lambda: "DevicesGiven" in types(tmp_path))
        assert ours.end(signal.SIGINT) == 0
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 1
    fine("log", "verify", str(tmp_path / LOG))


def test_it_ends_in_order_when_its_terminal_goes_away(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, before=HEEDING) as ours:
        eventually(ours.leads)
        assert ours.end(signal.SIGHUP) == 0
        assert "ended in order" in ours.lines()[-1]["msg"]


def test_the_shell_and_the_kernel_may_both_tell_that_the_terminal_went_away(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, before=HEEDING) as ours:
        eventually(ours.leads)
        for number in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):  # two at once, as some send them
            ours.process.send_signal(number)
        time.sleep(0.01)
        assert ours.end(signal.SIGHUP) == 0
        assert "ended in order" in ours.lines()[-1]["msg"]


def test_under_nohup_it_outlives_its_terminal(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, before=("nohup",)) as ours:
        ours.address("metrics")
        ours.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert ours.metric("dds_synced") is not None
        assert ours.end() == 0


def test_a_change_of_the_policy_file_takes_effect(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path) as ours:
        (policy,) = tmp_path.glob("policy-*.json")
        eventually(lambda: "AttachOrdered" in types(tmp_path))
        policy.write_text('{"mode": "attack"}', encoding="utf-8")
        eventually(lambda: ours.says(f"{policy}:1:10: mode: Input should be 'observe', 'attach' or 'detach'"))
        policy.write_text('{"mode": "attach"}', encoding="utf-8")
        eventually(lambda: ordered(lab))
        assert ours.end() == 0


def test_whoever_loses_the_lease_stands_by_again_and_leads_when_it_is_over(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, *LEASE) as ours:
        eventually(lambda: "Synced" in types(tmp_path))
        waited = [line["msg"] for line in ours.lines() if line["msg"].startswith("standing by: ")]
        assert waited and all(" leads" not in one or ": no one leads; " in one for one in waited), "a first start"

        lab.call(_give_lease_away)
        eventually(lambda: ours.says("lease composable-dra/dds-scaler: is held by somebody-else; it stands by again"))
        eventually(lambda: ours.says("standing by: somebody-else leads"))
        eventually(lambda: "no one leads; waiting for the lease until" in ours.probe().text)
        eventually(lambda: status(tmp_path)["epoch"] == 2)
        eventually(lambda: types(tmp_path)["Synced"] == 2)
        assert ours.end() == 0
    fine("log", "verify", str(tmp_path / LOG))


def test_a_standby_is_ready_and_takes_over(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path, *LEASE) as first:
        eventually(lambda: "Synced" in types(tmp_path))
        with started(lab, tmp_path, *LEASE) as second:
            eventually(lambda: "[+]log ok: standby" in second.probe().text)
            assert second.metric('leader_election_master_status{name="dds-scaler"}') == 0
            assert first.end() == 0
            eventually(lambda: status(tmp_path)["epoch"] == 2)
            assert second.end() == 0
    fine("log", "verify", str(tmp_path / LOG))


def test_status_is_shown_again_and_again(lab: LiveLab, tmp_path: Path) -> None:
    with started(lab, tmp_path) as ours:
        eventually(lambda: "Synced" in types(tmp_path))
        args = [str(PROGRAM), "status", "--watch", "--json", str(tmp_path / LOG)]
        with subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=environment()) as watching:
            assert watching.stdout is not None
            first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
            watching.send_signal(signal.SIGINT)
            assert watching.wait(10) == 130
        assert first["log"] == second["log"]
        assert second["position"] >= first["position"] > 0
        assert ours.end() == 0


def _give_lease_away(lab: Lab) -> None:
    client = lab.client("test")
    lease = copy.deepcopy(next(one for one in client.list(LEASES) if one["metadata"]["name"] == "dds-scaler"))
    lease["spec"]["holderIdentity"] = "somebody-else"
    client.update(LEASES, lease)


def test_a_start_waits_for_the_api_server(lab: LiveLab, tmp_path: Path) -> None:
    """Ending would be a loop of restarts, each with a longer pause."""
    with ExitStack() as running:
        with away(lab):
            ours = running.enter_context(started(lab, tmp_path, "--leader-elect"))
            eventually(lambda: ours.says("does not answer"))
            time.sleep(3)
            assert ours.probe("livez").code == 200
            assert ours.probe("readyz").code == 500
        eventually(lambda: types(tmp_path)["Synced"] == 1)
        assert ours.end() == 0


def test_one_replica_outlives_an_api_server_that_is_away_for_longer_than_its_lease(
    lab: LiveLab, tmp_path: Path
) -> None:
    with started(lab, tmp_path, "--leader-elect") as ours:
        eventually(lambda: types(tmp_path)["Synced"] == 1)
        with away(lab):
            eventually(lambda: ours.says("could not be renewed for 3 s"))
            eventually(lambda: ours.says("standing by: waiting for the lease: "))
            time.sleep(8)
            assert ours.probe("livez").code == 200
        eventually(lambda: types(tmp_path)["Synced"] == 2)
        assert types(tmp_path)["Started"] == 2, "the same process went on"
        assert ours.end() == 0
    fine("log", "verify", str(tmp_path / LOG))


def test_a_kubeconfig_that_is_none(tmp_path: Path) -> None:
    log = str(tmp_path / LOG)
    fine("db", "upgrade", log)
    said = one_line(program("serve", "--kubeconfig", str(tmp_path / "none"), "--log", log), 1)
    assert str(tmp_path / "none") in said
