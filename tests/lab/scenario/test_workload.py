"""Pods that come from a CSV file beside a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_lab.lab import Lab
from dds_lab.scenario import read_scenario
from dds_lab.scenario.scenario import Run
from dds_lab.scenario.workload import Arrival, WorkloadError, read_workload, write_workload
from dds_lab.tally import Tally

SCENARIO = """
duration: 3m
workload: pods.csv
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 4}}]
  nodes: [{count: 2, fabric: 1}]
"""


def scenario_with(folder: Path, pods: str) -> Path:
    (folder / "pods.csv").write_text(pods)
    path = folder / "traced.yaml"
    path.write_text(SCENARIO)
    return path


def test_its_pods_come_at_their_time_run_and_go(tmp_path: Path) -> None:
    path = scenario_with(
        tmp_path,
        "at,name,devices,delete_after,withdraw_after\n1,one,nvidia-a100-40=1,20,\n30s,two,nvidia-a100-40=2,,\n40,three,,,5\n",
    )
    with Lab.virtual(read_scenario(path)) as lab:
        client, tally = lab.client("looking"), Tally()
        tally.follow(client)
        lab.run(29)
        assert {pod["metadata"]["name"] for pod in client.list("pods")} == {"one"}
        lab.run(12)
        assert {pod["metadata"]["name"] for pod in client.list("pods")} >= {"two", "three"}
        lab.run(until=None)
        assert {pod["metadata"]["name"] for pod in client.list("pods")} == {"two"}
        assert (tally.pods, tally.claims) == (3, 2)


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    pods = [
        Arrival(at=0.0, run=Run(name="a", devices={"nvidia-a100-40": 2}, lasts=3.25, cpu="500m", template=True)),
        Arrival(
            at=1.000001,
            run=Run(
                name="b",
                namespace="team",
                devices={"nic": 1},
                shares={"nic": {"example.com/bandwidth": "4Gi"}},
                node_selector={"zone": "a", "disk": "fast"},
                priority=-5,
                grace=3,
            ),
            withdraw_after=0.5,
        ),
    ]
    path = tmp_path / "pods.csv"
    assert write_workload(path, pods) == 2
    assert list(read_workload(path)) == pods


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ("name,devices\n", "pods.csv:1: column at is missing"),
        ("at,name,device\n", "pods.csv:1: no column 'device' is known here: did you mean devices?"),
        ("at,name,at\n", "column at is there twice"),
        ("at,name\n5,a\n4,b\n", "pods.csv:3: at: a row before it comes later (5s)"),
        ("at,name\n-1,a\n", "pods.csv:2: at: is no duration"),
        ("at,name\n1\n", "pods.csv:2: has 1 cells, the header 2"),
        ("at,name,devices\n1,a,nvidia-a100-40=x\n", "pods.csv:2: devices: 'nvidia-a100-40=x' cannot be read"),
        ("at,name,devices\n1,a,nvidia-a100-40\n", "has no ="),
        (
            "at,name,devices\n1,a,nvidia-a100-40=0\n",
            "devices.nvidia-a100-40: input should be greater than or equal to 1",
        ),
        ("at,name,devices\n1,a,nvidia-a100=1\n", "no class 'nvidia-a100' is known here: did you mean nvidia-a100-40?"),
        ("at,name,template\n1,a,yes\n", "template: 'yes' cannot be read"),
        ("at,name\n1,A_B\n", "pods.csv:2: name: string should match pattern"),
        ('at,name\n1,"a\n', "is no CSV file"),
    ],
)
def test_a_fault_is_told_with_its_line_before_anything_begins(tmp_path: Path, pods: str, words: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        read_scenario(scenario_with(tmp_path, pods))
    assert words in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = scenario_with(tmp_path, "at,name\n")
    (tmp_path / "pods.csv").unlink()
    with pytest.raises(WorkloadError, match="cannot be read: No such file"):
        read_scenario(path)
