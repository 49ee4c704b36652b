"""What scenario is made of a trace: its pods with their times, its pools and nodes; and that it plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_core.errors import InputError
from dds_lab.lab import Lab
from dds_lab.scenario import read_scenario
from dds_lab.scenario.workload import Arrival, read_workload
from dds_lab.tally import Tally
from dds_whatif.traces.demand import Trace
from dds_whatif.traces.formats import read_trace
from dds_whatif.traces.scenario import Imported, Shape, cut, imported, name_of, write
from tests.lab.whatif.traces.samples import DLRM, NODES, PHILLY, PODS, sample

ZERO = 1507507200.0


def dlrm(folder: Path) -> Trace:
    return read_trace("alibaba-gpu-v2025", [sample(folder, "dlrm.csv.gz", DLRM)])


def openb(folder: Path) -> Trace:
    return read_trace("openb-v2023", [sample(folder, "p.csv", PODS), sample(folder, "n.csv", NODES)])


def philly(folder: Path) -> Trace:
    return read_trace("philly", [sample(folder, "jobs.csv", PHILLY)])


def short(one: Arrival) -> tuple[float, str, int, float | None]:
    return one.at, one.run.name, sum(one.run.devices.values()), one.run.delete_after


def made(trace: Trace, shape: Shape | None = None, window: tuple[float, float] | None = None) -> Imported:
    return imported(cut(trace, window or trace.window), "made", shape or Shape())


def test_pods_come_when_they_were_created_and_stay_as_long_as_they_ran(tmp_path: Path) -> None:
    found = made(dlrm(tmp_path))
    assert [short(one) for one in found.arrivals()] == [
        (0.0, "i-0", 1, None),
        (0.0, "i-2", 1, 1800.0),
        (600.0, "i-3", 1, 3600.0),
        (3600.0, "i-4", 1, 0.0),
        (7000.0, "i-5", 1, None),
    ]
    first = next(found.arrivals()).run
    assert (first.namespace, first.cpu, first.memory, first.devices) == ("a-0", "4000m", "16384Mi", {"gpu": 1})
    cluster = found.scenario.cluster
    assert cluster.fabrics[0].devices == {"GPU": 3}
    assert cluster.namespaces == ("a-0", "a-1")
    (nodes,) = cluster.nodes
    assert (nodes.count, nodes.cpu, nodes.memory, nodes.limits["GPU"].max) == (2, "64000m", "266240Mi", 8)
    assert found.scenario.duration == 9000


def test_what_runs_when_the_window_begins_comes_at_once_for_the_rest_of_its_time(tmp_path: Path) -> None:
    found = made(dlrm(tmp_path), window=(1000.0, 4000.0))
    assert [short(one) for one in found.arrivals()] == [
        (0.0, "i-0", 1, None),
        (0.0, "i-2", 1, 800.0),
        (0.0, "i-3", 1, 3260.0),
        (2600.0, "i-4", 1, 0.0),
    ]


def test_it_comes_one_after_the_other_within_the_warm_up_and_ends_when_it_would(tmp_path: Path) -> None:
    found = made(dlrm(tmp_path), Shape(warm_up=300.0), window=(1000.0, 4000.0))
    assert [short(one) for one in found.arrivals()] == [
        (0.0, "i-0", 1, None),
        (100.0, "i-2", 1, 1000.0),
        (200.0, "i-3", 1, 3360.0),
        (2900.0, "i-4", 1, 0.0),
    ]
    assert found.scenario.duration == 3300


def test_a_job_larger_than_a_node_is_several_pods(tmp_path: Path) -> None:
    found = made(philly(tmp_path))
    assert [short(one) for one in found.arrivals()] == [
        (0.0, "job-00003", 2, 10800.0),
        (10.0, "job-00002", 1, 100.0),
        (10800.0, "job-00001-0", 8, 7200.0),
        (10800.0, "job-00001-1", 4, 7200.0),
    ]
    assert found.pods == 4
    assert found.scenario.cluster.fabrics[0].devices == {"GPU": 12}
    assert found.scenario.cluster.namespaces == ("vc-0aa001", "vc-77")
    assert found.scenario.start == round(ZERO * 1_000_000)


def test_every_so_many_jobs_are_kept_whole_and_the_rest_is_counted(tmp_path: Path) -> None:
    part = cut(philly(tmp_path), (ZERO, ZERO + 18000), 2)
    assert [one.name for one in part.held] == ["job-00003", "job-00001"]
    assert dict(part.left_out) == {"thinned out, one of 2 is kept": 1}
    assert part.rows == 3


def test_openb_gets_pools_by_model_and_the_hosts_of_its_list(tmp_path: Path) -> None:
    found = made(openb(tmp_path))
    assert [(short(one), next(iter(one.run.devices))) for one in found.arrivals()] == [
        ((0.0, "pod-0", 1, 10000.0), "m1"),
        ((500.0, "pod-2", 1, 7500.0), "m2"),
        ((1000.0, "pod-3", 2, 1900.0), "m1"),
    ]
    assert dict(found.left_out) == {
        "never ran": 1,
        "ended as the window begins": 1,
        "more CPU or memory than a node has": 1,
    }
    assert found.scenario.cluster.fabrics[0].devices == {"M1": 4, "M2": 1}
    assert [(one.cpu, one.count, one.first) for one in found.scenario.cluster.nodes] == [
        ("32000m", 1, 0),
        ("16000m", 1, 1),
    ]


def test_what_never_ran_may_come_and_go_as_it_did(tmp_path: Path) -> None:
    found = made(openb(tmp_path), Shape(pending=True))
    waited = next(one for one in found.arrivals() if one.run.name == "pod-4")
    assert (waited.at, waited.withdraw_after, waited.run.delete_after) == (1500.0, 100.0, None)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(pools={"M3": 1}), "--pool: no model 'M3' is known here; known: M1, M2"),
        (Shape(pools={"M1": 1}), "pod-3 asks for 2 M1 at once, its pool has 1; give --pool M1=2, or more"),
        (Shape(pool=1), "pod-3 asks for 2 M1 at once, its pool has 1"),
        (Shape(slots=1), "pod-3 asks for 2 M1 at once, a node has 1 slots; give --slots 2, or more"),
        (Shape(nodes=3), "the list of nodes has 2 without devices of their own; give --nodes 2, or fewer"),
    ],
)
def test_a_shape_that_does_not_hold_the_trace_is_told(tmp_path: Path, shape: Shape, words: str) -> None:
    with pytest.raises(InputError) as refused:
        made(openb(tmp_path), shape)
    assert words in str(refused.value)


def test_a_window_without_anything_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="nothing is held from 2017-10-10T00:00:00Z until 2017-10-10T00:01:00Z; choose from"
    ):
        cut(philly(tmp_path), (ZERO + 86400, ZERO + 86460))


def test_what_no_scenario_can_hold_is_told(tmp_path: Path) -> None:
    jobs = PHILLY.replace("7200.0,12,", "7200.0,200000,")
    trace = read_trace("philly", [sample(tmp_path, "jobs.csv", jobs)])
    with pytest.raises(
        InputError, match=r"no scenario can hold it: devices\.GPU: Input should be less than or equal to"
    ):
        made(trace)


@pytest.mark.parametrize("of", [dlrm, openb, philly])
def test_what_is_written_reads_back_and_plays(tmp_path: Path, of: object) -> None:
    assert callable(of)
    trace: Trace = of(tmp_path)
    begins = trace.window[0]
    found = made(trace, window=(begins, begins + 4000))
    path = tmp_path / "out.yaml"
    assert write(found, path) == tmp_path / "out.csv"
    scenario = read_scenario(path)
    assert scenario.workload == str((tmp_path / "out.csv").resolve())
    assert scenario.model_copy(update={"workload": None}) == found.scenario
    assert list(read_workload(tmp_path / "out.csv")) == list(found.arrivals())
    # The scheduler of 1.37 obeys the reference scaler's taint rules, which keep a claim for two from ever having both.
    cluster = scenario.cluster.model_copy(update={"version": "1.36"})
    with Lab.virtual(scenario.model_copy(update={"cluster": cluster})) as lab:
        tally = Tally()
        tally.follow(lab.client("looking"))
        lab.run(2000)
        came = sum(at <= 2000 for at, _ in found.rows)
        assert (tally.pods, tally.bound) == (came, came)


@pytest.mark.parametrize(
    ("file", "name"), [("a.yaml", "a"), ("My Trace.v2.yaml", "my-trace-v2"), ("---.yaml", "trace"), ("A_b.yml", "a_b")]
)
def test_a_scenario_has_the_name_of_its_file_as_far_as_it_can(file: str, name: str) -> None:
    assert name_of(Path(file)) == name
