"""A live scaler as people and probes see it, over HTTP: metrics behind reviews and TLS, probes, log lines."""

from __future__ import annotations

import io
import json
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dds_adapters.runtime import log_lines
from dds_adapters.runtime.health import Endpoints
from dds_adapters.runtime.live_settings import Listen, LiveSettings
from dds_adapters.runtime.operation import ScalerOperation
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.scaler import make_scaler
from dds_core.errors import LogUnreachable
from dds_core.log import Envelope, EventLog, Group, MemoryLog
from dds_lab.shipped import find
from tests.adapters.web.asking import Said, ask
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler

ANYBODY = ssl.create_default_context()
ANYBODY.check_hostname = False
ANYBODY.verify_mode = ssl.CERT_NONE


class Kept:
    """A log in memory that is out of reach for as long as `away` is set."""

    def __init__(self) -> None:
        self.away = threading.Event()
        self.log: EventLog

    def append(
        self, groups: Sequence[Group], *, epoch: int, recorded_at: int, expected: Mapping[str, int] | None = None
    ) -> list[Envelope]:
        if self.away.is_set():
            raise LogUnreachable("does not answer", where="the test's log")
        return self.log.append(groups, epoch=epoch, recorded_at=recorded_at, expected=expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def open(self, uid: str) -> EventLog:
        self.log = MemoryLog("lab/scaler", cluster=uid, recorded_at=time.time_ns() // 1000)
        return self


class Watched:
    """A scaler with all that is to be seen of it."""

    def __init__(self, lab: LiveLab) -> None:
        self.lab = lab
        self.kept = Kept()
        self.lines = io.StringIO()
        self._token = lab.face.credentials.tokens["admin"]
        here = Listen("127.0.0.1", 0)
        settings = LiveSettings(identity="test", health=here, metrics=here, metrics_secure=True)
        logger = log_lines.start("info", "json", self.lines)
        self.endpoints = Endpoints(settings, logger)
        self.operation = ScalerOperation(self.endpoints, logger)
        self._cluster = lab.cluster()
        self.process = Process(
            settings, self._cluster, self.kept.open, lambda: QUICK, make_scaler("test"), observer=self.operation
        )
        self._thread = threading.Thread(target=self.process.run, name="ours", daemon=True)

    def start(self) -> None:
        self._thread.start()
        eventually(lambda: "metrics" in self.endpoints.servers)

    def stop(self) -> None:
        self.process.stop()
        self._thread.join(30)
        self.endpoints.close()
        self._cluster.close()
        assert not self._thread.is_alive()

    def probe(self, path: str) -> Said:
        return ask(self.endpoints.servers["health"], path)

    def metrics(self, token: str = "") -> Said:
        server = self.endpoints.servers["metrics"]
        return ask(server, "/metrics", headers={"Authorization": f"Bearer {token or self._token}"}, context=ANYBODY)

    def samples(self, text: str) -> dict[str, dict[tuple[str, ...], float]]:
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(v for _, v in sorted(sample.labels.items()))] = sample.value
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    root, ours = logging.getLogger(), logging.getLogger("dds")
    levels = root.level, ours.level
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=4.0) as lab:
        watched = Watched(lab)
        watched.start()
        try:
            yield watched
        finally:
            watched.stop()
            for handler in [one for one in root.handlers if isinstance(one.formatter, log_lines.JsonLines)]:
                root.removeHandler(handler)
            root.setLevel(levels[0])
            ours.setLevel(levels[1])
            logging.captureWarnings(False)


def test_what_is_shown_is_what_is_in_the_log(watched: Watched) -> None:
    eventually(lambda: watched.probe("/readyz").code == 200)
    assert watched.probe("/livez?verbose").body == b"[+]loop ok\n[+]threads ok\n[+]lease ok\nlivez check passed\n"
    eventually(lambda: hasattr(watched.kept, "log") and "Gone" in [row.to_state for row in watched.kept.log.read()])
    assert watched.metrics("nobody's").code == 401
    said = watched.metrics()
    assert said.code == 200
    live = watched.samples(said.body.decode())
    assert (
        next(iter(live["leader_election_master_status"].values()))
        == live["dds_synced"][()]
        == live["dds_log_available"][()]
        == 1
    )
    assert live["process_resident_memory_bytes"][()] > 10_000_000
    assert set(live["dds_watch_age_seconds"]) >= {("pods",), ("resourceclaims",), ("resourceslices",)}
    assert sum(live["rest_client_requests_total"].values()) > 10
    assert sum(live["dds_write_attempts_total"].values()) > 3

    watched.stop()
    rows = list(watched.kept.log.read())
    samples = watched.samples(generate_latest(watched.endpoints.registry).decode())
    types = Counter(row.type for row in rows if row.type not in ("LogOpened", "ClaimMoved", "DeviceMoved"))
    decisions = {labels[1]: count for labels, count in samples["dds_decisions_total"].items()}
    assert decisions == {name: types[name] for name in decisions} and "AttachOrdered" in decisions
    assert sum(samples["dds_device_attaches_total"].values()) == sum(samples["dds_devices_bound_total"].values()) == 1
    assert samples["dds_claim_stage_seconds_count"][("total",)] == 1
    assert samples["dds_commit_delay_seconds_count"][()] == len({row.group for row in rows[1:]})

    lines = [json.loads(line) for line in watched.lines.getvalue().splitlines()]
    told = {line["position"] for line in lines if line["logger"] == "dds.events"}
    assert told >= {row.position for row in rows if row.type in ("ClaimMoved", "DeviceMoved", "HandOver", "Started")}


@pytest.mark.smoke
def test_while_the_log_is_away_it_lives_and_is_not_ready(watched: Watched) -> None:
    eventually(lambda: watched.probe("/readyz").code == 200)
    watched.kept.away.set()
    cordon = {"spec": {"unschedulable": True}}  # what has to be written down, or nobody would notice for a while
    watched.lab.call(lambda lab: lab.client("test").patch("nodes", "node0000", cordon))
    said = eventually(lambda: (said := watched.probe("/readyz")).code == 500 and said)
    assert said and b"[-]log failed: the test's log: does not answer" in said.body
    assert watched.probe("/livez").code == 200
    assert b"dds_log_available 0.0" in watched.metrics().body
    watched.kept.away.clear()
    eventually(lambda: watched.probe("/readyz").code == 200)
    assert b"dds_log_lag_seconds 0.0" in watched.metrics().body
