"""The live scaler as a process: over HTTP, on a real log, with what befalls it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.watch.delta_queue import Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.runtime import process as module
from dds_adapters.runtime.serve_settings import LiveSettings
from dds_adapters.sql import Database
from dds_core.errors import DdsError, ForeignLog
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from dds_lab.shipped import find
from tests.support.live_lab import QUICK, LiveLab, OurProcess, eventually, without_scaler
from tests.support.live_log import Cut, Opened
from tests.support.live_log import database as database

SPEED = 4.0


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=SPEED) as lab:
        yield lab


def bound(lab: LiveLab) -> bool:
    pods = lab.call(lambda lab: lab.client("test").list("pods"))
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


def requests(lab: LiveLab) -> list[dict[str, Any]]:
    return lab.call(lambda lab: lab.client("test").list("composabilityrequests"))


def test_a_claim_is_served_and_its_device_goes_back(lab: LiveLab, database: Database) -> None:
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened):
        eventually(lambda: "Gone" in [row.to_state for row in opened.rows()])
    lives = [row.to_state for row in opened.log.read(types={"ClaimMoved"}) if row.from_state != row.to_state]
    assert lives == ["Pending", "Attaching", "Attached", "Bound", "Detaching", "Released"]
    assert opened.sound()
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 1


def test_a_stop_in_the_middle_is_quick_and_the_next_start_goes_on(lab: LiveLab, database: Database) -> None:
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened):
        eventually(lambda: requests(lab))
        began = time.monotonic()
    assert time.monotonic() - began < 10
    with OurProcess(lab.cluster(), opened):
        eventually(lambda: bound(lab))
    assert opened.sound()
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 1
    assert opened.log.head().epoch == 2


def test_while_the_log_is_away_nothing_is_written_and_nothing_is_lost(lab: LiveLab, database: Database) -> None:
    cut = Cut()
    opened = Opened(database, cut)
    cut.away.set()
    with OurProcess(lab.cluster(), opened) as ours:
        time.sleep(2.0)
        assert requests(lab) == []
        cut.away.clear()
        eventually(lambda: requests(lab))
        cut.away.set()
        eventually(lambda: ours.process.controller is not None and ours.process.controller.away)
        written = dict(ours.process.writer.counts)
        time.sleep(1.0)
        assert dict(ours.process.writer.counts) == written
        cut.away.clear()
        eventually(lambda: bound(lab))
    assert opened.sound()
    assert any("does not answer" in line for line in ours.troubles.lines)


def test_after_a_standstill_no_deadline_passes_before_all_was_listed_anew(
    lab: LiveLab, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STANDSTILL", 2.0)
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened) as ours:
        eventually(lambda: "Synced" in opened.types())
        arrivals = ours.process.arrivals
        take, stood = arrivals.take, threading.Event()

        def stand_still(timeout: float | None = None, limit: int | None = None) -> list[Arrival]:
            if not stood.is_set():
                stood.set()
                time.sleep(7.0)  # a level pass is due each 5 s
            return take(timeout, limit)

        monkeypatch.setattr(arrivals, "take", stand_still)
        assert stood.wait(10)
        eventually(lambda: opened.types()["Synced"] == 2)
    rows = [row for row in opened.log.read() if row.type in ("Stale", "Synced", "DeadlinePassed")]
    types = [row.type for row in rows]
    stale = types.index("Stale")
    assert types.count("Stale") == len(VERSIONS) - 1
    assert set(types[stale : types.index("Synced", stale)]) == {"Stale"}
    assert stale == 1 or rows[stale].occurred_at - rows[stale - 1].occurred_at < 6_000_000, "as it was before"
    assert opened.sound()
    assert any("stood still" in line for line in ours.troubles.lines)


def test_another_clusters_log_is_refused(lab: LiveLab, database: Database) -> None:
    database.open_log("lab/scaler", cluster="somebody-else", recorded_at=1)
    ours = OurProcess(lab.cluster(), Opened(database))
    ours.start()
    with pytest.raises(ForeignLog):
        eventually(lambda: not ours.alive)
        ours.stop()
    assert requests(lab) == []


def test_the_mode_of_the_policy_takes_effect_without_a_restart(lab: LiveLab, database: Database) -> None:
    policies = [QUICK.model_copy(update={"mode": "observe"})]
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened, lambda: policies[-1]):
        eventually(lambda: "AttachOrdered" in opened.types())
        time.sleep(0.5)
        assert requests(lab) == []
        policies.append(QUICK)
        eventually(lambda: requests(lab))


@pytest.mark.smoke
def test_the_kill_switch_stops_all_writing(lab: LiveLab, database: Database) -> None:
    def switch(lab: Any, mode: str) -> None:
        lab.client("test").patch(
            "configmaps", "composable-dra-dds", {"data": {"mode": mode}}, namespace="composable-dra"
        )

    opened = Opened(database)
    lab.call(lambda lab: switch(lab, "observe"))
    with OurProcess(lab.cluster(), opened):
        eventually(lambda: "AttachOrdered" in opened.types())
        assert requests(lab) == []
        lab.call(lambda lab: switch(lab, "detach"))
        eventually(lambda: requests(lab))


def test_a_standby_takes_over_when_the_leader_stops(lab: LiveLab, database: Database) -> None:
    def settings(name: str) -> LiveSettings:
        return LiveSettings(identity=name, health=None, metrics=None, leader_elect=True)

    first, second = Opened(database), Opened(database)
    one = OurProcess(lab.cluster(), first, settings=settings("one"))
    one.start()
    eventually(lambda: one.process.leading and one.process.controller is not None)
    with OurProcess(lab.cluster(), second, settings=settings("two")) as two:
        time.sleep(1.0)
        assert second.times == 0, "who stands by leaves the log alone"
        one.stop()
        eventually(lambda: two.process.leading and hasattr(second, "log"))
        eventually(lambda: bound(lab))
        eventually(lambda: second.log.head().epoch == 2)
    assert verify(second.log.read(), SCALER).ok
    assert lab.call(lambda lab: lab.ledger.count("attach", "done")) == 1


def test_a_missing_custom_kind_is_told_and_waited_for(lab: LiveLab, database: Database) -> None:
    def take_away(lab: Any) -> dict[str, Any]:
        client = lab.client("test")
        crd: dict[str, Any] = client.get("customresourcedefinitions", "composabilityrequests.cro.hpsys.ibm.ie.com")
        client.delete("customresourcedefinitions", crd["metadata"]["name"])
        return crd

    crd = lab.call(take_away)
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened) as ours:
        eventually(lambda: any("composabilityrequests" in line for line in ours.troubles.lines))
        assert ours.process.controller is not None
        eventually(lambda: ours.process.controller.lost == {"composabilityrequests"})  # type: ignore[union-attr]
        assert not ours.process.controller.synced
        fresh = {key: crd[key] for key in ("apiVersion", "kind", "spec")}
        fresh["metadata"] = {"name": crd["metadata"]["name"]}
        lab.call(lambda lab: lab.client("test").create("customresourcedefinitions", fresh))
        eventually(lambda: ours.process.controller.synced, 60)  # type: ignore[union-attr]


def test_a_token_that_nobody_knows_ends_it_with_one_line(lab: LiveLab, database: Database, tmp_path: Path) -> None:
    text = lab.kubeconfig.read_text()
    tokens = list(lab.face.credentials.tokens.values())
    wrong = tmp_path / "wrong.kubeconfig"
    wrong.write_text(text.replace(tokens[0], "nobody"))
    wrong.chmod(0o600)
    ours = OurProcess(Cluster(str(wrong), "admin"), Opened(database))
    ours.start()
    with pytest.raises(DdsError, match="401") as refused:
        eventually(lambda: not ours.alive)
        ours.stop()
    assert "nobody" not in str(refused.value)
