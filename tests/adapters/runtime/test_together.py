"""Several processes in one program: the end of one is the end of all; and their endpoints, served once all are there."""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from dds_adapters.runtime import serving as module
from dds_adapters.runtime.health import OK, Endpoints, Verdict
from dds_adapters.runtime.live_settings import Listen, LiveSettings
from dds_adapters.runtime.serving import Supervisor
from dds_core.errors import DdsError, InputError


class Half:
    """Stands for a process: runs until it is stopped, or does what it is told."""

    def __init__(self, ends: Callable[[], None] | None = None) -> None:
        self._ends = ends
        self._stopping = threading.Event()
        self.ran = False

    def run(self) -> None:
        self.ran = True
        if self._ends is not None:
            self._ends()
            return
        assert self._stopping.wait(10), "nobody stopped it"

    def stop(self) -> None:
        self._stopping.set()


def fails() -> None:
    raise DdsError("the lease is lost")


def together(*halves: Any) -> Supervisor:
    return Supervisor(halves)


@pytest.mark.parametrize("which", [0, 1])
def test_the_error_of_one_ends_all_and_is_the_programs(which: int) -> None:
    halves = [Half(), Half()]
    halves[which] = Half(fails)
    with pytest.raises(DdsError, match="the lease is lost"):
        together(*halves).run()
    assert all(half.ran for half in halves)


def test_one_that_hangs_when_another_failed_is_ended_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(module, "LAST_SECONDS", 0.2)
    monkeypatch.setattr("os._exit", lambda code: ended.set())

    def hangs() -> None:
        assert ended.wait(10)

    with pytest.raises(DdsError):
        together(Half(hangs), Half(fails)).run()
    assert ended.is_set()
    ended.clear()
    with pytest.raises(DdsError):
        together(Half(), Half(fails)).run()
    assert not ended.wait(0.5), "nobody hung"


@pytest.mark.parametrize("which", [0, 1])
def test_an_end_in_order_of_one_ends_all_in_order(which: int) -> None:
    halves = [Half(), Half()]
    halves[which] = Half(lambda: None)
    together(*halves).run()


def test_a_stop_ends_all() -> None:
    program = together(Half(), Half())
    threading.Timer(0.2, program.stop).start()
    began = time.monotonic()
    program.run()
    assert time.monotonic() - began < 5


# -- endpoints


class Cluster:
    """Nobody is asked; who counts requests is told."""

    where = "nowhere"
    asked: Any = None


def endpoints(processes: int, **where: Any) -> Endpoints:
    settings = LiveSettings(identity="test", **{"health": Listen("127.0.0.1", 0), "metrics": None, **where})
    return Endpoints(settings, logging.getLogger("dds.test"), processes)


def test_nothing_is_served_before_all_have_joined() -> None:
    ours = endpoints(2, metrics=Listen("127.0.0.1", 0))
    cluster: Any = Cluster()
    try:
        ours.join(cluster, "dds-scaler", lambda: True, {"loop": lambda: OK}, {"log": lambda: OK})
        assert ours.servers == {}
        half = {"publisher-fabric": lambda: Verdict(True, "no answer about machines")}
        ours.join(cluster, "dds-publisher", lambda: False, {"publisher-loop": lambda: OK}, half)
        said = got(f"{ours.servers['health'].url}/readyz?verbose")
        lines = ["[+]loop ok", "[+]publisher-loop ok", "[+]log ok", "[+]publisher-fabric ok: no answer about machines"]
        assert said.splitlines()[:-1] == lines
        shown = got(f"{ours.servers['metrics'].url}/metrics")
        assert 'leader_election_master_status{name="dds-scaler"} 1.0' in shown
        assert 'leader_election_master_status{name="dds-publisher"} 0.0' in shown
        cluster.asked("GET", 200, 0.1)
        assert "rest_client_requests_total" in got(f"{ours.servers['metrics'].url}/metrics")
    finally:
        ours.close()


def test_an_address_that_is_taken_is_told_with_its_flag() -> None:
    first = endpoints(1)
    cluster: Any = Cluster()
    first.join(cluster, "a", lambda: True, {}, {})
    port = int(first.servers["health"].url.rpartition(":")[2])
    second = endpoints(1, health=Listen("127.0.0.1", port))
    try:
        with pytest.raises(InputError, match="--health-probe-bind-address"):
            second.join(cluster, "a", lambda: True, {}, {})
    finally:
        second.close()
        first.close()


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text
