"""`dds serve` as a program, beside a lab over HTTP: how it starts, what it says, how it ends."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dds_adapters.kubernetes.lease.elector import RESOURCE as LEASES
from dds_adapters.sql import Database
from dds_lab.lab import Lab
from dds_lab.shipped import find
from tests.support.commands import PROGRAM, dds, environment, fine, one_line, program
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.wire import away

SPEED = 4.0
HEEDING = ("env", "--default-signal=HUP")  # the tests themselves may run under nohup


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=SPEED) as lab:
        yield lab


class Ours:
    """The program, its log and what it said."""

    def __init__(self, lab: LiveLab, folder: Path, *options: str, before: tuple[str, ...] = ()) -> None:
        """`before`: a program that starts ours."""
        self.log = str(folder / "log.sqlite3")
        self.said = folder / f"said-{len(list(folder.iterdir()))}.jsonl"
        args = ["--kubeconfig", str(lab.kubeconfig), "--log", self.log, "--migrate", "--log-format", "json"]
        here = ["--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0"]
        with self.said.open("w") as said:
            self.program = subprocess.Popen(
                [*before, str(PROGRAM), "serve", *args, *here, *options], stderr=said, env=environment()
            )

    def lines(self) -> list[str]:
        return self.said.read_text(encoding="utf-8").splitlines()

    def address(self, of: str) -> str:
        """Where a page is served, as the program says it."""

        def told() -> str:
            messages = [json.loads(line)["msg"] for line in self.lines() if line.startswith("{")]
            return next((text.rpartition(" ")[2] for text in messages if text.startswith(f"{of} served on")), "")

        return eventually(told)

    def types(self) -> Counter[str]:
        """Of the events in its log."""
        if not Path(self.log).exists() or dds("db", "check", self.log).exit_code:
            return Counter()
        with Database(f"sqlite:///{self.log}") as database:
            heads = database.heads()
            return Counter(row.type for row in database.log(heads[0].log).read()) if heads else Counter()

    def count(self, type: str) -> int:
        return self.types()[type]

    def ended(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.program.send_signal(number)
        return self.program.wait(30)


@contextmanager
def ours(lab: LiveLab, folder: Path, *options: str, before: tuple[str, ...] = ()) -> Iterator[Ours]:
    """The program for as long as the block lasts."""
    running = Ours(lab, folder, *options, before=before)
    try:
        yield running
    finally:
        if running.program.poll() is None:
            running.program.kill()
            running.program.wait()


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
        return body.decode()


def test_a_first_installation_observes(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path) as running:
        eventually(lambda: "AttachOrdered" in running.types())
        assert "readyz check passed" in eventually(lambda: got(running.address("health") + "/readyz?verbose"))
        assert "dds_synced 1.0" in got(running.address("metrics") + "/metrics")
        said = json.loads(fine("status", "--json", running.log))
        assert said["log"] == "cluster/scaler"
        assert said["mode"]["effective"] == "observe"
        assert said["synced"]
        assert running.ended() == 0
    assert lab.call(lambda lab: lab.client("test").list("composabilityrequests")) == []
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 0
    assert all(json.loads(line) for line in running.lines())
    assert "would" in running.said.read_text()
    fine("log", "verify", running.log)


@pytest.mark.smoke
def test_a_claim_is_served_in_mode_detach(lab: LiveLab, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(QUICK.model_dump_json(), encoding="utf-8")
    with ours(lab, tmp_path, "--policy", str(policy)) as running:
        eventually(lambda: "DevicesGiven" in running.types())
        assert running.ended(signal.SIGINT) == 0
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 1
    fine("log", "verify", running.log)


def test_it_ends_in_order_when_its_terminal_goes_away(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path, before=HEEDING) as running:
        eventually(lambda: "this process decides" in running.said.read_text())
        assert running.ended(signal.SIGHUP) == 0
        assert "ended in order" in running.lines()[-1]


def test_the_shell_and_the_kernel_may_both_tell_that_the_terminal_went_away(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path, before=HEEDING) as running:
        eventually(lambda: "this process decides" in running.said.read_text())
        for number in (
            signal.SIGSTOP,
            signal.SIGHUP,
            signal.SIGTERM,
            signal.SIGCONT,
        ):  # the two at once, as some send them
            running.program.send_signal(number)
        time.sleep(0.01)
        assert running.ended(signal.SIGHUP) == 0
        assert "ended in order" in running.lines()[-1]


def test_under_nohup_it_outlives_its_terminal(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path, before=("nohup",)) as running:
        metrics = running.address("metrics")
        running.program.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert got(metrics + "/metrics")
        assert running.ended() == 0


def test_a_change_of_the_policy_file_takes_effect(lab: LiveLab, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: observe\n", encoding="utf-8")
    with ours(lab, tmp_path, "--policy", str(policy)) as running:
        eventually(lambda: "AttachOrdered" in running.types())
        policy.write_text("mode: attack\n", encoding="utf-8")
        eventually(lambda: "the policy is not valid: mode: " in running.said.read_text())
        policy.write_text("mode: attach\n", encoding="utf-8")
        eventually(lambda: lab.call(lambda lab: lab.client("test").list("composabilityrequests")))
        assert running.ended() == 0


def test_whoever_loses_the_lease_stands_by_again_and_leads_when_it_is_over(lab: LiveLab, tmp_path: Path) -> None:
    quick = ("--lease-duration", "3", "--lease-renew-deadline", "2", "--lease-retry-period", "0.3")
    with ours(lab, tmp_path, "--leader-elect", *quick) as running:
        eventually(lambda: "Synced" in running.types())

        lab.call(_give_lease_away)
        lost = "lease composable-dra/dds-scaler: is held by somebody-else; it stands by again"
        eventually(lambda: lost in running.said.read_text())
        eventually(lambda: "standing by: somebody-else leads" in running.said.read_text())
        eventually(
            lambda: "no one leads; waiting for the lease until" in got(running.address("health") + "/readyz?verbose")
        )
        eventually(lambda: json.loads(fine("status", "--json", running.log))["epoch"] == 2)
        eventually(lambda: running.count("Synced") == 2)
        assert running.ended() == 0
    fine("log", "verify", running.log)


def test_a_standby_is_ready_and_takes_over(lab: LiveLab, tmp_path: Path) -> None:
    quick = ("--leader-elect", "--lease-duration", "3", "--lease-renew-deadline", "2", "--lease-retry-period", "0.3")
    with ours(lab, tmp_path, *quick) as first:
        eventually(lambda: "Synced" in first.types())
        with ours(lab, tmp_path, *quick) as second:
            assert "[+]log ok: standby" in eventually(lambda: got(second.address("health") + "/readyz?verbose"))
            assert 'leader_election_master_status{name="dds-scaler"} 0.0' in got(second.address("metrics") + "/metrics")
            assert first.ended() == 0
            eventually(lambda: json.loads(fine("status", "--json", second.log))["epoch"] == 2)
            assert second.ended() == 0
    fine("log", "verify", first.log)


def test_while_the_log_is_away_at_the_start_it_lives_and_is_not_ready(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path, "--log", "postgresql://dds:hunter2@127.0.0.1:1/dds") as running:
        health = running.address("health")
        eventually(lambda: "cannot be reached" in running.said.read_text())
        assert got(health + "/livez") == "ok"
        with pytest.raises(urllib.error.HTTPError, match="500"):
            got(health + "/readyz")
        assert running.ended() == 0
    assert "hunter2" not in running.said.read_text()
    assert lab.call(lambda lab: lab.client("test").list("composabilityrequests")) == []


def test_status_is_shown_again_and_again(lab: LiveLab, tmp_path: Path) -> None:
    with ours(lab, tmp_path) as running:
        eventually(lambda: "Synced" in running.types())
        args = [str(PROGRAM), "status", "--watch", "--json", running.log]
        with subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=environment()) as watching:
            assert watching.stdout is not None
            first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
            watching.send_signal(signal.SIGINT)
            assert watching.wait(10) == 130
        assert first["log"] == second["log"]
        assert second["position"] >= first["position"] > 0
        assert running.ended() == 0


def _give_lease_away(lab: Lab) -> None:
    client = lab.client("test")
    lease = copy.deepcopy(next(one for one in client.list(LEASES) if one["metadata"]["name"] == "dds-scaler"))
    lease["spec"]["holderIdentity"] = "somebody-else"
    client.update(LEASES, lease)


def test_a_start_waits_for_the_api_server(lab: LiveLab, tmp_path: Path) -> None:
    """Ending would be a loop of restarts, each with a longer pause."""
    with away(lab):
        running = Ours(lab, tmp_path, "--leader-elect")
        health = running.address("health")
        eventually(lambda: "does not answer" in running.said.read_text())
        time.sleep(3)
        assert got(health + "/livez") == "ok"
        with pytest.raises(urllib.error.HTTPError, match="500"):
            got(health + "/readyz")
    try:
        eventually(lambda: running.count("Synced") == 1)
        assert running.ended() == 0
    finally:
        running.program.kill()


def test_one_replica_outlives_an_api_server_that_is_away_for_longer_than_its_lease(
    lab: LiveLab, tmp_path: Path
) -> None:
    with ours(lab, tmp_path, "--leader-elect") as running:
        eventually(lambda: running.count("Synced") == 1)
        with away(lab):
            eventually(lambda: "could not be renewed for 3 s" in running.said.read_text())
            eventually(lambda: "standing by: waiting for the lease: " in running.said.read_text())
            time.sleep(8)
            assert got(running.address("health") + "/livez") == "ok"
        eventually(lambda: running.count("Synced") == 2)
        assert running.count("Started") == 2, "the same process went on"
        assert running.ended() == 0
    fine("log", "verify", running.log)


def test_a_kubeconfig_that_is_none(tmp_path: Path) -> None:
    log = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", log)
    said = one_line(program("serve", "--kubeconfig", str(tmp_path / "none"), "--log", log), 1)
    assert str(tmp_path / "none") in said
