"""The kubelets: pods run, have their devices prepared by name, end, and go."""

from __future__ import annotations

import pytest

from dds_lab.actors.kubelet import RUN_FOR, Kubelet
from dds_lab.client import Object
from dds_lab.scenario.parts import KubeletPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import GPU, QUICK, Hall

OWN = [{"name": "d0", "resourceClaimName": "train"}]
SETTINGS = KubeletPart(start=fixed(0.1), stop=fixed(2.0))


def ready() -> Hall:
    hall = Hall(operator=QUICK)
    hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    return hall


def attached(hall: Hall) -> str:
    hall.request()
    hall.run(10)
    return hall.fabric.attached("node0")[0].device.serial


def train(hall: Hall, *devices: tuple[str, str], annotations: dict[str, str] | None = None) -> None:
    hall.claim("train")
    hall.pod("train", claims=OWN)
    if annotations:
        hall.user.patch("pods", "train", {"metadata": {"annotations": annotations}}, "default")
    hall.allocate("train", "train", "node0", *(devices or (("node0", "gpu-0"),)))
    hall.user.bind("train", "default", "node0")


def status(hall: Hall) -> Object:
    return hall.state("pods", "train", "default")


def test_a_running_pod_computes_on_its_devices_until_it_ends() -> None:
    hall = ready()
    serial = attached(hall)
    train(hall, annotations={RUN_FOR: "30"})
    hall.run(1)
    assert hall.fabric.users(serial) == ("default/train",)
    hall.run(28)
    assert status(hall)["phase"] == "Running"
    hall.run(2)
    assert status(hall)["phase"] == "Succeeded"
    assert hall.fabric.users(serial) == ()


def test_a_name_of_the_pool_is_not_prepared_and_the_pod_waits() -> None:
    hall = ready()
    attached(hall)
    train(hall, ("nvidia-a100-40-fabric1", "nvidia-a100-40-0"))
    hall.run(30)
    assert status(hall)["phase"] == "Pending"
    (event,) = hall.user.list("events", "default")
    assert (event["reason"], event["type"]) == ("FailedPrepareDynamicResources", "Warning")
    assert "allocatable not found" in event["message"]
    assert event["count"] > 1


def test_a_device_that_comes_later_lets_the_pod_start() -> None:
    hall = ready()
    train(hall)
    hall.run(10)
    assert status(hall)["phase"] == "Pending"
    attached(hall)
    hall.run(60)
    assert status(hall)["phase"] == "Running"


def test_a_claim_that_is_not_reserved_for_the_pod_is_not_prepared() -> None:
    hall = ready()
    attached(hall)
    hall.claim("train")
    hall.pod("other")
    hall.allocate("train", "other", "node0", ("node0", "gpu-0"))
    hall.pod("train", claims=OWN, node="node0")
    hall.run(10)
    assert status(hall)["phase"] == "Pending"


def test_a_deleted_pod_is_gone_within_its_grace_period() -> None:
    hall = ready()
    serial = attached(hall)
    train(hall)
    hall.run(1)
    hall.user.delete("pods", "train", "default")
    hall.run(1)
    assert hall.user.find("pods", "train", "default") is not None
    assert hall.fabric.users(serial)
    hall.run(2)
    assert hall.user.find("pods", "train", "default") is None
    assert hall.fabric.users(serial) == ()


def test_a_deleted_pod_that_a_finalizer_keeps_has_failed() -> None:
    """Kubernetes 1.27 and later: a deleted pod gets a final phase before it goes (docs: pod lifecycle, termination)."""
    hall = ready()
    serial = attached(hall)
    train(hall)
    hall.user.patch("pods", "train", {"metadata": {"finalizers": ["example.com/keep"]}}, "default")
    hall.run(1)
    hall.user.delete("pods", "train", "default")
    hall.run(10)
    assert status(hall)["phase"] == "Failed" and hall.fabric.users(serial) == ()


def test_a_pod_deleted_by_force_frees_its_devices_too() -> None:
    hall = ready()
    serial = attached(hall)
    train(hall)
    hall.run(1)
    hall.user.delete("pods", "train", "default", grace=0)
    hall.run(1)
    assert hall.fabric.users(serial) == ()


def test_a_new_process_knows_what_runs_and_for_how_long_still() -> None:
    hall = Hall()
    first = hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    attached(hall)
    train(hall, annotations={RUN_FOR: "30"})
    hall.run(10)
    first.stop()
    hall.run(10)
    hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    hall.run(8)
    assert status(hall)["phase"] == "Running"
    hall.run(4)
    assert status(hall)["phase"] == "Succeeded"


@pytest.mark.parametrize("forced", [False, True])
def test_a_pod_that_goes_while_there_is_no_kubelet_leaves_its_devices(forced: bool) -> None:
    hall = Hall()
    first = hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    serial = attached(hall)
    train(hall)
    hall.run(1)
    first.stop()
    hall.user.delete("pods", "train", "default", grace=0 if forced else 30)
    hall.run(10)
    assert hall.fabric.users(serial) == ("default/train",)
    hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    hall.run(5)
    assert hall.user.find("pods", "train", "default") is None
    assert hall.fabric.users(serial) == ()


def test_a_pod_that_had_to_leave_a_lost_node_leaves_its_devices_when_the_node_is_found() -> None:
    hall = Hall()
    kubelet = hall.start(Kubelet(hall.client("kubelet"), hall.time, SETTINGS, hall.fabric, {GPU: hall.vendor}))
    serial = attached(hall)
    train(hall)
    hall.run(1)
    kubelet.lose("node0")
    hall.user.delete("pods", "train", "default")
    hall.run(100)
    assert hall.fabric.users(serial) == ("default/train",)
    kubelet.find("node0")
    hall.run(5)
    assert hall.user.find("pods", "train", "default") is None
    assert hall.fabric.users(serial) == ()


def test_a_pod_gets_no_more_than_its_grace_period() -> None:
    hall = ready()
    hall.pod("plain", node="node0")
    hall.run(1)
    hall.user.delete("pods", "plain", "default", grace=1)
    hall.run(0.9)
    assert hall.user.find("pods", "plain", "default") is not None
    hall.run(0.2)
    assert hall.user.find("pods", "plain", "default") is None


def test_a_device_that_does_not_come_is_asked_for_less_and_less_often() -> None:
    hall = ready()
    train(hall)
    hall.run(0.2 + 2 + 4 + 8 + 16 + 32 + 64)
    assert _tries(hall) == 7
    hall.run(1200)
    assert _tries(hall) == 17  # every two minutes at last


def _tries(hall: Hall) -> int:
    (event,) = hall.user.list("events", "default")
    count: int = event["count"]
    return count
