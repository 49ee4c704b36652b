"""Parts of a real cluster end, stand still and come back while dds works; the publisher's pools in place of the lab's."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dds_lab.scenario import Scenario
from tests.e2e.playing import Play
from tests.e2e.test_scenarios import tell
from tests.support.control_plane import PARTS, ControlPlane
from tests.support.expected_ends import ENDS
from tests.support.joined import patient
from tests.support.live_publisher import PUBLISH
from tests.support.ours import told_to_us
from tests.support.postgres import Postgres
from tests.support.serve_program import LEASE, Program

MANY = "many_devices"
TAKEN_OVER = 60.0
"""Seconds until another leads."""
POOLS = "/apis/resource.k8s.io/v1/resourceslices?labelSelector=app.kubernetes.io/managed-by=dds-publisher"


@pytest.mark.parametrize("part", [*PARTS, "dds"])
def test_a_part_is_killed_and_comes_back(plane: ControlPlane, part: str, tmp_path: Path, record_property: Any) -> None:
    """Three times, first while the first device is being attached."""
    with Play(plane, told_to_us(MANY), tmp_path) as it:
        log = it.log("")
        ours = it.serve(log)
        began = time.monotonic()
        for at in (15.5, 25.0, 35.0):
            time.sleep(max(0.0, began + at - time.monotonic()))
            if part == "dds":
                ours.kill()
                ours = it.serve(log)
            else:
                plane.kill(part)
                time.sleep(1.0)
                plane.start(part)
        it.to_the_end()
    # A scheduler that was restarted may choose anew. An operator whose answer cannot be written attaches once more.
    away = part in ("etcd", "kube-apiserver")
    found = frozenset({"beyond need"} if away else ())
    it.held(replace(ENDS[MANY], attaches=(3, 9), found=found), refused=away)
    tell(it.seen, record_property)


def test_two_replicas_are_killed_and_frozen_on_postgresql(
    plane: ControlPlane, postgres: Postgres, tmp_path: Path, record_property: Any
) -> None:
    """Every few seconds whoever leads is killed, or stands still until the other leads."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    record_property("seed", seed)
    burst = told_to_us("burst")
    longer = burst.model_copy(
        update={"duration": burst.duration + 120.0}
    )  # so that all are served after the last change
    with Play(plane, longer, tmp_path) as it:
        log = it.log(postgres.new_database())

        def replica() -> Program:
            return it.serve(log, *LEASE)

        def leads() -> Program | None:
            return next((one for one in replicas if one.alive and one.leads()), None)

        replicas = [replica(), replica()]
        until = time.monotonic() + burst.duration - 30.0
        changes = 0
        while time.monotonic() < until:
            patient(lambda: leads() is not None, TAKEN_OVER)
            time.sleep(draw.uniform(3.0, 12.0))
            leader = leads()
            if leader is None:
                continue
            replicas.remove(leader)
            changes += 1
            if draw.random() < 0.5:
                leader.stand_still()
                patient(lambda: leads() is not None, TAKEN_OVER)
                leader.go_on()  # with writes under way that are too late
                time.sleep(3.0)
            leader.kill()
            replicas.append(replica())
        it.to_the_end()
    assert changes >= 4
    record_property("leaders", changes)
    it.held(replace(ENDS["burst"], attaches=(18, 40)))
    tell(it.seen, record_property)


class Joined(Play):
    """The lab without a publisher; it stays until it is told to leave."""

    def command(self, path: Path) -> tuple[str, ...]:
        where = ("--kubeconfig", str(self.plane.kubeconfig))
        return (
            "lab",
            "join",
            str(path),
            *where,
            "--without",
            "publisher",
            "--manager",
            "fm",
            "--record",
            str(self._recording),
        )


def of_an_inventory(it: Play) -> tuple[str, ...]:
    nodes = "".join(f"  - {{node: {one}, fabric: '1'}}\n" for one in it.scenario.cluster.node_names())
    path = it.folder / "inventory.yaml"
    path.write_text(f"machines:\n{nodes}fabrics:\n  '1': {{A100 40G: 4}}\n")
    return ("--fabric", "file", "--inventory", str(path))


def of_the_manager(it: Play) -> tuple[str, ...]:
    it.lab.until("--from-file=")
    found = re.search(r"manager \(fm\) is at (\S+)\s+credentials: (\S+)\s+tenant (\S+)", it.lab.text)
    assert found, it.lab.text
    return (
        "--fabric", "fm", "--fabric-endpoint", found[1], "--credentials-folder", found[2], "--tenant-id", found[3],
    )  # fmt: skip


@pytest.mark.parametrize("source", [of_an_inventory, of_the_manager])
def test_pools_of_the_publisher(
    plane: ControlPlane, source: Callable[[Play], tuple[str, ...]], tmp_path: Path, record_property: Any
) -> None:
    scenario: Scenario = told_to_us("first_attach")
    with Joined(plane, scenario, tmp_path) as it:
        ours = it.serve(it.log(""))
        log = it.log("", "lab/publisher")
        it.serve(log, *source(it), "--scan-interval", "1", policy=PUBLISH, command="publish")
        patient(lambda: ours.says("-> Bound"), 240.0)
        it.to_the_end(signal.SIGINT)
    plane.host.ask("DELETE", POOLS)  # a publisher that ends leaves its pools
    it.held(ENDS["first_attach"])
    tell(it.seen, record_property)
