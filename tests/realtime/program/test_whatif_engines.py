"""Who plays the runs of a sweep makes no difference: one process, eight, or a Ray cluster of which a node is killed."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_core.errors import InputError
from dds_whatif.engines import opened
from tests.support.commands import REPOSITORY, program

REAL = str(REPOSITORY / "tests" / "data" / "real" / "burst-22.log.jsonl.gz")
RUNS = 6


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    grid = tmp_path_factory.mktemp("sweep") / "grid.yaml"
    grid.write_text('policy: {hand_over: [exchange, clear]}\npools: {"A100 40G": [8]}\n')
    return ("whatif", REAL, "--sweep", str(grid), "--seeds", "3", "--anyway", "--json")


@pytest.fixture(scope="module")
def alone(command: tuple[str, ...]) -> str:
    return said(*command, "--jobs", "1")


def said(*args: str) -> str:
    done = program(*args, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_eight_processes_say_the_same_bytes_as_one(command: tuple[str, ...], alone: str) -> None:
    assert said(*command, "--jobs", "8") == alone
    assert len(json.loads(alone)["runs"]) == RUNS


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of a Ray cluster, each with a CPU."""
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    one = {"num_cpus": 1, "include_dashboard": False}
    found = utils.Cluster(initialize_head=True, head_node_args=one)
    found.second = found.add_node(**one)
    try:
        yield found
    finally:
        found.shutdown()


def kept(place: Path) -> int:
    if not place.exists():
        return 0
    with sqlite3.connect(place) as database:
        try:
            (number,) = database.execute("SELECT count(*) FROM dds_whatif_runs").fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(number)


@pytest.mark.filterwarnings("default")
def test_ray_says_the_same_when_a_node_is_killed_in_the_middle(
    command: tuple[str, ...], alone: str, cluster: Any, tmp_path: Path
) -> None:
    place, killed = tmp_path / "results.sqlite3", list[int]()

    def kill() -> None:
        end = time.monotonic() + 200
        while time.monotonic() < end and not 2 <= kept(place) < RUNS:
            time.sleep(0.05)
        killed.append(kept(place))
        cluster.remove_node(cluster.second, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    found = said(*command, "--engine", "ray", "--ray-address", cluster.address, "--results", str(place))
    killer.join()
    assert found == alone
    assert 2 <= killed[0] < RUNS and kept(place) == RUNS


def test_a_ray_that_is_not_there_is_said_in_a_line(command: tuple[str, ...]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    done = program(*command, "--engine", "ray", "--ray-address", "127.0.0.1:1", timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("dds: 127.0.0.1:1: ")


@pytest.mark.filterwarnings("default")
def test_a_ray_of_another_version_is_said_in_a_line(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray compares versions only when it has connected."""
    ray: Any = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr(ray, "__version__", "0.1.0")
    with pytest.raises(InputError, match=r"Ray: 0\.1\.0.*; install the cluster's versions here") as told:
        opened("ray", address=cluster.address)
    ray.shutdown()
    assert str(told.value).startswith(f"{cluster.address}: Ray refuses: Version mismatch")
    assert "\n" not in str(told.value)
