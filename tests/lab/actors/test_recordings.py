"""The whole cluster tells the same stories as the recordings: claims, resources, slices go through the same states in
the same order.

The recordings' operator was an ideal one; ours is the real one's state machine. Where they differ, `REQUESTS` and the
tests say so.
"""

from __future__ import annotations

from dds_lab.scenario.trouble import FabricFault
from tests.lab.actors.plant import Plant, Told, attach_times, followed, recorded


def compare(told: Told, name: str) -> None:
    """Everything but requests, which `requests` compares."""
    before = recorded(name)
    assert told.claims == before.claims
    assert list(told.resources.values()) == list(before.resources.values())
    assert told.slices == before.slices
    requests(told, name)


def requests(told: Told, name: str) -> None:
    """A request comes to Running as recorded. The real operator then goes through its states again at each new size,
    which the recorded one did not."""
    before = recorded(name)
    assert set(told.requests) == set(before.requests)
    for node, states in told.requests.items():
        assert states[:3] == before.requests[node][:3] == ["", "Updating", "Running"]
        assert set(states[3:]) <= {"Updating", "Running"}


def test_first_attach() -> None:
    """The hand-over lands on the other node: one pod costs two attaches."""
    choices = ["node0000", "node0001", "node0001"]
    plant = Plant(count=4, nodes=2, attach=attach_times("first_attach"), choices=choices)
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("train-1")
    plant.until(lambda: plant.runs("train-1"))
    plant.run(6)
    plant.work.withdraw("train-1")
    plant.run(25)
    compare(told, "first_attach")
    assert plant.fabric.ledger.count("attach", "done") == plant.fabric.ledger.count("detach", "done") == 2


def test_withdrawn() -> None:
    """Pod and claim go while the device is being attached."""
    plant = Plant(count=4, nodes=1, attach=attach_times("withdrawn"))
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("hasty")
    plant.run(3)
    plant.work.withdraw("hasty")
    plant.run(20)
    compare(told, "withdrawn")
    assert plant.fabric.ledger.attached() == {}


def test_node_lost() -> None:
    """The node goes away under a bound claim; this operator leaves its request behind, and the device is lost with the
    machine."""
    choices = ["node0001", "node0000", "node0001"]
    plant = Plant(count=4, nodes=2, attach=attach_times("node_lost"), choices=choices)
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("victim")
    plant.until(lambda: plant.runs("victim"))
    plant.work.lose("node0001")
    plant.work.withdraw("victim")
    plant.run(20)
    compare(told, "node_lost")
    assert list(plant.fabric.ledger.attached().values()) == ["node0001"]


def test_pool_exhausted() -> None:
    """B11: the first claim fails when the pool shrinks under it. The second pod takes its device without a new
    attach."""
    plant = Plant(count=1, nodes=2, attach=attach_times("pool_exhausted"), choices=["node0000", "node0000"])
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("first")
    plant.until(lambda: plant.runs("first"))
    plant.pod_of("second")
    plant.run(15)
    plant.work.withdraw("first")
    plant.until(lambda: plant.runs("second"))
    plant.work.withdraw("second")
    plant.run(25)
    compare(told, "pool_exhausted")
    assert plant.fabric.ledger.count("attach", "done") == 1


def test_many_devices() -> None:
    """B10 and B11: a small pod takes a device of the big one, whose claim fails once. Idle devices are used again.

    Detaches that run side by side end in any order, so the slices' way down is compared by what is left at each
    step."""
    plant = Plant(count=6, nodes=1, attach=attach_times("many_devices"))
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("big", 3)
    plant.run(1.05)
    plant.pod_of("small")
    plant.until(lambda: plant.runs("small") and plant.runs("big"))
    plant.work.withdraw("big")
    plant.run(8)
    plant.pod_of("reuse", 2)
    plant.until(lambda: plant.runs("reuse"))
    plant.work.withdraw("small")
    plant.work.withdraw("reuse")
    plant.run(25)
    before = recorded("many_devices")
    assert told.claims == before.claims
    assert list(told.resources.values()) == list(before.resources.values())
    requests(told, "many_devices")
    node, pool = "node0000-gpu-nvidia-com", "nvidia-a100-40-fabric1-gpu-nvidia-com-0"
    assert told.slices[node][:6] == before.slices[node][:6]
    assert [len(one) for one in told.slices[node]] == [len(one) for one in before.slices[node]]
    assert [len(one) for one in told.slices[pool]][-5:] == [len(one) for one in before.slices[pool]][-5:]


def test_attach_failure() -> None:
    """The fabric refuses; the scheduler times out and tries again. A resource that never had a device has nothing to
    detach: the real operator lets it go at once, where the recorded one went through Detaching."""
    plant = Plant(count=2, nodes=1, attach=[1.0])
    plant.fabric.faults.add(FabricFault(kind="refuse"))
    plant.run(0.1)
    told = followed(plant)
    plant.pod_of("unlucky")
    plant.run(50)
    plant.work.withdraw("unlucky")
    plant.run(3)
    before = recorded("attach_failure")
    assert told.claims == before.claims
    assert told.slices == before.slices
    first, second = told.resources.values()
    assert first == ["node0000", "", "Attaching", "Deleting", "gone"]
    assert second[:3] == ["node0000", "", "Attaching"]
    assert plant.fabric.ledger.count("attach", "done") == 0
    assert plant.fabric.ledger.count("attach", "failed") > 2


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> list[tuple[int, str, str]]:
        plant = Plant(count=4, nodes=2, attach=[1.5])
        for name in ("a", "b", "c"):
            plant.pod_of(name)
        plant.run(60)
        return [(one.at, one.outcome, one.serial) for one in plant.fabric.ledger]

    first = story()
    assert first == story()
    assert len(first) >= 6
