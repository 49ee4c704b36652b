"""Claims of all kinds, what of them counts, and which gates the scheduler obeys."""

from __future__ import annotations

import pytest

from dds_lab.actors.garbage import Garbage
from dds_lab.client import Object
from tests.lab.scheduler.stage import DRIVER, Stage, device_class

GPU = "example.com/gpu"


def asking(count: int = 1) -> Object:
    return {"container": {"resources": {"limits": {GPU: str(count)}}}}


def test_nothing_prefers_a_node_with_a_ready_device_over_one_that_needs_an_attach() -> None:
    landed = set()
    for seed in range(12):
        stage = Stage(nodes=2, seed=seed)
        stage.pool("a-0")
        stage.local("node0", "gpu-0")
        stage.scheduler()
        stage.train("job")
        stage.run(1)
        landed.add(stage.held("job")[0])

    assert landed == {"node0/gpu-0", "pool/a-0"}


def test_a_node_that_offers_an_earlier_choice_is_preferred() -> None:
    for seed in range(5):
        stage = Stage(nodes=3, seed=seed)
        stage.user.create("deviceclasses", device_class("big"))
        big = stage.user.get("deviceclasses", "big")
        selector = {"cel": {"expression": 'device.driver == "big.example.com"'}}
        stage.user.update("deviceclasses", {**big, "spec": {"selectors": [selector]}})
        for node in ("node0", "node1", "node2"):
            stage.local(node, "gpu-0")
        spec = {
            "driver": "big.example.com",
            "nodeName": "node2",
            "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
        }
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "big"}}
        stage.user.create("resourceslices", {**kind, "spec": {**spec, "devices": [{"name": "b-0"}]}})
        choices = [{"name": "first", "deviceClassName": "big"}, {"name": "second", "deviceClassName": "gpus"}]
        body = {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": choices}]}}}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "job"}}
        stage.user.create("resourceclaims", {**claim, **body}, "default")
        stage.scheduler()
        stage.job("job", "job")
        stage.run(1)

        assert stage.held("job") == ["b/b-0"]


def test_a_pod_whose_claim_is_not_there_is_not_tried_until_it_is() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    stage.job("job", "late")
    stage.run(400)
    assert stage.condition("job") == ("", "") and stage.events("job") == []

    stage.claim("late")
    stage.run(1)

    assert stage.node_of("job") == "node0"


def test_a_pod_with_a_template_waits_for_its_generated_claim() -> None:
    stage = Stage(nodes=1, claims=True)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    stage.user.create("resourceclaimtemplates", template, "default")
    stage.job("job", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "one"}])
    stage.run(2)

    assert stage.node_of("job") == "node0"
    (claim,) = stage.user.list("resourceclaims", "default")
    assert claim["metadata"]["name"].startswith("job-d-") and stage.reserved(claim["metadata"]["name"]) == ["job"]


def test_pods_share_a_claim_on_the_node_where_it_is() -> None:
    stage = Stage(nodes=3)
    stage.pool("p-0")
    stage.scheduler()
    stage.claim("shared")
    for name in ("one", "two", "three"):
        stage.job(name, "shared")
        stage.run(1)

    assert stage.reserved("shared") == ["one", "two", "three"]
    assert len({stage.nominated(name) for name in ("one", "two", "three")}) == 1
    stage.say("shared", "Ready")
    stage.run(5)
    assert len({stage.node_of(name) for name in ("one", "two", "three")}) == 1 and stage.node_of("one")


def test_a_missing_class_is_told_and_waited_for() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    stage.claim("job", device_class="later")
    stage.job("job", "job")
    stage.run(2)
    assert stage.condition("job")[1].startswith(
        "0/1 nodes are available: request r0: device class later does not exist. still not schedulable, preemption: "
    )

    stage.user.create("deviceclasses", device_class("later"))
    stage.run(1)

    assert stage.node_of("job") == "node0"


def test_a_selector_that_fails_is_an_error_and_not_a_refusal() -> None:
    stage = Stage(nodes=1)
    stage.user.create("deviceclasses", {**device_class("bad"), "spec": {"selectors": [
        {"cel": {"expression": f'device.attributes["{DRIVER}"].missing == "x"'}}]}})  # fmt: skip
    stage.local("node0", "gpu-0")
    stage.scheduler()
    stage.claim("job", device_class="bad")
    stage.job("job", "job")
    stage.run(1)

    reason, message = stage.condition("job")
    assert reason == "SchedulerError" and "missing" in message


def test_freed_devices_wake_whoever_waits_for_some() -> None:
    stage = Stage(nodes=1, claims=True)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    stage.train("first")
    stage.run(1)
    stage.train("second")
    stage.run(20)
    assert stage.condition("second")[1].startswith("0/1 nodes are available: 1 cannot allocate all claims. ")

    stage.user.delete("pods", "first", "default", grace=0)
    stage.run(0.2)

    assert stage.node_of("second") == "node0"


def test_a_new_slice_a_label_and_an_uncordoned_node_wake_too() -> None:
    stage = Stage(nodes=0)
    stage.bare_node("node0", spec={"unschedulable": True})
    stage.scheduler()
    stage.train("job", nodeSelector={"disk": "fast"})
    stage.run(20)
    stage.change_node("node0", unschedulable=False)
    stage.run(20)
    assert stage.condition("job")[1].startswith(
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    )
    stage.user.patch("nodes", "node0", {"metadata": {"labels": {"disk": "fast"}}})
    stage.run(20)
    assert stage.condition("job")[1].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    stage.local("node0", "gpu-0")
    stage.run(0.2)

    assert stage.node_of("job") == "node0"


def test_shares_of_a_device_are_counted_and_named() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0", shared=True)
    stage.scheduler()
    for name in ("one", "two"):
        exactly = {"deviceClassName": "gpus", "capacity": {"requests": {"memory": "4Gi"}}}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        stage.user.create("resourceclaims", {**kind, "metadata": {"name": name}, "spec": spec}, "default")
        stage.job(name, name)
        stage.run(1)
    results = [
        stage.state("resourceclaims", name, "default")["allocation"]["devices"]["results"][0] for name in ("one", "two")
    ]

    assert [one["consumedCapacity"] for one in results] == [{"memory": "4Gi"}] * 2
    assert results[0]["shareID"] != results[1]["shareID"]
    stage.say("one", "Ready")
    stage.say("two", "Ready")
    stage.run(5)
    assert stage.node_of("one") == stage.node_of("two") == "node0"


# -- extended resources --------------------------------------------------------------------------------------------


def extended(**more: bool) -> Stage:
    stage = Stage(nodes=1, claims=True)
    stage.start(Garbage(stage.client("garbage"), stage.time))
    found = stage.user.get("deviceclasses", "gpus")
    stage.user.update("deviceclasses", {**found, "spec": {**found["spec"], "extendedResourceName": GPU}})
    stage.pool("p-0", "p-1")
    stage.scheduler(gates=more)
    return stage


def test_an_extended_resource_becomes_a_claim_that_is_written_in_pre_bind() -> None:
    stage = extended()
    writes = stage.writes()
    stage.job("er", **asking(2))
    stage.run(1)
    (claim,) = stage.user.list("resourceclaims", "default")
    name = claim["metadata"]["name"]

    assert [what.replace(name, "SPECIAL") for _, what in writes][1:] == [
        "pod er nominatedNodeName",
        "claim SPECIAL new",
        "claim SPECIAL finalizer",
        "claim SPECIAL allocation + reservedFor",
        "pod er extendedResourceClaimStatus",
    ]
    assert name.startswith("er-extended-resources-")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claim["spec"]["devices"]["requests"] == [
        {
            "name": "container-0-request-0",
            "exactly": {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2},
        }
    ]
    assert stage.held(name) == ["pool/p-0", "pool/p-1"]
    assert stage.state("pods", "er", "default")["extendedResourceClaimStatus"] == {
        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}],
        "resourceClaimName": name,
    }


def test_when_it_fails_the_claim_is_deleted_and_made_anew_under_another_name() -> None:
    stage = extended()
    stage.job("er", **asking())
    stage.run(1)
    (first,) = stage.user.list("resourceclaims", "default")
    writes = stage.writes()

    stage.say(first["metadata"]["name"], "Again")
    stage.local("node0", "gpu-0")
    stage.run(7)
    (second,) = stage.user.list("resourceclaims", "default")

    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert stage.held(second["metadata"]["name"]) == ["node0/gpu-0"]
    assert stage.node_of("er") == "node0"
    told = [what for _, what in writes if first["metadata"]["name"] in what]
    assert [what.rpartition(" ")[2] for what in told] == ["devices", "finalizer", "gone"]


def test_a_restarted_scheduler_finds_the_special_claim_again() -> None:
    stage = extended()
    stage.job("er", **asking())
    stage.run(1)
    stage.running[-1].stop()
    stage.scheduler()
    stage.run(1)
    (claim,) = stage.user.list("resourceclaims", "default")

    stage.say(claim["metadata"]["name"], "Ready")
    stage.run(6)

    assert stage.node_of("er") == "node0"
    assert len(stage.user.list("resourceclaims", "default")) == 1


def test_a_failed_special_claim_that_a_restart_left_behind_is_deleted_by_the_next_attempt() -> None:
    stage = extended()
    stage.job("er", **asking())
    stage.run(1)
    (first,) = stage.user.list("resourceclaims", "default")
    stage.running[-1].stop()
    stage.say(first["metadata"]["name"], "Failed")
    stage.scheduler()
    stage.run(0.2)

    assert stage.user.find("resourceclaims", first["metadata"]["name"], "default") is None
    assert "deletion of ResourceClaim completed, preemption: " in stage.condition("er")[1]
    stage.run(310)  # the deletion of a claim wakes nobody, five minutes do
    assert len(stage.user.list("resourceclaims", "default")) == 1


def test_of_two_classes_for_one_resource_the_newer_counts_and_each_has_a_name_of_its_own() -> None:
    stage = extended()
    stage.run(2)
    stage.user.create("deviceclasses", device_class("newer", extendedResourceName=GPU))
    stage.run(1)
    resources = {"limits": {"deviceclass.resource.kubernetes.io/gpus": "1"}}
    stage.job("named", **asking())
    stage.job("implicit", container={"resources": resources})
    stage.run(1)
    asked = {
        claim["metadata"]["ownerReferences"][0]["name"]: claim["spec"]["devices"]["requests"][0]["exactly"]
        for claim in stage.user.list("resourceclaims", "default")
    }

    assert {name: one["deviceClassName"] for name, one in asked.items()} == {"named": "newer", "implicit": "gpus"}
    stage.user.delete("deviceclasses", "newer")
    stage.run(1)
    stage.job("later", **asking())
    stage.run(1)
    assert stage.condition("later")[1].startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_a_gated_pod_is_not_tried_and_one_that_is_going_neither() -> None:
    stage = Stage(nodes=1)
    stage.scheduler()
    stage.job("gated", schedulingGates=[{"name": "quota"}])
    stage.job("going", nodeSelector={"never": "there"})
    stage.run(20)
    assert stage.node_of("gated") == "" and "FailedScheduling" not in stage.events("gated")

    stage.user.patch("pods", "gated", {"spec": {"schedulingGates": []}}, "default")
    stage.run(1)

    assert stage.node_of("gated") == "node0"


def test_a_node_with_the_plain_resource_serves_it_without_a_claim() -> None:
    stage = extended()
    node = stage.user.get("nodes", "node0")
    room = {**node["status"]["allocatable"], GPU: "1"}
    stage.user.update("nodes", {**node, "status": {"capacity": room, "allocatable": room}}, "status")
    stage.run(1)
    stage.job("er", **asking())
    stage.run(1)

    assert stage.node_of("er") == "node0"
    assert stage.user.list("resourceclaims", "default") == []


def test_without_the_gate_an_extended_resource_is_only_what_nodes_say() -> None:
    stage = extended(DRAExtendedResource=False)
    stage.job("er", **asking())
    stage.run(1)

    assert stage.condition("er")[1].startswith(f"0/1 nodes are available: 1 Insufficient {GPU}.")


# -- gates and settings --------------------------------------------------------------------------------------------


def test_without_the_gate_devices_with_binding_conditions_are_skipped() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler(gates={"DRADeviceBindingConditions": False})
    stage.train("job")
    stage.run(2)

    assert stage.held("job") == []
    assert stage.condition("job")[1].startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_without_the_gate_no_expectation_is_nominated() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler(gates={"NominatedNodeNameForExpectation": False})
    stage.train("job")
    stage.run(2)

    assert stage.reserved("job") == ["job"] and stage.nominated("job") == ""


@pytest.mark.parametrize("obeyed", [False, True])
def test_taint_rules_may_be_served_and_not_obeyed(obeyed: bool) -> None:
    stage = Stage(nodes=1, served={"resource.k8s.io/v1beta2": True})
    stage.local("node0", "gpu-0")
    rule(stage)
    stage.scheduler(gates={"DRADeviceTaintRules": obeyed}, release="1.36.3")
    stage.train("job")
    stage.run(2)
    assert stage.held("job") == ([] if obeyed else ["node0/gpu-0"])

    stage.user.delete("devicetaintrules", "rule")
    stage.local("node0", "gpu-0")
    stage.run(12)
    assert stage.held("job") == ["node0/gpu-0"]


def rule(stage: Stage) -> None:
    """Nobody may have a device of the driver."""
    taint = {"key": "drain", "value": "yes", "effect": "NoSchedule"}
    kind = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "rule"}}
    stage.user.create("devicetaintrules", {**kind, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}})


def feared(release: str, *, on: bool = True) -> tuple[Stage, list[str]]:
    """A scheduler with taint rules on, a slice and a rule; why it exited."""
    stage = Stage(nodes=2, served={"resource.k8s.io/v1beta2": True})
    stage.local("node0", "gpu-0")
    told: list[str] = []
    stage.scheduler(gates={"DRADeviceTaintRules": on}, release=release, exited=told.append)
    rule(stage)
    stage.run(2)
    return stage, told


def test_a_1_36_before_1_36_3_does_not_notice_a_taint_rule_until_a_slice_changes_and_then_exits() -> None:
    stage, told = feared("1.36")
    stage.train("job")
    stage.run(1)
    assert told == [] and stage.held("job") == ["node0/gpu-0"]

    stage.local("node0", "gpu-0", "gpu-1")
    stage.train("late")
    stage.run(5)

    assert len(told) == 1 and "139651" in told[0]
    assert stage.held("late") == [] and stage.condition("late") == ("", "")


@pytest.mark.parametrize(("release", "on"), [("1.36.3", True), ("1.35", True), ("1.36", False)])
def test_other_releases_and_a_gate_that_is_off_survive_a_taint_rule(release: str, on: bool) -> None:
    stage, told = feared(release, on=on)

    stage.local("node1", "gpu-0")
    stage.run(5)

    assert told == []


def test_a_slice_that_goes_is_survived_and_so_are_changes_once_the_rules_are_gone() -> None:
    stage, told = feared("1.36")

    stage.user.delete("resourceslices", "node0-gpus")
    stage.run(1)
    stage.user.delete("devicetaintrules", "rule")
    stage.run(1)
    stage.local("node0", "gpu-0", "gpu-1")
    stage.run(1)
    assert told == []

    rule(stage)
    stage.run(1)
    stage.local("node1", "gpu-0")
    stage.run(1)
    assert len(told) == 1
