"""Stories in which what is configured or cabled changes while claims hold devices: models, attributes, fabrics, machines, and
models that cool down."""

from __future__ import annotations

from typing import Any

from dds_core.events import NodeLabelled
from dds_core.publisher.events import PoolPublished
from dds_core.publisher.policy import PublishPolicy
from tests.lab.publisher.test_attaching import A100, names_of, pods, ran, steps, story
from tests.support.publishing import PublishRun, Surroundings, change_models, publishing

H100 = ("gpu.nvidia.com", "nvidia-h100-fabric1")
A100_2 = ("gpu.nvidia.com", "nvidia-a100-fabric2")
LONG = steps(pods("holder", at=10, lasts="20s", on="node0000"), pods("second", at=30, lasts="60s", on="node0001"))


def entry(device: str, **more: Any) -> dict[str, Any]:
    return {
        "index": 7,
        "cdi-model-name": f"CXL {device}",
        "k8s-device-name": device,
        "driver-name": "cxl.example.com",
        "dra-attributes": {"productName": device},
        "cannot-coexist-with": [],
        **more,
    }


def holding(run: PublishRun) -> None:
    """A claim has just been given a device of the first pool, and its attach is under way."""
    while not run.judge.view.holders(A100):
        run.lab.run(0.02)


def test_attributes_that_change_while_a_claim_holds_a_device() -> None:
    with publishing(story(LONG)) as run:
        run.lab.run(9)
        holding(run)
        held, before = set(run.judge.view.holders(A100)), names_of(run)
        change_models(run.lab, lambda entries: entries[0]["dra-attributes"].update(architecture="Ampere"))
        change_models(run.lab, lambda entries: entries[0].update(capacity={"memory": "40Gi"}))
        change_models(
            run.lab, lambda entries: entries[0].update(attributes={"slots": {"int": 2}, "ecc": {"bool": True}})
        )
        run.lab.run(2)
        assert held and names_of(run) == before
        assert run.judge.view.listed(A100)[min(held)]["capacity"] == {"memory": {"value": "40Gi"}}
        run.lab.run(300)
        assert ran(run) == {"holder", "second"}
        run.at_rest()


def test_a_model_is_added_and_removed_while_a_claim_holds_a_device_of_it() -> None:
    """Of a model that is not configured any more only what is held stays, as it was described, until nobody holds it."""
    with publishing(story(LONG)) as run:
        run.lab.run(5)
        change_models(run.lab, lambda entries: entries.append(entry("cxl-memory")))
        run.lab.run(6)
        assert ("cxl.example.com", "cxl-memory-fabric1") in run.judge.view.pools()
        holding(run)
        kept: list[Any] = []
        change_models(run.lab, lambda entries: kept.extend([entries.pop(0), entries.pop()]))
        run.lab.run(0.5)
        assert names_of(run) == sorted(run.judge.view.holders(A100))
        assert A100_2 not in run.judge.view.pools()
        assert ("cxl.example.com", "cxl-memory-fabric1") not in run.judge.view.pools()
        run.lab.run(30)
        change_models(run.lab, lambda entries: entries.insert(0, kept[0]))
        run.lab.run(300)
        run.at_rest()


def test_a_slip_of_the_pen_keeps_nobody_from_being_served() -> None:
    """The pool of a model whose entry cannot be read stays, and what is allocated from it is attached."""
    with publishing(story(LONG)) as run:
        run.lab.run(5)
        change_models(run.lab, lambda entries: entries[0].update({"cannot-coexist-with": "none"}))
        run.lab.run(75)
        assert ran(run) == {"holder", "second"}
        change_models(run.lab, lambda entries: entries[0].update({"cannot-coexist-with": []}))
        run.lab.run(220)
        run.at_rest()


def test_a_fabric_leaves_and_returns() -> None:
    """Its pool goes a minute after the last machine has left it, and is there again when one comes."""
    with publishing(story(LONG)) as run:
        run.lab.run(8)
        for node in ("node0004", "node0005"):
            run.lab.fabric.disconnect(node)
        run.lab.run(40)
        assert A100_2 in run.judge.view.pools(), "it may be an answer that leaves something out"
        run.lab.run(60)
        assert A100_2 not in run.judge.view.pools()
        run.lab.fabric.connect("node0004", "2")
        run.lab.fabric.connect("node0005", "2")
        run.lab.run(10)
        assert len(names_of(run, A100_2)) == 2
        run.lab.run(200)
        run.at_rest()


def test_a_fabric_leaves_while_a_claim_holds_its_device() -> None:
    """What is held stays listed for as long as it is held."""
    with publishing(story(steps(pods("holder", at=10, lasts="20s", on="node0004")))) as run:
        run.lab.run(10)
        while not run.judge.view.holders(A100_2):
            run.lab.run(0.02)
        (name,) = run.judge.view.holders(A100_2)
        for node in ("node0004", "node0005"):
            run.lab.fabric.disconnect(node)
        run.lab.run(100)
        for _ in range(400):
            assert name in names_of(run, A100_2) or name not in run.judge.view.holders(A100_2)
            run.lab.run(1)
        run.at_rest()


def test_a_machine_moves_to_another_fabric() -> None:
    with publishing(story(LONG)) as run:
        run.lab.run(8)
        run.lab.fabric.connect("node0003", "2")
        run.lab.run(10)
        assert run.judge.view.labels["node0003"]["cohdi.io/fabric"] == "2"
        run.lab.fabric.connect("node0002", "")
        run.lab.run(10)
        assert "cohdi.io/fabric" not in run.judge.view.labels["node0002"]
        run.lab.run(300)
        assert ran(run) == {"holder", "second"}
        run.at_rest()
    written = [event.node for _, event in run.events(NodeLabelled) if isinstance(event, NodeLabelled)]
    assert sorted(written) == ["node0002", "node0003"], "no other label was written"


def test_a_model_that_cools_down_is_closed_and_opened_again() -> None:
    """A node asks for it by a label: every device of the pool is tainted, also those that are held, and no slice is too large."""
    with publishing(story(LONG)) as run:
        run.lab.run(9)
        run.lab.fabric.resize("1", "NVIDIA A100", 96)
        run.lab.run(10)
        run.scalers[-1].kill()  # it would take the label away
        admin = run.lab.client("admin")
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": "true"}}})
        run.lab.run(1)
        devices = run.judge.view.listed(A100).values()
        assert len(devices) >= 99 and all(one["taints"][0]["key"] == "cohdi.io/cooling" for one in devices)
        assert [len(one.names) <= 64 for one in run.judge.view.of(A100)] == [True, True]
        run.lab.run(20)
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": None}}})
        run.another_scaler().start()
        run.lab.run(2)
        assert not any(one.get("taints") for one in run.judge.view.listed(A100).values())
        run.lab.run(300)
        assert ran(run) == {"holder", "second"}
        run.at_rest()


def test_a_model_that_cools_down_is_withdrawn_where_policy_wants_it() -> None:
    around = Surroundings(policy=PublishPolicy(mode="publish", while_cooling="withdraw"))
    with publishing(story(LONG), around) as run:
        run.lab.run(9)
        holding(run)
        run.scalers[-1].kill()  # it would take the label away
        admin = run.lab.client("admin")
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": "true"}}})
        run.lab.run(0.5)
        assert names_of(run) == sorted(run.judge.view.holders(A100)) != []
        admin.patch("nodes", "node0002", {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": None}}})
        run.another_scaler().start()
        run.lab.run(400)
        assert ran(run) == {"holder", "second"}
        run.at_rest()


def test_a_fabric_that_gives_no_device_is_closed_by_the_scaler_and_opened_again() -> None:
    """Attaches fail on several nodes: the scaler asks by its label, the publisher taints, the scaler reads that and gives the
    claims back; when it is over they run."""
    failing = """
faults:
  fabric: [{kind: refuse, models: [NVIDIA A100], until: 100s, words: "CDI manager: machine update failed, E02XXXX"}]
"""
    asked = steps(pods("a", at=10, lasts="20s", on="node0000"), pods("b", at=10, lasts="20s", on="node0001"))
    with publishing(story(asked + failing)) as run:
        closed = 0
        for _ in range(100):
            run.lab.run(1)
            listed = run.judge.view.listed(A100).values()
            closed += bool(listed) and all(one.get("taints") for one in listed)
        assert closed > 5
        assert run.outcomes.failed
        run.lab.run(900)
        assert ran(run) == {"a", "b"}
        run.at_rest()
    taints = [event.taint for _, event in run.events(PoolPublished) if isinstance(event, PoolPublished)]
    assert "cohdi.io/cooling" in taints and taints[-1] == ""
