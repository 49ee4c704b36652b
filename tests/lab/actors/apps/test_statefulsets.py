"""The StatefulSet controller: names and order of pods, rolling updates and their partition, revisions."""

from __future__ import annotations

from dds_lab.client import Object
from tests.lab.actors.apps.cluster import Cluster, cluster


def phases(there: Cluster) -> list[tuple[str, str]]:
    """From now on: each pod that comes or goes."""
    told: list[tuple[str, str]] = []

    def note(old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            told.append((((new or old) or {})["metadata"]["name"], "gone" if new is None else "made"))

    there.user.mirror("pods").on_change(note)
    return told


def images(there: Cluster) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in there.all("pods")}


def test_pods_come_in_order_and_go_in_reverse() -> None:
    with cluster() as there:
        told = phases(there)
        there.make("statefulsets", replicas=3, serviceName="db")
        there.run(5)
        assert told == [("web-0", "made"), ("web-1", "made"), ("web-2", "made")]
        pod = there.get("pods", "web-1")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "db")
        labels = {"statefulset.kubernetes.io/pod-name": "web-1", "apps.kubernetes.io/pod-index": "1"}
        assert labels.items() <= pod["metadata"]["labels"].items()
        told.clear()
        there.change("statefulsets", replicas=1)
        there.run(10)
        assert told == [("web-2", "gone"), ("web-1", "gone")]


def test_a_pod_waits_for_the_ones_before_it_unless_they_are_parallel() -> None:
    for policy, there_are in (("OrderedReady", ["web-0"]), ("Parallel", ["web-0", "web-1"])):
        with cluster() as there:
            for node in ("node0000", "node0001"):
                there.lab.workloads.cordon(node)
            there.make("statefulsets", replicas=2, podManagementPolicy=policy)
            there.run(5)
            assert there.names() == there_are


def test_a_deleted_pod_comes_back_under_its_name_and_ordinals_may_begin_later() -> None:
    with cluster() as there:
        there.make("statefulsets", replicas=2, ordinals={"start": 5})
        there.run(3)
        before = there.get("pods", "web-5")["metadata"]["uid"]
        there.user.delete("pods", "web-5", "default")
        there.run(5)
        assert there.names() == ["web-5", "web-6"]
        assert there.get("pods", "web-5")["metadata"]["uid"] != before


def test_an_update_goes_down_to_the_partition() -> None:
    with cluster() as there:
        there.make("statefulsets", replicas=3)
        there.run(5)
        there.change("statefulsets", updateStrategy={"rollingUpdate": {"partition": 2}})
        there.image("statefulsets", "two")
        there.run(10)
        assert images(there) == {"web-0": "one", "web-1": "one", "web-2": "two"}
        status = there.status("statefulsets")
        assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
        there.user.delete("pods", "web-0", "default")
        there.run(5)
        assert images(there)["web-0"] == "one", "below the partition the old template holds"
        told = phases(there)
        there.change("statefulsets", updateStrategy={"rollingUpdate": {"partition": 0}})
        there.run(20)
        assert set(images(there).values()) == {"two"}
        assert [name for name, what in told if what == "made"] == ["web-1", "web-0"]
        status = there.status("statefulsets")
        assert status["currentRevision"] == status["updateRevision"]


def test_on_delete_waits_for_somebody_to_delete() -> None:
    with cluster() as there:
        there.make("statefulsets", replicas=2, updateStrategy={"type": "OnDelete"})
        there.run(5)
        there.image("statefulsets", "two")
        there.run(10)
        assert set(images(there).values()) == {"one"}
        there.user.delete("pods", "web-1", "default")
        there.run(5)
        assert images(there) == {"web-0": "one", "web-1": "two"}


def test_revisions_are_kept_used_again_and_forgotten() -> None:
    with cluster() as there:
        there.make("statefulsets", revisionHistoryLimit=1)
        there.run(3)
        (first,) = there.names("controllerrevisions")
        for image in ("two", "one"):
            there.image("statefulsets", image)
            there.run(10)
        assert there.status("statefulsets")["updateRevision"] == first
        assert there.get("controllerrevisions", first)["revision"] == 3
        for image in ("three", "four", "five"):
            there.image("statefulsets", image)
            there.run(10)
        assert len(there.names("controllerrevisions")) == 2


def test_volumes_of_claim_templates_are_named_and_all_goes_with_it() -> None:
    with cluster() as there:
        storage = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        there.make("statefulsets", volumeClaimTemplates=[storage])
        there.run(3)
        (volume,) = there.get("pods", "web-0")["spec"]["volumes"]
        assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
        there.user.delete("statefulsets", "web", "default", propagation="Foreground")
        there.run(10)
        assert there.names("statefulsets") == there.names("controllerrevisions") == there.names() == []
