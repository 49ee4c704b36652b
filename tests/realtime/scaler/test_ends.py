"""How a live scaler begins with a server that is none, and what becomes of its lease when it ends."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Cluster, Unreachable
from dds_adapters.runtime import process
from dds_adapters.runtime import process as module
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.process import identify
from dds_adapters.sql import Database, upgrade
from dds_core.errors import DdsError
from dds_lab.shipped import find
from tests.support.http_server import Asked, Said, http_server
from tests.support.live_lab import LiveLab, OurProcess, eventually, without_scaler

PAGE = b"<html><h1>Sign in</h1></html>"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(200, PAGE), "something else than a namespace"),
        (Said(200, b'{"metadata": {}}'), "something else than a namespace"),
        (Said(200, b'{"metadata": {"uid": ""}}'), "something else than a namespace"),
        (Said(403, PAGE), "let this user get the namespace kube-system"),
        (Said(503), "503"),
    ],
)
def test_what_is_no_api_server_of_ours_is_told_in_one_line(said: Said, words: str, tmp_path: Path) -> None:
    with http_server(lambda _: said) as server, closing(Cluster(server.kubeconfig(tmp_path / "k"))) as cluster:
        with pytest.raises(DdsError, match=words) as told:
            identify(cluster)
        assert "kube-system" in str(told.value) and "\n" not in str(told.value)


def test_a_process_that_has_lost_its_lease_stands_by_again_and_nobody_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(module, "_end_now", lambda: ended.append(1))
    monkeypatch.setattr(module, "LAST_SECONDS", 4.0)
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    settings = LiveSettings(identity="one", health=None, metrics=None, leader_elect=True)
    with LiveLab(without_scaler(find("empty")), tmp_path) as lab, Database(url) as database:
        ours = OurProcess(
            lab.cluster(),
            lambda uid: database.open_log("lab/scaler", cluster=uid, recorded_at=1),
            settings=settings,
        )
        ours.start()
        eventually(lambda: ours.process.controller is not None)
        taken = {"spec": {"holderIdentity": "another", "renewTime": "2026-11-21T08:00:00.000000Z"}}
        lab.call(lambda lab: lab.client("test").patch("leases", settings.lease_name, taken, settings.lease_namespace))
        eventually(lambda: ours.process.controller is None)
        eventually(lambda: ours.process.controller is not None and ours.process.controller.epoch == 2)
        time.sleep(module.LAST_SECONDS)
        assert ended == []
        ours.stop()


def test_a_server_that_never_answers_keeps_no_start_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ANSWER_SECONDS", 0.3)
    over = threading.Event()

    def silent(_: Asked) -> Said:
        over.wait(10)
        return Said()

    with http_server(silent) as server, closing(Cluster(server.kubeconfig(tmp_path / "k"))) as cluster:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            identify(cluster)
        assert time.monotonic() - began < 5
        over.set()


@pytest.mark.parametrize("hangs", [False, True])
def test_the_lease_is_kept_until_it_runs_out_when_a_write_hangs(
    hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes over at once would be overtaken by it."""
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    settings = LiveSettings(identity="one", health=None, metrics=None, leader_elect=True)
    with LiveLab(without_scaler(find("empty")), tmp_path) as lab, Database(url) as database:

        def holder() -> str:
            lease: Any = lab.call(
                lambda lab: lab.client("test").get("leases", settings.lease_name, settings.lease_namespace)
            )
            return lease["spec"].get("holderIdentity") or ""

        def open_log(uid: str) -> Any:
            return database.open_log("lab/scaler", cluster=uid, recorded_at=1)

        with OurProcess(lab.cluster(), open_log, settings=settings) as ours:
            eventually(lambda: ours.process.controller is not None)
            if hangs:
                monkeypatch.setattr(ours.process.writer, "stop", lambda seconds: False)
        assert holder() == ("one" if hangs else "")
        elector = ours.process.elector
        assert elector is not None
        elector.stop(5)
