"""What is read of the three forms, and what is said of a file that is not of its form."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_core.errors import InputError
from dds_whatif.traces.demand import Held, Host
from dds_whatif.traces.formats import read_trace
from dds_whatif.traces.reading import TraceError
from tests.lab.whatif.traces.samples import DLRM, NODES, PHILLY, PODS, replaced, sample


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_an_instance_without_times_is_there_from_the_beginning_to_the_end(tmp_path: Path, name: str) -> None:
    found = read_trace("alibaba-gpu-v2025", [sample(tmp_path, name, DLRM)])
    assert found.window == (0.0, 9000.0)
    assert found.rows == 6
    assert dict(found.left_out) == {"role CN: the CPU side, without a GPU": 1}
    assert found.held[0] == Held("i-0", "a-0", None, 0.0, None, 1, "GPU", 1000, 4000, 16384)
    assert [(one.created, one.start, one.end) for one in found.held[1:]] == [
        (None, 0.0, 1800.0),
        (600.0, 660.0, 4260.0),
        (3600.0, 3600.0, 3600.0),
        (7000.0, 7200.0, None),
    ]


def test_a_pod_gets_the_first_model_that_there_is_or_the_most_frequent(tmp_path: Path) -> None:
    paths = [sample(tmp_path, "pods.csv", PODS), sample(tmp_path, "nodes.csv", NODES)]
    found = read_trace("openb-v2023", paths)
    assert found.window == (1000.0, 11000.0)
    assert [(one.name, one.model, one.devices) for one in found.held] == [
        ("pod-0", "M1", 1),
        ("pod-2", "M2", 1),
        ("pod-3", "M1", 2),
        ("pod-4", "M1", 1),
        ("pod-5", "M1", 1),
        ("pod-6", "M1", 1),
    ]
    assert [one.name for one in found.held if one.start is None] == ["pod-4"]
    assert found.held[1].thousandths == 300
    assert found.hosts == (Host(32000, 65536), Host(16000, 65536))


def test_a_job_holds_its_devices_from_its_submission_on(tmp_path: Path) -> None:
    found = read_trace("philly", [sample(tmp_path, "philly.csv", PHILLY)])
    zero = 1507507200.0
    assert found.window == (zero, zero + 18000)
    assert (found.rows, found.calendar, found.waits) == (3, True, False)
    assert found.held[0] == Held("job-00001", "vc-0aa001", zero + 10800, zero + 10800, zero + 18000, 12, "GPU", 12000)


DLRM_ROW = "i_3,HN,a_1,8,8,1,1,25,25,32.5,32.5,80.0,80.0,-1,600,660,4260"
BAD_DLRM = [
    ("instance_sn,role", "instance,role", ":1: column instance_sn missing: this is not the table of instances"),
    (",600,660,4260", ",600,-660,4260", ":5: scheduled_time: -660 is negative"),
    (",600,660,4260", ",600,660,650", ":5: deletion_time 650 is before scheduled_time 660"),
    (",600,660,4260", ",700,660,4260", ":5: scheduled_time 660 is before creation_time 700"),
    (",600,660,4260", ",600,,4260", ":5: has one of creation_time and scheduled_time"),
    (",600,660,4260", ",600,soon,4260", ":5: scheduled_time: 'soon' is no number"),
    (",600,660,4260", ",600,nan,4260", ":5: scheduled_time: 'nan' is no number"),
    (",600,660,4260", ",600,660", ":5: has 16 cells, the header 17"),
    ("i_3,HN,a_1,8,8,1,", "i_3,XN,a_1,8,8,1,", ":5: role: 'XN' is neither CN nor HN"),
    ("i_3,HN,a_1,8,8,1,", "i_3,HN,a_1,8,8,0,", ":5: gpu_request: 0, but its role is HN"),
    ("i_3,HN,a_1,8,8,1,", "i_3,HN,a_1,8,8,1.5,", ":5: gpu_request: 1.5 is no whole number"),
    ("i_3,HN,a_1,8,8,1,", "i_3,HN,a_1,,8,1,", ":5: cpu_request: is empty"),
    ("i_3,HN", "i_2,HN", ":5: instance_sn: a row before it is called i_2 too"),
    ("i_3,HN", "???,HN", ":5: instance_sn: '???' makes no name of an object"),
    ("i_3,HN", '"i_3,HN', "is no CSV file"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_DLRM)
def test_a_row_of_dlrm_that_is_not_of_its_form_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = sample(tmp_path, "trace.csv", replaced(DLRM, old, new))
    with pytest.raises(TraceError) as refused:
        read_trace("alibaba-gpu-v2025", [path])
    assert words in str(refused.value)
    assert str(path) in str(refused.value) and "; " in str(refused.value)


BAD_PODS = [
    ("3000,5000,3000", "3000,,3000", ":7: deletion_time: is empty, which it is nowhere in this trace"),
    ("3000,5000,3000", ",5000,3000", ":7: creation_time: is empty"),
    ("3000,5000,3000", "3000,-1,3000", ":7: deletion_time: -1 is negative"),
    ("M1|M1", "M7|M8", ":5: gpu_spec: no model 'M7' is known here; known: M1, M2"),
    ("9000,0,2,1000,M1|M1", "9000,0,5,1000,M1|M1", ":5: num_gpu: asks for 5 devices, there are 4 M1"),
    ("1,300,M2", "2,300,M2", ":4: gpu_milli: 300 for 2 devices"),
    ("1,300,M2", "1,3000,M2", ":4: gpu_milli: 3000 for 1 devices"),
    ("pod-5", "pod-3", ":7: name: a row before it is called pod-3 too"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_PODS)
def test_a_pod_of_openb_that_is_not_of_its_form_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    paths = [sample(tmp_path, "pods.csv", replaced(PODS, old, new)), sample(tmp_path, "nodes.csv", NODES)]
    with pytest.raises(TraceError) as refused:
        read_trace("openb-v2023", paths)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (PODS, "nodes.csv:1: columns sn, gpu, model missing: this is not openb's list of nodes"),
        ("", "nodes.csv:1: columns sn, cpu_milli, memory_mib, gpu, model missing"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n", "nodes.csv: no node has a device"),
        (NODES.replace("4,M1", "4,"), "nodes.csv:3: has 4 devices and no model"),
    ],
)
def test_a_list_of_nodes_that_is_none_is_told(tmp_path: Path, nodes: str, words: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_trace("openb-v2023", [sample(tmp_path, "pods.csv", PODS), sample(tmp_path, "nodes.csv", nodes)])
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2017-10-09 00:00:10", "yesterday", ":3: timestamp: 'yesterday' is no time; write it as"),
        ("2017-10-09 00:00:10", "", ":3: timestamp: is empty"),
        ("2017-10-09 00:00:10", "1917-10-09 00:00:10", ":3: timestamp: 1917-10-09 00:00:10 is before 1970"),
        ("100.0,1,100.0", ",1,100.0", ":3: duration: is empty"),
        ("100.0,1,100.0", "-5,1,100.0", ":3: duration: -5 is negative"),
        ("100.0,1,100.0", "100.0,0,100.0", ":3: num_gpus: 0, a job has at least one"),
        ("100.0,1,100.0", "100.0,1e12,100.0", ":3: num_gpus: 1e12 is no whole number up to"),
    ],
)
def test_a_job_of_philly_that_is_not_of_its_form_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_trace("philly", [sample(tmp_path, "philly.csv", replaced(PHILLY, old, new))])
    assert words in str(refused.value)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory; check the path"):
        read_trace("philly", [tmp_path / "away.csv"])
    with pytest.raises(InputError, match=r"openb-v2023 is a file of the pods and a file of the nodes, 1 given"):
        read_trace("openb-v2023", [tmp_path / "pods.csv"])
    with pytest.raises(TraceError, match=r"nothing.csv: no row holds a device"):
        read_trace("philly", [sample(tmp_path, "nothing.csv", PHILLY.partition("\n")[0] + "\n")])
    torn = sample(tmp_path, "torn.csv.gz", PHILLY)
    torn.write_bytes(torn.read_bytes()[:-12])
    with pytest.raises(Exception, match="ends early"):
        read_trace("philly", [torn])
    (tmp_path / "latin.csv").write_bytes(PHILLY.replace("77", "caf\u00e9").encode("latin-1"))
    with pytest.raises(TraceError, match="is no CSV file"):
        read_trace("philly", [tmp_path / "latin.csv"])
