"""What the doctor says of the autoscaler's side: its rights, its groups, and what Cluster Autoscaler was started with."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.doctor import Finding, Machines, autoscaling, permissions
from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.scaler.policy import Policy
from tests.support.doctor_lab import DoctorLab, levels, worst
from tests.support.roles import ALL_OF_AUTOSCALER

POOLS = {"cohdi.io/nvidia-a100-40": "true", "cohdi.io/nvidia-h100-80": "true"}
GOOD = (
    "--cloud-provider=externalgrpc", "--cloud-config=/config/cloud.yaml", "--enable-dynamic-resource-allocation=true",
    "--node-info-cache-expire-time=1s", "--max-node-provision-time=15m", "--scale-down-unneeded-time=15m",
)  # fmt: skip


def policy(labels: dict[str, str] | None = None, **more: Any) -> AutoscalePolicy:
    template = {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "labels": labels or {}}
    group = {"name": "big", "maximum": 2, "template": template}
    return read_autoscale_policy({"mode": "autoscale", "groups": [group], **more})


LIVE = policy()


@pytest.fixture(scope="module")
def sound() -> DoctorLab:
    return DoctorLab()


# -- rights ------------------------------------------------------------------------------------------------------------


def test_exactly_the_autoscalers_role_is_enough() -> None:
    clinic = DoctorLab()
    user = clinic.with_autoscaler_role()
    found = clinic.look(permissions.autoscaler_permissions, autoscaling=LIVE, has_machines=True, **user)
    assert set(levels(found)) == {"ok"}
    assert {one.what.partition(":")[0] for one in found} == {rule.feature for rule in rbac.AUTOSCALER_RULES}


def test_a_missing_right_is_named_with_what_stops() -> None:
    clinic = DoctorLab()
    user = clinic.with_autoscaler_role(without=["nodes"])
    wrong = worst(clinic.look(permissions.autoscaler_permissions, autoscaling=LIVE, **user), "error")
    assert any(what.startswith("nodes of servers is not possible without: delete nodes") for what in wrong), wrong


def test_rights_on_machines_are_asked_for_where_these_are_here() -> None:
    clinic = DoctorLab()
    user = clinic.with_autoscaler_role(ALL_OF_AUTOSCALER - {rbac.CLUSTER_API.power})
    for here, expected in ((False, {"ok"}), (True, {"ok", "error"})):
        found = clinic.look(permissions.autoscaler_permissions, autoscaling=LIVE, has_machines=here, **user)
        assert set(levels(found)) == expected


def test_in_mode_observe_no_node_needs_to_be_written() -> None:
    clinic = DoctorLab()
    user = clinic.with_autoscaler_role(rbac.needed(AutoscalePolicy(), rbac.AUTOSCALER_RULES))
    found = clinic.look(permissions.autoscaler_permissions, autoscaling=AutoscalePolicy(), **user)
    assert set(levels(found)) == {"ok", "note"}


# -- groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (("big",), []),
        (("small",), ["the policy's group big has no servers", "the policy has no group small"]),
        (("big", "small"), ["the policy has no group small"]),
    ],
    ids=str,
)
def test_groups_of_policy_and_machines_are_compared(groups: tuple[str, ...], expected: list[str]) -> None:
    first, *found = autoscaling.machines(LIVE, Machines("inventory", frozenset(groups)))
    assert first.level == "ok"
    assert len(found) == len(expected) and all(
        one.what.startswith(words) for one, words in zip(found, expected, strict=True)
    )
    assert all(one.mend for one in found)


@pytest.mark.parametrize(
    ("labels", "level", "words"),
    [
        ({"cohdi.io/fabric": "1", **POOLS}, "ok", "2 pool labels"),
        ({"cohdi.io/fabric": "1", "cohdi.io/nvidia-a100-40": "true"}, "note", "cohdi.io/nvidia-h100-80"),
        ({"cohdi.io/fabric": "1"}, "warning", "cohdi.io/nvidia-a100-40, cohdi.io/nvidia-h100-80"),
        ({"cohdi.io/fabric": "1", **dict.fromkeys(POOLS, "yes")}, "warning", "cohdi.io/nvidia-a100-40"),
        (POOLS, "warning", "cohdi.io/fabric"),
    ],
    ids=str,
)
def test_labels_of_a_template(sound: DoctorLab, labels: dict[str, str], level: str, words: str) -> None:
    (found,) = sound.look(autoscaling.templates, autoscaling=policy(labels))
    assert (found.level, words in found.what) == (level, True), found


# -- Cluster Autoscaler ------------------------------------------------------------------------------------------------


def started(
    *args: str, image: str = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0", **more: Any
) -> DoctorLab:
    """A cluster in which a Pod runs with these arguments."""
    clinic = DoctorLab(seconds=0)
    container = {"name": "main", "image": image, "args": list(args), **more}
    pod = {"metadata": {"name": "ca", "namespace": "kube-system"}, "spec": {"containers": [container]}}
    if clinic.admin.find("namespaces", "kube-system") is None:
        clinic.admin.create("namespaces", {"metadata": {"name": "kube-system"}})
    clinic.admin.create("pods", pod, "kube-system")
    return clinic


def look(clinic: DoctorLab, scaler: Policy | None = None, autoscale: AutoscalePolicy = LIVE) -> list[Finding]:
    return list(autoscaling.cluster_autoscaler(clinic.context(scaler, autoscaling=autoscale)))


def without(flag: str, *instead: str) -> list[str]:
    return [*(one for one in GOOD if not one.startswith(f"--{flag}")), *instead]


@pytest.mark.parametrize(
    "clinic",
    [
        lambda: started(*GOOD),
        lambda: started(image="mirror:5000/ca@sha256:0", command=["./cluster-autoscaler", *GOOD]),
        lambda: started(image="tools", command=["/bin/sh", "-c", f"exec /cluster-autoscaler {' '.join(GOOD)}"]),
        lambda: started(*(part for one in GOOD for part in one.split("=")), image="cluster-autoscaler-arm64"),
    ],
    ids=["by its image", "by its command", "in a shell", "values as words of their own"],
)
def test_one_that_is_started_well_is_found(clinic: Any) -> None:
    (found,) = look(clinic(), Policy(mode="detach"))
    assert (found.level, "Pod kube-system/ca" in found.what) == ("ok", True)


@pytest.mark.parametrize(
    ("args", "level", "words"),
    [
        (without("cloud-provider", "--cloud-provider=aws"), "error", "without --cloud-provider=externalgrpc"),
        (without("cloud-config"), "error", "no --cloud-config"),
        (without("enable-dynamic", "--enable-dynamic-resource-allocation=false"), "error", "does not look at claims"),
        (without("enable-dynamic"), "note", "does not say --enable-dynamic-resource-allocation"),
        (without("node-info-cache"), "warning", "no --node-info-cache-expire-time"),
        (without("node-info-cache", "--node-info-cache-expire-time=1h0m1s"), "warning", "-time=1h0m1s: what it knows"),
        (without("max-node", "--max-node-provision-time=14m59.5s"), "warning", "compose_seconds (900 s)"),
        (without("max-node", "--max-node-provision-time=900"), "warning", "which is no duration"),
        (without("scale-down"), "warning", "no --scale-down-unneeded-time: it judges a node before"),
    ],
    ids=str,
)
def test_each_flag_that_does_not_fit_is_told(args: list[str], level: str, words: str) -> None:
    found = [one for one in look(started(*args), Policy(mode="detach")) if one.level != "ok"]
    assert [(one.level, words in one.what, bool(one.mend)) for one in found] == [(level, True, True)], found


def test_idle_time_matters_only_where_devices_go_back_and_that_is_known() -> None:
    clinic = started(*without("scale-down", "--scale-down-unneeded-time=1s"))
    for scaler in (None, Policy(mode="attach")):
        assert levels(look(clinic, scaler)) == ["ok"]
    assert levels(look(clinic, Policy(mode="detach"))) == ["ok", "warning"]


def test_one_of_another_cloud_and_none_are_notes_while_nothing_is_shown() -> None:
    observing = AutoscalePolicy()
    assert levels(look(started("--cloud-provider=aws"), autoscale=observing)) == ["note"]
    for image in ("nginx", "example/cluster-autoscaler-operator"):
        (found,) = look(started("--watch", "cluster-autoscaler", image=image))
        assert (found.level, "no Pod runs Cluster Autoscaler" in found.what) == ("note", True)


def test_who_may_not_list_pods_gets_a_note() -> None:
    clinic = started(*GOOD)
    user = clinic.with_autoscaler_role(without=["pods"])
    (found,) = clinic.look(autoscaling.cluster_autoscaler, autoscaling=LIVE, **user)
    assert (found.level, "may not be listed (403)" in found.what) == ("note", True)
