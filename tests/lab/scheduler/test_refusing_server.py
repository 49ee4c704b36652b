"""A server that refuses every fifth call: everything is bound in the end, and no device is given twice."""

from __future__ import annotations

import pytest

from dds_lab.actors.scheduler import Scheduler, SchedulerSettings
from dds_lab.api import status
from dds_lab.api.requests import Call
from dds_lab.client import Object
from tests.lab.scheduler.stage import QUICK, Stage


class Twice:
    """Watches for devices that two claims hold at a time."""

    def __init__(self, stage: Stage) -> None:
        self.holders: dict[tuple[str, str], str] = {}
        self.found: list[str] = []
        stage.user.mirror("resourceclaims").on_change(self.follow)

    def follow(self, old: Object | None, new: Object | None) -> None:
        for device in devices(old):
            self.holders.pop(device, None)
        for device in devices(new):
            assert new is not None
            if device in self.holders:
                self.found.append(f"{device}: {self.holders[device]} and {new['metadata']['name']}")
            self.holders[device] = new["metadata"]["name"]


def devices(claim: Object | None) -> list[tuple[str, str]]:
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {"devices": {"results": []}}
    return [(one["pool"], one["device"]) for one in allocation["devices"]["results"]]


@pytest.mark.parametrize("seed", range(6))
def test_refusals_delay_and_break_nothing(seed: int) -> None:
    stage = Stage(nodes=3, seed=seed, claims=True)
    stage.pool(*(f"p-{number}" for number in range(4)))
    for node in ("node0", "node1", "node2"):
        stage.local(node, "gpu-0", "gpu-1")
    random = stage.time.random("refusals")
    client = stage.client("kube-scheduler")

    def refuse(call: Call) -> None:
        if call.verb not in ("list", "watch") and random.random() < 0.2:
            raise random.choice(
                [
                    status.conflict(call.resource, call.name),
                    status.internal("etcdserver: leader changed"),
                    status.too_many_requests(),
                    status.unavailable(),
                ]
            )

    client.before = refuse
    stage.start(Scheduler(client, stage.time, SchedulerSettings(latencies=QUICK)))
    twice = Twice(stage)
    for number in range(10):
        stage.train(f"job{number}")
        stage.run(0.5)
    for _ in range(120):
        stage.run(2)
        for number in range(10):
            name = f"job{number}"
            waits = stage.reserved(name) and any(
                pool == "pool" for pool, _ in devices(stage.user.get("resourceclaims", name, "default"))
            )
            if waits and not stage.state("resourceclaims", name, "default").get("devices"):
                stage.say(name, "Ready")

    assert [stage.node_of(f"job{number}") == "" for number in range(10)] == [False] * 10
    assert twice.found == []
