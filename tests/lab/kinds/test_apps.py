"""Deployments, ReplicaSets, StatefulSets: defaults, what is refused and in which words, generation, and who may change what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import (
    REMOVED,
    Object,
    changed,
    created,
    metadata,
    refused_create,
    refused_update,
    strategy,
    updated,
)

CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
KINDS = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}
POD = "spec.template.spec"


def workload(plural: str, **spec: Any) -> Object:
    """With the fields alone that have to be there, and a claim for its pods."""
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "resourceClaims": [dict(CLAIM)]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": KINDS[plural],
        "metadata": metadata("web"),
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def test_a_deployment_is_completed() -> None:
    made = created(strategy("deployments"), workload("deployments"))
    spec = made["spec"]
    assert {key: spec[key] for key in spec if key not in ("template", "selector")} == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }
    pods = spec["template"]["spec"]
    assert (pods["restartPolicy"], pods["containers"][0]["imagePullPolicy"]) == ("Always", "Always")
    assert "priority" not in pods, "admission completes pods, not templates"
    assert (made["metadata"]["generation"], made["status"]) == (1, {})


def test_a_replica_set_and_a_stateful_set_are_completed() -> None:
    assert created(strategy("replicasets"), workload("replicasets"))["spec"]["replicas"] == 1
    spec = created(strategy("statefulsets"), workload("statefulsets"))["spec"]
    assert {key: spec[key] for key in spec if key not in ("template", "selector")} == {
        "replicas": 1,
        "serviceName": "",
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }


@pytest.mark.parametrize("plural", KINDS)
@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        ("spec.selector", REMOVED, [("Required", "spec.selector")]),
        ("spec.selector", {}, [("Invalid", "spec.selector")]),
        ("spec.selector.matchLabels", {"app": "other"}, [("Invalid", "spec.template.metadata.labels")]),
        (
            "spec.selector.matchExpressions",
            [{"key": "app", "operator": "Near"}],
            [("Invalid", "spec.selector.matchExpressions[0].operator")],
        ),
        ("spec.replicas", -1, [("Invalid", "spec.replicas")]),
        ("spec.minReadySeconds", -1, [("Invalid", "spec.minReadySeconds")]),
        ("spec.template.metadata.labels.bad", "not a label", [("Invalid", "spec.template.labels")]),
        (f"{POD}.restartPolicy", "Never", [("NotSupported", f"{POD}.restartPolicy")]),
        (f"{POD}.activeDeadlineSeconds", 5, [("Forbidden", f"{POD}.activeDeadlineSeconds")]),
    ],
)
def test_what_all_refuse(plural: str, path: str, value: Any, refused: list[tuple[str, str]]) -> None:
    assert refused_create(strategy(plural), changed(workload(plural), path, value)) == refused


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        (f"{POD}.containers", [], [("Required", f"{POD}.containers")]),
        (f"{POD}.resourceClaims", [], [("NotFound", f"{POD}.containers[0].resources.claims[0]")]),
        ("spec.strategy", {"type": "Sudden"}, [("NotSupported", "spec.strategy")]),
        (
            "spec.strategy",
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            [("Forbidden", "spec.strategy.rollingUpdate")],
        ),
        (
            "spec.strategy",
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            [("Invalid", "spec.strategy.rollingUpdate.maxUnavailable")],
        ),
        (
            "spec.strategy",
            {"rollingUpdate": {"maxSurge": "half", "maxUnavailable": "101%"}},
            [
                ("Invalid", "spec.strategy.rollingUpdate.maxSurge"),
                ("Invalid", "spec.strategy.rollingUpdate.maxUnavailable"),
            ],
        ),
        ("spec.progressDeadlineSeconds", 0, [("Invalid", "spec.progressDeadlineSeconds")]),
    ],
)
def test_what_a_deployment_refuses(path: str, value: Any, refused: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("deployments"), changed(workload("deployments"), path, value)) == refused


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        ("spec.podManagementPolicy", "Random", [("Invalid", "spec.podManagementPolicy")]),
        ("spec.updateStrategy", {"type": "Sudden"}, [("Invalid", "spec.updateStrategy")]),
        (
            "spec.updateStrategy",
            {"rollingUpdate": {"partition": -1}},
            [("Invalid", "spec.updateStrategy.rollingUpdate.partition")],
        ),
        (
            "spec.updateStrategy",
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            [("Invalid", "spec.updateStrategy.rollingUpdate")],
        ),
        ("spec.ordinals", {"start": -1}, [("Invalid", "spec.ordinals.start")]),
    ],
)
def test_what_a_stateful_set_refuses(path: str, value: Any, refused: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("statefulsets"), changed(workload("statefulsets"), path, value)) == refused


@pytest.mark.parametrize("plural", ["deployments", "replicasets"])
def test_the_selector_stays(plural: str) -> None:
    made = strategy(plural)
    old = created(made, workload(plural))
    new = changed(changed(old, "spec.selector.matchLabels.tier", "a"), "spec.template.metadata.labels.tier", "a")
    assert refused_update(made, new, old) == [("Invalid", "spec.selector")]


def test_most_of_a_stateful_set_stays() -> None:
    made = strategy("statefulsets")
    old = created(made, workload("statefulsets"))
    assert refused_update(made, changed(old, "spec.serviceName", "other"), old) == [("Forbidden", "spec")]
    assert updated(made, changed(old, "spec.replicas", 3), old)["spec"]["replicas"] == 3


def test_generation_counts_changes_of_the_spec_and_of_a_deployments_annotations() -> None:
    made = strategy("deployments")
    old = created(made, workload("deployments"))
    scaled = updated(made, changed(old, "spec.replicas", 2), old)
    noted = updated(made, changed(scaled, "metadata.annotations", {"why": "x"}), scaled)
    told = updated(made, changed(noted, "status", {"replicas": 2}), noted, "status")
    assert [one["metadata"]["generation"] for one in (scaled, noted, told)] == [2, 3, 3]
    assert told["status"] == {"replicas": 2}


def test_a_status_write_of_a_deployment_may_tell_its_revision_and_no_more() -> None:
    made = strategy("deployments")
    old = created(made, workload("deployments"))
    new = changed(changed(old, "metadata.annotations", {"revision": "1"}), "metadata.labels", {"a": "b"})
    stored = updated(made, changed(new, "spec.replicas", 7), old, "status")
    assert (stored["metadata"].get("annotations"), stored["metadata"].get("labels")) == ({"revision": "1"}, None)
    assert stored["spec"]["replicas"] == 1


def test_the_data_of_a_revision_stays() -> None:
    made = strategy("controllerrevisions")
    revision = {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata("r"), "revision": 1, "data": {"a": 1},
    }  # fmt: skip
    old = created(made, revision)
    assert refused_update(made, changed(old, "data.a", 2), old) == [("Invalid", "data")]
    assert updated(made, changed(old, "revision", 2), old)["revision"] == 2
    assert refused_create(made, changed(revision, "data", REMOVED)) == [("Required", "data")]
