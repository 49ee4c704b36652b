"""The ReplicaSet controller: the wanted number of pods, which go first, adoption and release, what it says."""

from __future__ import annotations

from dds_lab.actors.kubelet import RUN_FOR
from tests.lab.actors.apps.cluster import cluster


def test_there_are_as_many_pods_as_wanted() -> None:
    with cluster() as there:
        there.make("replicasets", replicas=3)
        there.run(1)
        assert there.images() == ["one"] * 3
        status = {"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3}
        assert there.status("replicasets") == {**status, "readyReplicas": 3, "availableReplicas": 3}
        there.user.delete("pods", there.names()[0], "default")
        there.run(5)
        assert there.images() == ["one"] * 3
        there.change("replicasets", replicas=1)
        there.run(5)
        assert there.status("replicasets")["replicas"] == len(there.names()) == 1


def test_pods_of_a_controller_run_for_ever() -> None:
    with cluster() as there:
        there.make("replicasets")
        there.change("replicasets", template={"metadata": {"annotations": {RUN_FOR: "5"}}})
        there.run(30)
        assert there.all("pods")[0]["metadata"]["annotations"][RUN_FOR] == "5"
        assert (there.images(), len(there.names())) == (["one"], 1)


def test_pods_are_the_controllers_and_go_with_it() -> None:
    with cluster() as there:
        owner = there.make("replicasets", replicas=2)
        there.run(1)
        (reference,) = there.all("pods")[0]["metadata"]["ownerReferences"]
        assert reference == {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        assert there.names()[0].startswith("web-")
        there.user.delete("replicasets", "web", "default")
        there.run(5)
        assert there.names() == []


def test_pods_without_a_node_and_cheap_ones_go_first() -> None:
    with cluster() as there:
        there.make("replicasets", replicas=3)
        there.run(1)
        kept, cheap, other = there.names()
        cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
        there.user.patch("pods", cheap, {"metadata": {"annotations": cost}}, "default")
        for node in ("node0000", "node0001"):
            there.lab.workloads.cordon(node)
        there.change("replicasets", replicas=4)
        there.run(5)
        assert there.images("Pending") == ["one"]
        there.change("replicasets", replicas=3)
        there.run(5)
        assert sorted(there.names()) == sorted([kept, cheap, other])
        there.change("replicasets", replicas=2)
        there.run(5)
        assert sorted(there.names()) == sorted([kept, other])


def test_a_pod_is_available_once_it_was_ready_long_enough() -> None:
    with cluster() as there:
        there.make("replicasets", minReadySeconds=20)
        there.run(10)
        assert (there.status("replicasets")["readyReplicas"], there.status("replicasets").get("availableReplicas")) == (
            1,
            None,
        )
        there.run(15)
        assert there.status("replicasets")["availableReplicas"] == 1


def test_a_pod_that_nobody_owns_is_adopted_and_one_with_another_label_released() -> None:
    with cluster() as there:
        pod = {
            "metadata": {"name": "lone", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }
        there.user.create("pods", pod, "default")
        there.make("replicasets", replicas=2)
        there.run(3)
        assert there.images() == ["one", "x"]
        there.user.patch("pods", "lone", {"metadata": {"labels": {"app": "other"}}}, "default")
        there.run(3)
        assert there.images() == ["one", "one", "x"]
        assert "ownerReferences" not in there.get("pods", "lone")["metadata"]


def test_orphans_stay_and_belong_to_the_next() -> None:
    with cluster() as there:
        there.make("replicasets", replicas=2)
        there.run(1)
        before = there.names()
        there.user.delete("replicasets", "web", "default", propagation="Orphan")
        there.run(5)
        assert (there.names(), there.names("replicasets")) == (before, [])
        there.make("replicasets", replicas=2)
        there.run(5)
        assert there.names() == before
        assert there.status("replicasets")["readyReplicas"] == 2


def test_a_refused_pod_is_told_and_tried_again() -> None:
    with cluster() as there:
        there.user.create("validatingadmissionpolicies", POLICY)
        there.user.create("validatingadmissionpolicybindings", BINDING)
        there.make("replicasets")
        there.run(2)
        assert there.conditions("replicasets") == {"ReplicaFailure": "True FailedCreate"}
        assert any("no pods here" in text for text in there.events("FailedCreate"))
        there.user.delete("validatingadmissionpolicybindings", "none")
        there.run(10)
        assert there.images() == ["one"]
        assert there.conditions("replicasets") == {}


POLICY = {
    "metadata": {"name": "none"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "false", "message": "no pods here"}],
    },
}
BINDING = {"metadata": {"name": "none"}, "spec": {"policyName": "none", "validationActions": ["Deny"]}}
