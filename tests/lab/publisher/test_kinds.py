"""Stories of other kinds of devices and managers: devices that the manager names, shared devices, limits of machines, and API
servers that keep less."""

from __future__ import annotations

from typing import Any

from dds_lab.manager import ManagerSettings
from tests.lab.publisher.test_attaching import A100, CLUSTER, names_of, pods, ran, steps, story
from tests.support.publishing import Surroundings, change_models, publishing, written

ONE_FABRIC = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 5}}
nodes:
  - {count: 3, fabric: 1}
"""
NEC = Surroundings(manager=ManagerSettings(api="nec"))


def test_devices_that_the_manager_names_keep_their_names_and_broken_ones_are_not_listed() -> None:
    asked = steps(pods("a", "b", at=20, lasts="30s", on="node0000"))
    with publishing(written(ONE_FABRIC, asked), NEC) as run:
        run.lab.run(10)
        first = set(names_of(run))
        assert len(first) == 5
        broken = run.lab.fabric.pool("1", "NVIDIA A100")[3]
        run.lab.fabric.drop(broken.serial)
        run.lab.run(7)
        assert len(names_of(run)) == 4 and set(names_of(run)) < first
        run.lab.run(60)
        assert ran(run) == {"a", "b"}
        run.lab.fabric.restore(broken.serial)
        run.lab.run(200)
        assert set(names_of(run)) == first, "each has the name that it had"
        run.at_rest()


def test_shared_devices_with_a_request_policy_are_held_by_several() -> None:
    """Claims take shares of one device; it stays listed while one of them is there."""
    cluster = CLUSTER.replace("nvidia-h100, product: H100", "nvidia-h100, product: H100, memory: 40Gi")
    share = "devices: {nvidia-h100: 1}, shares: {nvidia-h100: {memory: 10Gi}}, delete_after: 40s"
    asked = steps(
        *(f"  - {{at: {at}s, run: {{name: {name}, {share}}}}}" for name, at in (("a", 20), ("b", 21), ("c", 22)))
    )
    policy = {"default": "5Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}

    def made_shared(entries: Any) -> None:
        entries[1].update(
            {"capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}}, "allow-multiple-allocations": True}
        )

    with publishing(story(asked, cluster)) as run:
        change_models(run.lab, made_shared)
        run.lab.run(18)
        pool = ("gpu.nvidia.com", "nvidia-h100-fabric1")
        assert all(one["allowMultipleAllocations"] for one in run.judge.view.listed(pool).values())
        most = 0
        for _ in range(100):
            run.lab.run(0.1)
            most = max(most, *(len(claims) for claims in run.judge.view.holders(pool).values()), 0)
        assert most > 1, "several claims had shares of one device"
        run.lab.run(400)
        run.at_rest()


def test_an_api_server_that_drops_binding_conditions_gets_no_pool() -> None:
    dropping = CLUSTER + "gates: {api: {DRADeviceBindingConditions: false}}\n"
    with publishing(story("", dropping)) as run:
        run.lab.run(120)
        assert run.judge.view.slices == {}
        assert run.judge.writes == []


def test_an_api_server_that_drops_taints_and_shares_gets_what_it_keeps() -> None:
    """A model that cools down is withdrawn, a shared device is an exclusive one."""
    off = "DRADeviceTaints: false, DRADeviceTaintRules: false, DRAConsumableCapacity: false"
    dropping = CLUSTER + f"gates: {{api: {{{off}}}}}\n"
    with publishing(story("", dropping)) as run:
        shared = {"capacity": {"memory": "40Gi"}, "allow-multiple-allocations": True}
        change_models(run.lab, lambda entries: entries[1].update(shared))
        run.lab.run(20)
        pool = ("gpu.nvidia.com", "nvidia-h100-fabric1")
        assert [one.get("allowMultipleAllocations") for one in run.judge.view.listed(pool).values()] == [None, None]
        run.scalers[-1].kill()  # it would take the label away
        admin = run.lab.client("admin")
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": "true"}}})
        run.lab.run(2)
        assert names_of(run, A100) == []
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": None}}})
        run.lab.run(2)
        assert len(names_of(run, A100)) == 4
        written = len(run.judge.writes)
        run.lab.run(300)
        assert len(run.judge.writes) == written
