"""The Deployment controller: rollouts of both types, limits, scaling, history, rollback, pauses, what it says."""

from __future__ import annotations

from dds_lab.actors.apps.deployments import REVISION
from dds_lab.client import Object
from tests.lab.actors.apps.cluster import Cluster, cluster

READY = {"Available": "True MinimumReplicasAvailable", "Progressing": "True NewReplicaSetAvailable"}


def annotation(there: Cluster) -> str:
    found: str = there.get("deployments")["metadata"]["annotations"][REVISION]
    return found


def test_a_deployment_has_one_replica_set_with_its_pods() -> None:
    with cluster() as there:
        there.make("deployments", replicas=2)
        there.run(2)
        (rs,) = there.all("replicasets")
        digest = rs["metadata"]["labels"]["pod-template-hash"]
        assert rs["metadata"]["name"] == f"web-{digest}"
        assert rs["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
        assert all(name.startswith(f"web-{digest}-") for name in there.names())
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
        status = {key: value for key, value in there.status("deployments").items() if key != "conditions"}
        assert status == {"observedGeneration": 1, **counts}
        assert there.conditions("deployments") == READY
        assert annotation(there) == "1"


def test_a_rolling_update_keeps_to_its_limits() -> None:
    with cluster() as there:
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        there.make("deployments", replicas=4, strategy=strategy)
        there.run(2)
        total: list[int] = []
        available: list[int] = []

        def note(old: Object | None, new: Object | None) -> None:
            if new is not None:
                total.append(new["status"]["replicas"])
                available.append(new["status"]["availableReplicas"])

        there.user.mirror("deployments").on_change(note)
        there.image("deployments", "two")
        there.run(20)
        assert there.images() == ["two"] * 4
        assert max(total) == 5 and min(available) == 3
        assert there.sizes() == {"two": 4}
        assert there.conditions("deployments") == READY
        assert annotation(there) == "2"


def test_without_room_to_spare_the_old_pods_stay_until_new_ones_are_ready() -> None:
    with cluster() as there:
        there.make("deployments", replicas=2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        there.run(2)
        for node in ("node0000", "node0001"):
            there.lab.workloads.cordon(node)
        there.image("deployments", "two")
        there.run(60)
        assert (there.images(), there.images("Pending")) == (["one", "one"], ["two"])
        there.lab.workloads.cordon("node0000", False)
        there.run(60)
        assert there.images() == ["two", "two"]


def test_recreate_ends_all_old_pods_first() -> None:
    with cluster() as there:
        there.make("deployments", replicas=2, strategy={"type": "Recreate"})
        there.run(2)
        together: list[set[str]] = []
        there.user.mirror("pods").on_change(
            lambda old, new: together.append({one["spec"]["containers"][0]["image"] for one in there.all("pods")})
        )
        there.image("deployments", "two")
        there.run(10)
        assert there.images() == ["two", "two"]
        assert {"one"} in together and {"one", "two"} not in together


def test_an_old_template_is_its_old_replica_set_with_a_new_revision() -> None:
    with cluster() as there:
        there.make("deployments")
        there.run(2)
        first = there.names("replicasets")
        there.image("deployments", "two")
        there.run(10)
        there.image("deployments", "one")
        there.run(10)
        assert (there.images(), there.sizes(), len(there.names("replicasets"))) == (["one"], {"one": 1}, 2)
        assert there.get("replicasets", first[0])["metadata"]["annotations"][REVISION] == "3" == annotation(there)


def test_the_history_is_limited() -> None:
    with cluster() as there:
        there.make("deployments", revisionHistoryLimit=1)
        for image in ("two", "three", "four"):
            there.run(10)
            there.image("deployments", image)
        there.run(10)
        assert len(there.names("replicasets")) == 2
        assert there.images() == ["four"]


def test_scaling_in_the_middle_of_a_rollout_is_shared() -> None:
    with cluster() as there:
        there.make("deployments", replicas=4, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}})
        there.run(2)
        for node in ("node0000", "node0001"):
            there.lab.workloads.cordon(node)
        there.image("deployments", "two")
        there.run(10)
        assert there.sizes() == {"one": 4, "two": 2}
        there.change("deployments", replicas=10)
        there.run(10)
        assert there.sizes() == {"one": 8, "two": 4}, "twelve may be there, shared as before"


def test_a_paused_deployment_is_scaled_and_not_rolled_out() -> None:
    with cluster() as there:
        there.make("deployments")
        there.run(2)
        there.change("deployments", paused=True, replicas=2)
        there.image("deployments", "two")
        there.run(10)
        assert there.images() == ["one", "one"]
        assert there.conditions("deployments")["Progressing"] == "Unknown DeploymentPaused"
        there.change("deployments", paused=None)
        there.run(20)
        assert there.images() == ["two", "two"]
        assert there.conditions("deployments") == READY


def test_a_rollout_that_makes_no_progress_is_told() -> None:
    with cluster() as there:
        for node in ("node0000", "node0001"):
            there.lab.workloads.cordon(node)
        there.make("deployments", progressDeadlineSeconds=30)
        there.run(25)
        assert there.conditions("deployments")["Progressing"].startswith("True ")
        there.run(10)
        told = {"Available": "False MinimumReplicasUnavailable", "Progressing": "False ProgressDeadlineExceeded"}
        assert there.conditions("deployments") == told
        there.lab.workloads.cordon("node0000", False)
        there.run(60)
        assert there.conditions("deployments") == READY


def test_all_goes_with_it_in_every_way() -> None:
    for policy in ("Background", "Foreground"):
        with cluster() as there:
            there.make("deployments", replicas=2)
            there.run(2)
            there.user.delete("deployments", "web", "default", propagation=policy)
            there.run(0.2)
            assert bool(there.names("deployments")) == (policy == "Foreground")
            there.run(10)
            assert there.names("deployments") == there.names("replicasets") == there.names() == []


def test_a_restart_in_the_middle_loses_nothing() -> None:
    with cluster() as there:
        there.make("deployments", replicas=3)
        there.run(2)
        there.image("deployments", "two")
        for _ in range(6):
            there.run(0.1)
            there.lab.restart("controllers", 0.5)
        there.run(20)
        assert there.images() == ["two"] * 3
        assert len(there.names()) == 3
