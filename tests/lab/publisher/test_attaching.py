"""Stories of claims that are served out of our pools: publisher, scaler, operator, scheduler and simulated manager together."""

from __future__ import annotations

from collections import Counter

from dds_core.publisher.events import PoolPublished
from dds_lab.driver import Pace
from dds_lab.judge.publisher import Measure
from dds_lab.scenario import Scenario
from tests.support.publishing import PublishRun, Surroundings, publishing, written

A100 = ("gpu.nvidia.com", "nvidia-a100-fabric1")
CLUSTER = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
  - {model: NVIDIA H100, device: nvidia-h100, product: H100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 4, NVIDIA H100: 2}}
  - {id: 2, devices: {NVIDIA A100: 2}}
nodes:
  - {count: 4, fabric: 1}
  - {first: 4, count: 2, fabric: 2}
"""


def pods(
    *names: str, at: int = 10, lasts: str = "30s", device: str = "nvidia-a100", count: int = 1, on: str = ""
) -> str:
    """Steps of a scenario: these pods at this second (on this node), each with a claim of so many devices."""
    where = f", node_selector: {{kubernetes.io/hostname: {on}}}" if on else ""
    ends = f"lasts: {lasts}, delete_after: {lasts}{where}"
    return "\n".join(
        f"  - {{at: {at}s, run: {{name: {name}, devices: {{{device}: {count}}}, {ends}}}}}" for name in names
    )


def steps(*parts: str) -> str:
    return "steps:\n" + "\n".join(parts)


def story(more: str, cluster: str = CLUSTER) -> Scenario:
    return written(cluster, more)


def ran(run: PublishRun) -> set[str]:
    return set(run.outcomes.ran)


def names_of(run: PublishRun, pool: tuple[str, str] = A100) -> list[str]:
    return sorted(run.judge.view.listed(pool))


def test_the_first_attach_takes_one_device_from_the_pool_and_gives_it_back() -> None:
    with publishing(story(steps(pods("train", lasts="60s")))) as run:
        run.lab.run(8)
        assert names_of(run) == [f"nvidia-a100-{number}" for number in range(4)]
        run.lab.run(40)
        assert ran(run) == {"train"}
        used = run.lab.fabric.free("1", "NVIDIA A100") + run.lab.fabric.free("2", "NVIDIA A100")
        assert used == 5
        run.lab.run(200)
        assert names_of(run) == [f"nvidia-a100-{number}" for number in range(4)]
        run.at_rest()
    pools = Counter(event.pool for _, event in run.events(PoolPublished) if isinstance(event, PoolPublished))
    assert max(pools.values()) <= 6, pools  # first, taken, handed over, given back, and a race or two


def test_a_burst_of_claims_on_a_small_pool_is_served_one_after_the_other() -> None:
    names = [f"job-{number}" for number in range(14)]
    with publishing(story(steps(pods(*names, lasts="20s")))) as run:
        run.lab.run(600)
        assert ran(run) == set(names)
        run.at_rest()


def test_what_claims_let_go_is_not_taken_by_those_who_wait() -> None:
    """Twelve pods wait for a device when two are handed theirs: the names that are freed then stand for nothing any more."""
    first = pods("a", "b", at=10, lasts="200s", on="node0004")
    others = pods(*(f"waits-{number}" for number in range(12)), at=11, lasts="5s", on="node0005")
    with publishing(story(steps(first, others))) as run:
        run.lab.run(100)
        assert ran(run) == {"a", "b"}
        assert run.judge.view.overbooked == []
        assert run.outcomes.failed == {}
        run.lab.run(600)
        run.at_rest()


def test_a_device_that_has_been_attached_is_not_offered_while_the_count_is_old() -> None:
    """Four claims use up the pool, their devices arrive, and all that between two questions to the fabric."""
    seldom = Surroundings(pace=Pace(interval=40.0), measure=Measure(lag=1.0))
    first = pods("a", "b", "c", "d", at=11, lasts="60s", on="node0000")
    with publishing(story(steps(first)), seldom) as run:
        run.lab.run(38)
        assert ran(run) == {"a", "b", "c", "d"}
        assert names_of(run) == []
        run.lab.run(300)
        run.at_rest()


def test_pods_of_many_devices_share_a_pool() -> None:
    some = pods("big", count=3, lasts="40s"), pods("two", at=12, count=2, lasts="40s"), pods("one", at=14, lasts="40s")
    with publishing(story(steps(*some, pods("other", at=15, device="nvidia-h100")))) as run:
        run.lab.run(400)
        assert ran(run) == {"big", "two", "one", "other"}
        run.at_rest()


def test_devices_that_come_and_go_by_hand_are_followed() -> None:
    with publishing(story(steps(pods("first", lasts="50s")))) as run:
        run.lab.run(20)
        run.lab.fabric.resize("1", "NVIDIA A100", 3)
        run.lab.run(20)
        run.lab.fabric.resize("1", "NVIDIA A100", -5)
        run.lab.run(200)
        run.at_rest()
        assert run.lab.fabric.free("1", "NVIDIA A100") + run.lab.fabric.free("2", "NVIDIA A100") == 4


def test_more_devices_than_a_slice_holds_are_in_several_and_one_change_is_one_write() -> None:
    many = CLUSTER.replace("{NVIDIA A100: 4, NVIDIA H100: 2}", "{NVIDIA A100: 300, NVIDIA H100: 2}")
    with publishing(story("", many)) as run:
        run.lab.run(30)
        assert [len(one.names) for one in run.judge.view.of(A100)] == [128, 128, 44]
        before = len(run.judge.writes)
        run.lab.fabric.resize("1", "NVIDIA A100", 1)
        run.lab.run(10)
        assert len(run.judge.writes) == before + 1
        assert [one.generation for one in run.judge.view.of(A100)] == [1, 1, 1]
        run.lab.fabric.resize("1", "NVIDIA A100", -200)
        run.lab.run(30)
        assert [len(one.names) for one in run.judge.view.of(A100)] == [101]
        run.at_rest()


def test_after_a_burst_beyond_what_there_is_every_device_goes_back() -> None:
    """Fourteen pods fight for six devices: orders are left behind that nothing can fill, and none of them keeps a device."""
    names = [f"job-{number}" for number in range(14)]
    with publishing(story(steps(pods(*names, lasts="20s"))), seed=4) as run:
        run.lab.run(1500)
        assert ran(run) == set(names)
        assert run.lab.ledger.attached() == {}
        assert len(names_of(run)) == 4
        assert len(names_of(run, ("gpu.nvidia.com", "nvidia-a100-fabric2"))) == 2
