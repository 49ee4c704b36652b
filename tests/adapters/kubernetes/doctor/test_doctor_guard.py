"""What the doctor says of the guard of an exchange, and of schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.doctor import Finding, guarding, permissions, scheduling
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.client import Client
from tests.support.clinic import ROLE_USER, Clinic, levels, worst

SPACE = "composable-dra"
LIVE = Policy(mode="attach")
CLEAR = Policy(mode="attach", hand_over="clear")
OURS = {"user": ROLE_USER}
POLICY, BINDING = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
Change = Callable[[Client], object]


def installed(change: Change | None = None, account: str = ROLE_USER, space: str = SPACE) -> Clinic:
    """A cluster with the guard of an account, and what somebody did to it then."""
    clinic = Clinic(seconds=0)
    if clinic.admin.find("namespaces", space) is None:
        clinic.admin.create("namespaces", {"metadata": {"name": space}})
    clinic.admin.create(POLICY, guard.policy(account))
    clinic.admin.create(BINDING, guard.binding(space))
    clinic.admin.create("configmaps", guard.config_map(space), space)
    clinic.admin.create("resourceclaims", guard.probe(space), space)
    if change is not None:
        change(clinic.admin)
    return clinic


def look(clinic: Clinic, policy: Policy = LIVE) -> list[Finding]:
    return clinic.look(guarding.guarded, policy=policy, **OURS, groups=("system:masters",))


def test_the_guard_as_it_is_shipped() -> None:
    found = look(installed())
    assert [one.what for one in found] == [
        "policy dds-guard is as it is shipped",
        "binding dds-guard is as it is shipped",
        "composable-dra/dds-guards: 0 guards in force",
        "claim composable-dra/dds-probe is as it is shipped",
    ]
    assert set(levels(found)) == {"ok"}


def test_the_guard_of_another_namespace_is_looked_for_there() -> None:
    clinic = installed(account="system:serviceaccount:scaler:dds", space="scaler")
    assert worst(look(clinic), "warning") == [
        "policy dds-guard lets system:serviceaccount:scaler:dds pass, and we are system:serviceaccount:composable-dra:dds: "
        "no device would be exchanged"
    ]


def edited(resource: str, name: str, patch: dict[str, Any], space: str = "") -> Change:
    return lambda admin: admin.patch(resource, name, patch, space)


def gone(resource: str, name: str, space: str = "") -> Change:
    return lambda admin: admin.delete(resource, name, space)


def allocated(admin: Client) -> None:
    result = {"request": "device", "driver": "gpu.nvidia.com", "pool": "n", "device": "d"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    admin.patch("resourceclaims", guard.PROBE, status, SPACE, subresource="status")


WRONG: dict[str, tuple[Change, str]] = {
    "no policy": (gone(POLICY, guard.NAME), "there is no policy dds-guard: claims are handed over by clear"),
    "no binding": (gone(BINDING, guard.NAME), "there is no binding dds-guard"),
    "no map": (gone("configmaps", guard.CONFIG_MAP, SPACE), "there is no ConfigMap composable-dra/dds-guards"),
    "no probe": (gone("resourceclaims", guard.PROBE, SPACE), "there is no claim composable-dra/dds-probe"),
    "another policy": (
        edited(POLICY, guard.NAME, {"spec": {"failurePolicy": "Fail", "validations": [{"expression": "true"}]}}),
        "it differs in spec.failurePolicy, spec.validations[0].expression, spec.validations[0].message",
    ),
    "a policy that leaves something out": (
        edited(POLICY, guard.NAME, {"spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}}}),
        "it differs in spec.matchConstraints.objectSelector",
    ),
    "a binding that only warns": (
        edited(BINDING, guard.NAME, {"spec": {"validationActions": ["Warn"]}}), "it differs in spec.validationActions[0]",
    ),
    "a binding to another place": (
        edited(BINDING, guard.NAME, {"spec": {"paramRef": {"namespace": "default"}}}), "it differs in spec.paramRef.namespace",
    ),
    "a map that stays": (edited("configmaps", guard.CONFIG_MAP, {"immutable": True}, SPACE), "is immutable"),
    "no instant": (edited("configmaps", guard.CONFIG_MAP, {"data": {"a_b_c": "soon"}}, SPACE), "no instant for a_b_c"),
    "an allocated probe": (allocated, "is allocated"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_as_it_is_shipped(case: str) -> None:
    change, words = WRONG[case]
    clinic = installed(change)
    found = look(clinic)
    (wrong,) = [one for one in found if one.level == "warning"]
    assert words in wrong.what
    assert wrong.mend
    assert worst(look(clinic, CLEAR), "note") == [wrong.what], "nothing is lost where nothing is exchanged"


def test_guards_that_ended_are_told() -> None:
    keys = {"old_b_c": "2020-01-01T00:00:00Z", "new_b_c": "2099-01-01T00:00:00Z"}
    found = look(installed(edited("configmaps", guard.CONFIG_MAP, {"data": keys}, SPACE)))
    (stray,) = worst(found, "note")
    assert stray.startswith("composable-dra/dds-guards still has 1 guard that ended, the first 2020-01-01")
    assert "old_b_c" in stray and "new_b_c" not in stray
    assert "composable-dra/dds-guards: 1 guard in force" in worst(found, "ok")


def test_the_scalers_role_is_enough_to_look() -> None:
    clinic = installed()
    found = clinic.look(guarding.guarded, policy=LIVE, **clinic.with_role())
    assert set(levels(found)) == {"ok"}


@pytest.mark.parametrize("resource", ["configmaps", "validatingadmissionpolicies", "resourceclaims/binding"])
def test_without_its_rights_nothing_else_is_lost(resource: str) -> None:
    clinic = installed()
    user = clinic.with_role(without=[resource])
    found = clinic.look(permissions.permissions, policy=LIVE, **user)
    assert any(one.startswith("exchange is not possible without: ") for one in worst(found, "warning"))
    assert not any(one.startswith("exchange") for one in worst(found, "error"))


# -- schedulers


def schedulers(clinic: Clinic, **more: Any) -> list[Finding]:
    return clinic.look(scheduling.schedulers, policy=Policy(mode="attach", **more))


@pytest.mark.parametrize(("version", "level"), [("1.34", "note"), ("1.35", "note"), ("1.36", "ok"), ("1.36.3", "ok")])
def test_which_releases_exchange(version: str, level: str) -> None:
    found = schedulers(Clinic(seconds=0, version=version))
    assert found[0].level == level
    assert ("no claim is exchanged" in found[0].what) == (level == "note")


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ("v1.34.3", "warning"),
        ("v1.34.4+k3s1", ""),
        ("v1.35.0-rc.1", "warning"),
        ("v1.35.1", ""),
        ("v1.36.0", ""),
        ("v1.37.0", ""),
    ],
)
def test_which_releases_give_a_device_twice(release: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Clinic(seconds=0).patient(policy=LIVE)
    monkeypatch.setattr(patient, "release", lambda: release)
    found = [one for one in scheduling.schedulers(patient) if "two claims" in one.what]
    assert levels(found) == ([level] if level else [])
    assert all(one.what.startswith(release) for one in found)


def test_a_release_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Clinic(seconds=0).patient(policy=LIVE)
    monkeypatch.setattr(patient, "release", lambda: "a release that it does not tell")
    assert levels(scheduling.schedulers(patient)) == ["unknown"]


RULE = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a.b/c", "effect": "NoSchedule"}}}


@pytest.mark.parametrize(
    ("version", "served", "rules", "level"),
    [("1.36", True, 1, "error"), ("1.36", True, 0, "warning"), ("1.36", False, 0, ""), ("1.36.3", True, 1, "")],
)
def test_a_scheduler_that_taint_rules_end(version: str, served: bool, rules: int, level: str) -> None:
    more: dict[str, Any] = {"taint_rules": "resource.k8s.io/v1beta2"} if served else {}
    clinic = Clinic(seconds=0, version=version, **more)
    for _ in range(rules):
        clinic.admin.create("devicetaintrules", RULE)
    found = [one for one in schedulers(clinic) if "139651" in one.what]
    assert levels(found) == ([level] if level else [])
    assert all(one.what.startswith("v1.36.2: ") for one in found)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "handed over by clear, as the policy does not say exchange"),
        ({"schedulers": {"other": SchedulerPolicy(hand_over="exchange")}}, "which are exchanged"),
        ({"scheduler": SchedulerPolicy(hand_over="exchange")}, "which are exchanged"),
        ({"hand_over": "clear"}, ""),
    ],
)
def test_schedulers_of_other_names(policy: dict[str, Any], words: str) -> None:
    clinic = Clinic(seconds=0)
    for name, scheduler in (("a", "other"), ("b", "default-scheduler"), ("c", "idle")):
        claims = [] if name == "c" else [{"name": "gpu", "resourceClaimName": "gpu"}]
        spec = {"schedulerName": scheduler, "containers": [{"name": "m", "image": "i"}], "resourceClaims": claims}
        clinic.admin.create("pods", {"metadata": {"name": name}, "spec": spec}, "default")
    found = [one.what for one in schedulers(clinic, **policy) if one.what.startswith("scheduler ")]
    assert len(found) == bool(words)
    assert all(one.startswith("scheduler other is used by 1 pod with claims") and words in one for one in found)
