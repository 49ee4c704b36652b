"""Stories of models that cool down while claims hold devices. That models, attributes, fabrics and machines change: one by one in
tests/core/publisher and test_d_faults.py, drawn in tests/property/publisher/test_in_the_lab.py."""

from __future__ import annotations

from dds_core.publisher.events import PoolPublished
from dds_core.publisher.policy import PublishPolicy
from tests.lab.publisher.test_attaching import A100, names_of, pods, ran, steps, story
from tests.support.publishing import PublishRun, Surroundings, publishing

LONG = steps(pods("holder", at=10, lasts="20s", on="node0000"), pods("second", at=30, lasts="60s", on="node0001"))


def holding(run: PublishRun) -> None:
    """A claim has just been given a device of the first pool, and its attach is under way."""
    while not run.judge.view.holders(A100):
        run.lab.run(0.02)


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
