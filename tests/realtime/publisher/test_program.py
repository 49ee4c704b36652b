"""`dds publish`, and `dds serve --publish`, as programs beside a lab whose hardware has a manager with a REST API over https."""

from __future__ import annotations

import copy
import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.lease.elector import RESOURCE as LEASES
from dds_adapters.sql import Database, upgrade
from dds_core.publisher.policy import PublishPolicy
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, parse
from dds_lab.scenario.trouble import ManagerFault
from tests.support.commands import fine
from tests.support.live_lab import QUICK, LiveLab, eventually
from tests.support.live_publisher import PUBLISH, devices, pool_slices
from tests.support.postgres import Postgres
from tests.support.serve_program import LEASE, Program

A100, POOL = "A100 40G", "nvidia-a100-40-fabric3"
FOUR = [f"nvidia-a100-40-{number}" for number in range(4)]


def scenario(api: str = "cm", steps: str = "[]") -> Scenario:
    text = f"""
cluster:
  models: [{{model: {A100}, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}}]
  fabrics: [{{id: 3, devices: {{{A100}: 4}}}}]
  nodes: [{{count: 2, fabric: 3, limits: {{{A100}: {{max: 3, min: 0}}}}}}]
parts: {{manager: {{api: {api}, answer: 1ms}}, scaler: false, publisher: false, fabric: {{attach: 20ms}}}}
steps: {steps}
"""
    return parse(text, "test")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(scenario(), tmp_path) as lab:
        yield lab


@pytest.fixture
def log(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    return url


def fabric(lab: LiveLab) -> tuple[str, ...]:
    """The settings by which the lab's manager is reached."""
    manager = lab.manager.manager.settings
    return (
        "--fabric", manager.api, "--fabric-endpoint", lab.manager.url, "--tenant-id", manager.tenant,
        "--cluster-id", manager.cluster, "--credentials-folder", str(lab.credentials), "--scan-interval", "1",
    )  # fmt: skip


def publishing(lab: LiveLab, log: str, folder: Path, *options: str, policy: PublishPolicy = PUBLISH) -> Any:
    return Program(lab, log, folder, policy, *fabric(lab), *options, command="publish")


def published(lab: LiveLab, *names: str) -> bool:
    return sorted(devices(lab).get(POOL, [])) == sorted(names)


def types(log: str, name: str = "lab/publisher") -> Counter[str]:
    with Database(log) as database:
        if name not in {head.log for head in database.heads()}:
            return Counter()
        return Counter(row.type for row in database.log(name).read())


def verified(log: str, *names: str) -> None:
    for name in names:
        fine("log", "verify", log, "--name", name)


def struck(lab: LiveLab, fault: ManagerFault, on: bool = True) -> None:
    """The manager has a fault from now on, or no longer."""

    def change(lab: Lab) -> None:
        assert lab.manager is not None
        (lab.manager.faults.add if on else lab.manager.faults.lift)(fault)

    lab.call(change)


def test_a_first_installation_observes_and_says_what_it_would_publish(lab: LiveLab, log: str, tmp_path: Path) -> None:
    with publishing(lab, log, tmp_path, policy=PublishPolicy()) as ours:
        eventually(lambda: types(log)["PoolPublished"])
        assert ours.seen_all() and pool_slices(lab) == []
        assert ours.end() == 0
    said = json.loads(fine("status", "--json", "--name", "lab/publisher", log))
    assert said["mode"]["effective"] == "observe" and said["stocks"] == [{"fabric": "3", "model": A100, "free": 4}]
    assert any("would" in line["msg"] and POOL in line["msg"] for line in ours.lines())
    verified(log, "lab/publisher")


@pytest.mark.smoke
def test_what_the_manager_has_free_is_published_and_follows_it(lab: LiveLab, log: str, tmp_path: Path) -> None:
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        node = lab.call(lambda lab: lab.client("test").get("nodes", "node0000"))
        assert node["metadata"]["labels"]["cohdi.io/nvidia-a100-40-size-max"] == "3"
        eventually(lambda: ours.metric('dds_publisher_free_devices{fabric="3",model="A100 40G"}') == 4)
        key = f'driver="gpu.nvidia.com",pool="{POOL}"'
        eventually(lambda: ours.metric(f"dds_publisher_pool_tainted{{{key}}}") == 0)
        assert ours.metric('dds_publisher_fabric_calls_total{call="im.token",outcome="200"}') == 1
        age = ours.metric('dds_publisher_answer_age_seconds{fabric="3",model="A100 40G",question="stock"}')
        assert age is not None and age < 10
        assert "[+]fabric ok\n" in ours.probe().text
        lab.call(lambda lab: lab.fabric.attach("node0000", A100, lambda answer: None))
        eventually(lambda: published(lab, *FOUR[:3]))
        assert ours.end() == 0
    assert published(lab, *FOUR[:3]), "what is published outlives who publishes"
    assert "lab-password" not in (text := ours.said.read_text()) and "lab-secret" not in text
    verified(log, "lab/publisher")


def test_killed_and_started_again_it_goes_on_without_a_write(lab: LiveLab, log: str, tmp_path: Path) -> None:
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        ours.kill()
    before = pool_slices(lab)
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: types(log)["Synced"] == 2)
        time.sleep(3)
        assert pool_slices(lab) == before
        lab.call(lambda lab: lab.fabric.attach("node0000", A100, lambda answer: None))
        eventually(lambda: published(lab, *FOUR[:3]))
        assert ours.end(signal.SIGINT) == 0
    assert types(log)["Started"] == 2
    verified(log, "lab/publisher")


def test_a_manager_that_is_away_takes_nothing_and_makes_nobody_unready(lab: LiveLab, log: str, tmp_path: Path) -> None:
    away = ManagerFault(kind="away")
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        before = pool_slices(lab)
        struck(lab, away)
        eventually(lambda: ours.metric('dds_publisher_failing_questions{question="machines"}') == 1, 60)
        time.sleep(PUBLISH.gone_seconds + 5)
        probe = ours.probe()
        assert probe.code == 200 and "[+]fabric ok: no answer about machines: fm.machines" in probe.text
        assert pool_slices(lab) == before
        struck(lab, away, on=False)
        lab.call(lambda lab: lab.fabric.attach("node0000", A100, lambda answer: None))
        eventually(lambda: published(lab, *FOUR[:3]), 60)
        eventually(lambda: "[+]fabric ok\n" in ours.probe().text, 60)
        assert ours.end() == 0
    verified(log, "lab/publisher")


def test_a_manager_that_hangs_keeps_nobody_from_ending(lab: LiveLab, log: str, tmp_path: Path) -> None:
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        before = pool_slices(lab)
        struck(lab, ManagerFault(kind="slow", wait=300))
        time.sleep(3)
        began = time.monotonic()
        assert ours.end() == 0
        assert time.monotonic() - began < 5
    assert pool_slices(lab) == before
    verified(log, "lab/publisher")


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_scaler_and_publisher_in_one_program(
    where: str, log: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A pod asks for a device that nobody has yet: the one shows it, the other has it attached."""
    if where == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        log = postgres.new_database()
        upgrade(log)
    steps = "[{at: 4s, run: {name: train-1, devices: {nvidia-a100-40: 1}, delete_after: 12s}}]"
    with LiveLab(scenario(steps=steps), tmp_path, speed=4.0) as lab, both(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        eventually(lambda: bound(lab), 60)
        eventually(lambda: ours.metric("dds_publisher_synced") == 1 and ours.metric("dds_synced") == 1)
        assert ours.metric('leader_election_master_status{name="dds-scaler"}') == 1
        assert ours.metric('leader_election_master_status{name="dds-publisher"}') == 1
        probe = ours.probe()
        assert probe.code == 200
        assert "[+]resourceclaims ok" in probe.text and "[+]publisher-resourceclaims ok" in probe.text
        eventually(lambda: lab.call(lambda lab: lab.ledger.count("detach", "done")) == 1, 60)
        eventually(lambda: published(lab, *FOUR), 60)
        assert ours.end() == 0
    assert types(log, "lab/scaler")["DevicesGiven"] >= 1 and types(log)["PoolPublished"] >= 2
    verified(log, "lab/scaler", "lab/publisher")


@pytest.mark.parametrize("lost", ["dds-publisher", "dds-scaler"])
def test_whoever_of_them_loses_its_lease_stands_by_and_the_other_goes_on(
    lost: str, lab: LiveLab, log: str, tmp_path: Path
) -> None:
    with both(lab, log, tmp_path) as ours:
        eventually(lambda: published(lab, *FOUR))
        eventually(lambda: ours.says("this process decides") and ours.says("this process publishes"))
        lab.call(lambda lab: _give_away(lab, lost))
        eventually(lambda: ours.says(f"lease composable-dra/{lost}: is held by") and ours.says("it stands by again"))
        eventually(lambda: types(log, f"lab/{lost.removeprefix('dds-')}")["Started"] == 2)
        assert types(log, "lab/scaler")["Started"] + types(log, "lab/publisher")["Started"] == 3, "the other went on"
        assert ours.end() == 0
    verified(log, "lab/scaler", "lab/publisher")


def test_a_log_that_another_cluster_owns_ends_the_whole_program(lab: LiveLab, log: str, tmp_path: Path) -> None:
    with Database(log) as database:
        database.open_log("lab/publisher", cluster="somebody-else", recorded_at=1)
    with both(lab, log, tmp_path) as ours:
        assert ours.process.wait(40) == 1
    assert "somebody-else" in ours.lines()[-1]["msg"]


def both(lab: LiveLab, log: str, folder: Path) -> Any:
    written = folder / "publish.json"
    written.write_text(PUBLISH.model_dump_json(), encoding="utf-8")
    settings = ("--publish", "--publish-policy", str(written), *fabric(lab), *LEASE)
    return Program(lab, log, folder, QUICK, *settings)


def bound(lab: LiveLab) -> bool:
    pods = lab.call(lambda lab: lab.client("test").list("pods"))
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


def _give_away(lab: Lab, name: str) -> None:
    client = lab.client("test")
    lease = copy.deepcopy(next(one for one in client.list(LEASES) if one["metadata"]["name"] == name))
    lease["spec"]["holderIdentity"] = "somebody-else"
    client.update(LEASES, lease)
