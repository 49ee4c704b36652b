"""The Job controller: completions, failures and their back-off, deadlines, suspension, indexes, finalizers, time to live."""

from __future__ import annotations

import pytest

from dds_lab.actors.apps.jobs import FINALIZER
from tests.lab.actors.apps.cluster import Cluster, cluster

COMPLETE = {"SuccessCriteriaMet": "True CompletionsReached", "Complete": "True CompletionsReached"}


def failed(reason: str) -> dict[str, str]:
    return {"FailureTarget": f"True {reason}", "Failed": f"True {reason}"}


def numbers(there: Cluster) -> tuple[int, int, int]:
    """Active, succeeded, failed."""
    status = there.status("jobs", "train")
    return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


def held(there: Cluster) -> int:
    return sum(FINALIZER in (one["metadata"].get("finalizers") or ()) for one in there.all("pods"))


def test_a_job_runs_ten_seconds_by_default_and_completes() -> None:
    with cluster() as there:
        there.job()
        there.run(1)
        assert (numbers(there), held(there)) == ((1, 0, 0), 1)
        there.run(10)
        assert (numbers(there), held(there)) == ((0, 1, 0), 0)
        assert there.conditions("jobs", "train") == COMPLETE
        status = there.status("jobs", "train")
        assert status["completionTime"] > status["startTime"]
        assert there.events("Completed") == ["Job completed"]
        assert there.images("Succeeded") == ["one"]


def test_pods_run_side_by_side_until_there_are_enough() -> None:
    with cluster() as there:
        there.job(lasts=5, completions=5, parallelism=2)
        most = 0
        for _ in range(200):
            there.run(0.1)
            active, succeeded, _ = numbers(there)
            most = max(most, active)
            assert active + succeeded <= 5
        assert (numbers(there), most) == ((0, 5, 0), 2)
        assert len(there.names()) == 5


def test_a_queue_ends_with_its_first_success() -> None:
    with cluster() as there:
        there.job(lasts=5, parallelism=3)
        there.run(10)
        assert numbers(there) == (0, 3, 0)
        assert there.conditions("jobs", "train") == COMPLETE
        assert len(there.names()) == 3


def test_failed_pods_are_replaced_ever_later_and_at_last_not_at_all() -> None:
    with cluster() as there:
        there.job(lasts=1, code=3, backoffLimit=2)
        seen: dict[int, float] = {}
        for tenth in range(600):
            there.run(0.1)
            seen.setdefault(len(there.names()), tenth / 10)
        assert seen[2] == pytest.approx(11, abs=1) and seen[3] == pytest.approx(32, abs=1)
        assert numbers(there) == (0, 0, 3)
        assert there.conditions("jobs", "train") == failed("BackoffLimitExceeded")
        state = there.all("pods")[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (3, "Error")


def test_a_job_that_takes_too_long_fails_and_its_pods_end() -> None:
    with cluster() as there:
        there.job(lasts=1000, parallelism=2, activeDeadlineSeconds=20)
        there.run(15)
        assert numbers(there) == (2, 0, 0)
        there.run(15)
        assert numbers(there) == (0, 0, 2)
        assert there.conditions("jobs", "train") == failed("DeadlineExceeded")
        assert held(there) == 0


def test_a_suspended_job_has_no_pods_and_no_clock() -> None:
    with cluster() as there:
        there.job(lasts=20, suspend=True, activeDeadlineSeconds=30)
        there.run(60)
        assert (there.names(), there.conditions("jobs", "train")) == ([], {"Suspended": "True JobSuspended"})
        assert "startTime" not in there.status("jobs", "train")
        there.change("jobs", "train", suspend=False)
        there.run(5)
        assert numbers(there) == (1, 0, 0)
        there.change("jobs", "train", suspend=True)
        there.run(10)
        assert (numbers(there), there.names()) == ((0, 0, 0), []), "who is suspended has not failed"
        there.change("jobs", "train", suspend=False)
        there.run(25)
        assert there.conditions("jobs", "train") == {"Suspended": "False JobResumed", **COMPLETE}


def test_each_index_is_done_once() -> None:
    with cluster() as there:
        there.job(lasts=3, completionMode="Indexed", completions=4, parallelism=2)
        there.run(1)
        pod = there.all("pods")[1]
        assert pod["metadata"]["name"].startswith("train-1-")
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
        assert pod["spec"]["hostname"] == "train-1"
        assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
        there.run(0.5)
        there.user.delete("pods", there.names()[0], "default")
        there.run(3)
        assert there.status("jobs", "train")["completedIndexes"] == "1"
        there.run(20)
        assert there.status("jobs", "train")["completedIndexes"] == "0-3"
        assert numbers(there) == (0, 4, 1)


def test_a_deleted_pod_counts_as_failed_and_is_replaced() -> None:
    with cluster() as there:
        there.job(lasts=30)
        there.run(2)
        there.user.delete("pods", there.names()[0], "default")
        there.run(45)
        assert numbers(there) == (0, 1, 1)


def test_a_pod_whose_node_is_lost_is_replaced() -> None:
    with cluster() as there:
        there.job(lasts=30, parallelism=2)
        there.run(2)
        there.lab.lose_node("node0000")
        there.run(120)
        status = there.status("jobs", "train")
        assert there.conditions("jobs", "train") == COMPLETE
        assert status["failed"] > 0 and all(one["status"]["phase"] == "Succeeded" for one in there.all("pods"))


def test_a_failed_only_policy_waits_for_the_pods_end() -> None:
    with cluster() as there:
        there.job(lasts=30, podReplacementPolicy="Failed")
        there.run(2)
        there.user.delete("pods", there.names()[0], "default")
        there.run(0.3)
        assert (len(there.names()), there.status("jobs", "train")["terminating"]) == (1, 1)
        there.run(60)
        assert numbers(there) == (0, 1, 1)


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    with cluster() as there:
        there.job(lasts=1, ttlSecondsAfterFinished=20)
        there.run(15)
        assert there.names("jobs") == ["train"]
        there.run(15)
        assert there.names("jobs") == there.names() == []


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
@pytest.mark.parametrize("after", [0.02, 2, 20])
def test_all_goes_with_it_whenever_it_is_deleted(policy: str, after: float) -> None:
    with cluster() as there:
        there.job(parallelism=2)
        there.run(after)
        there.user.delete("jobs", "train", "default", propagation=policy)
        there.run(40)
        assert there.names("jobs") == there.names() == []


def test_a_job_of_the_same_name_does_not_keep_the_pods_of_the_one_before() -> None:
    with cluster() as there:
        there.job()
        there.run(2)
        there.user.delete("jobs", "train", "default")
        there.job(lasts=3)
        there.run(40)
        assert (numbers(there), len(there.names()), held(there)) == ((0, 1, 0), 1, 0)


def test_another_manager_is_left_alone_and_what_is_not_obeyed_is_told() -> None:
    with cluster() as there:
        there.job("theirs", managedBy="example.com/queue")
        there.job(successPolicy={"rules": [{"succeededCount": 1}]}, completionMode="Indexed", completions=2)
        there.run(5)
        assert there.status("jobs", "theirs") == {}
        assert there.events("NotObeyed") == ["the lab does not obey spec.successPolicy"]


def test_no_end_is_lost_or_counted_twice_by_restarts() -> None:
    with cluster() as there:
        there.job(lasts=1, completions=20, parallelism=4)
        for _ in range(40):
            there.run(0.13)
            there.lab.restart("controllers", 0.2)
            there.run(0.21)
        there.run(30)
        assert (numbers(there), len(there.names()), held(there)) == ((0, 20, 0), 20, 0)
        assert there.conditions("jobs", "train") == COMPLETE
