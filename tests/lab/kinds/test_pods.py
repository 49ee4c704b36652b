"""Pods: what a server fills in, what they may hold, what may change after they were made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import (
    NODE_SELECTOR,
    REMOVED,
    Object,
    changed,
    created,
    pod,
    refused_create,
    refused_update,
    strategy,
    updated,
)

C0 = "spec.containers.0"
AT = "spec.containers[0]"


def plain() -> Object:
    """A pod that says nothing but its container."""
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def stored() -> Object:
    return created(strategy("pods"), pod())


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1.2", "IfNotPresent"),
        ("r.com:5000/i", "Always"),
        ("i@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    made = created(strategy("pods"), changed(plain(), f"{C0}.image", image))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Object, quality: str) -> None:
    assert created(strategy("pods"), changed(plain(), f"{C0}.resources", resources))["status"]["qosClass"] == quality


def test_requests_follow_limits() -> None:
    made = created(strategy("pods"), changed(plain(), f"{C0}.resources", {"limits": {"example.com/gpu": "1"}}))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"example.com/gpu": "1"}


def test_own_tolerations_priority_and_probes_stay() -> None:
    own = [{"operator": "Exists"}]
    body = changed(changed(plain(), "spec.tolerations", own), "spec.priorityClassName", "system-node-critical")
    body = changed(
        changed(body, f"{C0}.livenessProbe", {"httpGet": {"port": 80}, "periodSeconds": 5}),
        f"{C0}.ports",
        [{"containerPort": 80}],
    )
    spec = created(strategy("pods"), body)["spec"]
    assert (spec["tolerations"], spec["priority"]) == (own, 2_000_001_000)
    probe = spec["containers"][0]["livenessProbe"]
    assert (probe["periodSeconds"], probe["timeoutSeconds"], probe["failureThreshold"]) == (5, 1, 3)
    assert spec["containers"][0]["ports"][0]["protocol"] == "TCP"


def test_volumes_and_variables_have_defaults() -> None:
    body = changed(plain(), "spec.volumes", [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}])
    body = changed(body, f"{C0}.env", [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])
    spec = created(strategy("pods"), body)["spec"]
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
    ]
    assert spec["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.containers", [], [("Required", "spec.containers")]),
        (f"{C0}.name", "", [("Required", f"{AT}.name")]),
        (f"{C0}.name", "Not", [("Invalid", f"{AT}.name")]),
        (f"{C0}.image", "", [("Required", f"{AT}.image")]),
        (f"{C0}.image", " i", [("Invalid", f"{AT}.image")]),
        (f"{C0}.imagePullPolicy", "Sometimes", [("NotSupported", f"{AT}.imagePullPolicy")]),
        (f"{C0}.resources.claims", [{"name": "none"}], [("NotFound", f"{AT}.resources.claims[0]")]),
        (f"{C0}.resources.claims", [{"name": ""}], [("Required", f"{AT}.resources.claims[0]")]),
        (f"{C0}.resources.claims", [{"name": "gpu"}] * 2, [("Duplicate", f"{AT}.resources.claims[1]")]),
        (f"{C0}.resources.claims", [{"name": "gpu", "request": "a"}] * 2, [("Duplicate", f"{AT}.resources.claims[1]")]),
        (
            f"{C0}.resources",
            {"limits": {"cpu": "-1"}},
            [("Invalid", f"{AT}.resources.limits[cpu]"), ("Invalid", f"{AT}.resources.requests[cpu]")],
        ),
        (
            f"{C0}.resources",
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            [("Invalid", f"{AT}.resources.requests")],
        ),
        (f"{C0}.resources", {"requests": {"gpu": "2"}}, [("Invalid", f"{AT}.resources.requests[gpu]")]),
        (f"{C0}.resources", {"requests": {"a.com/gpu": "2"}}, [("Required", f"{AT}.resources.limits")]),
        (
            f"{C0}.resources",
            {"requests": {"a.com/g": "1"}, "limits": {"a.com/g": "2"}},
            [("Invalid", f"{AT}.resources.requests")],
        ),
        (f"{C0}.env", [{"value": "x"}], [("Required", f"{AT}.env[0].name")]),
        (f"{C0}.volumeMounts", [{"name": "v", "mountPath": "/v"}], [("NotFound", f"{AT}.volumeMounts[0].name")]),
        (f"{C0}.ports", [{"containerPort": 0}], [("Invalid", f"{AT}.ports[0].containerPort")]),
        ("spec.containers.1", {"name": "c", "image": "i"}, [("Duplicate", "spec.containers[1].name")]),
        ("spec.initContainers", [{"name": "init"}], [("Required", "spec.initContainers[0].image")]),
        ("spec.resourceClaims.0.resourceClaimName", REMOVED, [("Invalid", "spec.resourceClaims[0]")]),
        ("spec.resourceClaims.0.resourceClaimTemplateName", "t", [("Invalid", "spec.resourceClaims[0]")]),
        (
            "spec.resourceClaims.0.resourceClaimName",
            "Not_A_Name",
            [("Invalid", "spec.resourceClaims[0].resourceClaimName")],
        ),
        (
            "spec.resourceClaims.1",
            {"name": "gpu", "resourceClaimName": "d"},
            [("Duplicate", "spec.resourceClaims[1].name")],
        ),
        ("spec.restartPolicy", "Sometimes", [("NotSupported", "spec.restartPolicy")]),
        ("spec.dnsPolicy", "Slow", [("NotSupported", "spec.dnsPolicy")]),
        ("spec.preemptionPolicy", "Maybe", [("NotSupported", "spec.preemptionPolicy")]),
        ("spec.terminationGracePeriodSeconds", -1, [("Invalid", "spec.terminationGracePeriodSeconds")]),
        ("spec.activeDeadlineSeconds", 0, [("Invalid", "spec.activeDeadlineSeconds")]),
        ("spec.nodeSelector", {"a": "not valid!"}, [("Invalid", "spec.nodeSelector")]),
        ("spec.nodeName", "Not_A_Node", [("Invalid", "spec.nodeName")]),
        (
            "spec.tolerations",
            [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
            [("Invalid", "spec.tolerations[0].effect")],
        ),
        ("spec.schedulingGates", [{"name": ""}], [("Required", "spec.schedulingGates[0].name")]),
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            {"nodeSelectorTerms": []},
            [
                (
                    "Required",
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
                )
            ],
        ),
        (
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            [{"weight": 101, "preference": NODE_SELECTOR["nodeSelectorTerms"][0]}],
            [("Invalid", "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight")],
        ),
    ],
)
def test_what_a_pod_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("pods"), changed(pod(), path, value)) == expected


def test_gates_and_a_node_exclude_each_other() -> None:
    body = changed(changed(pod(), "spec.schedulingGates", [{"name": "a.com/x"}]), "spec.nodeName", "n1")
    assert refused_create(strategy("pods"), body) == [("Forbidden", "spec.nodeName")]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{C0}.image", "other:1"),
        ("spec.activeDeadlineSeconds", 60),
        ("spec.tolerations.2", {"key": "k", "operator": "Exists"}),
        ("spec.tolerations.0.tolerationSeconds", 10),
        ("metadata.labels", {"a": "b"}),
    ],
)
def test_what_of_a_pod_may_change(path: str, value: Any) -> None:
    old = stored()
    new = updated(strategy("pods"), changed(old, path, value), old)
    assert new["metadata"]["generation"] == (1 if path.startswith("metadata") else 2)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.nodeName", "n1", [("Forbidden", "spec")]),
        ("spec.schedulerName", "mine", [("Forbidden", "spec")]),
        (f"{C0}.name", "other", [("Forbidden", "spec")]),
        ("spec.priority", 5, [("Forbidden", "spec")]),
        ("spec.resourceClaims", [], [("NotFound", f"{AT}.resources.claims[0]"), ("Forbidden", "spec")]),
        ("spec.tolerations", [], [("Forbidden", "spec.tolerations")]),
        ("spec.schedulingGates", [{"name": "a.com/x"}], [("Forbidden", "spec.schedulingGates")]),
    ],
)
def test_what_of_a_pod_never_changes(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    old = stored()
    assert refused_update(strategy("pods"), changed(old, path, value), old) == expected


def test_a_deadline_only_comes_nearer_and_gates_only_go() -> None:
    made = strategy("pods")
    old = created(made, changed(pod(), "spec.activeDeadlineSeconds", 60))
    assert refused_update(made, changed(old, "spec.activeDeadlineSeconds", 61), old) == [
        ("Invalid", "spec.activeDeadlineSeconds")
    ]
    assert refused_update(made, changed(old, "spec.activeDeadlineSeconds", REMOVED), old) == [
        ("Invalid", "spec.activeDeadlineSeconds")
    ]
    gated = created(made, changed(pod(), "spec.schedulingGates", [{"name": "a.com/x"}]))
    assert "schedulingGates" not in updated(made, changed(gated, "spec.schedulingGates", []), gated)["spec"]


EXTENDED = {
    "resourceClaimName": "x",
    "requestMappings": [{"containerName": "c", "resourceName": "a.com/g", "requestName": "r"}],
}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("nominatedNodeName", "Not_A_Node", [("Invalid", "status.nominatedNodeName")]),
        ("phase", "Tired", [("NotSupported", "status.phase")]),
        ("conditions", [{"type": "", "status": "True"}], [("Invalid", "status.conditions[0].type")] * 2),
        ("resourceClaimStatuses", [{"name": "none"}], [("Invalid", "status.resourceClaimStatuses[0].name")]),
        ("resourceClaimStatuses", [{"name": "gpu"}] * 2, [("Duplicate", "status.resourceClaimStatuses[1].name")]),
        (
            "extendedResourceClaimStatus",
            {**EXTENDED, "resourceClaimName": ""},
            [("Required", "status.extendedResourceClaimStatus.resourceClaimName")],
        ),
        (
            "extendedResourceClaimStatus",
            {"resourceClaimName": "x"},
            [("Invalid", "status.extendedResourceClaimStatus.requestMappings")],
        ),
        (
            "extendedResourceClaimStatus",
            changed(EXTENDED, "requestMappings.0.containerName", "z"),
            [("Invalid", "status.extendedResourceClaimStatus.requestMappings[0].containerName")],
        ),
    ],
)
def test_what_a_pods_status_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    old = stored()
    assert refused_update(strategy("pods"), changed(old, f"status.{path}", value), old, "status") == expected


def test_what_a_pods_status_may_hold() -> None:
    old = stored()
    status = {
        **old["status"],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}],
        "extendedResourceClaimStatus": EXTENDED,
    }
    assert updated(strategy("pods"), {**old, "status": status}, old, "status")["status"] == status


def test_field_selectors() -> None:
    found = strategy("pods").selectable(changed(stored(), "spec.nodeName", "n1"))
    assert (found["spec.nodeName"], found["status.phase"], found["spec.hostNetwork"]) == ("n1", "Pending", "false")
    assert set(found) == set(strategy("pods").selectable_names)
