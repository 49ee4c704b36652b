"""What the doctor says of the guard of an exchange, of devices that are held, and of schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.doctor import Finding, guarding, permissions, scheduling
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.client import Client
from tests.support.doctor_lab import ROLE_USER, DoctorLab, levels, worst

SPACE = "composable-dra"
LIVE = Policy(mode="attach")
CLEAR = Policy(mode="attach", hand_over="clear")
OURS = {"user": ROLE_USER}
POLICY, BINDING = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
Change = Callable[[Client], object]


def installed(change: Change | None = None, account: str = ROLE_USER, space: str = SPACE) -> DoctorLab:
    """A cluster with the guard of an account, and what somebody did to it then."""
    clinic = DoctorLab(seconds=0)
    if clinic.admin.find("namespaces", space) is None:
        clinic.admin.create("namespaces", {"metadata": {"name": space}})
    clinic.admin.create(POLICY, guard.policy(account))
    clinic.admin.create(BINDING, guard.binding(space))
    clinic.admin.create("configmaps", guard.config_map(space), space)
    clinic.admin.create("resourceclaims", guard.probe(space), space)
    if change is not None:
        change(clinic.admin)
    return clinic


def look(clinic: DoctorLab, policy: Policy = LIVE) -> list[Finding]:
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


@pytest.mark.parametrize(
    ("without", "words"), [("never", "no device goes back"), ("best_effort", "devices go back unheld")]
)
def test_what_becomes_of_devices_that_are_to_go_where_there_is_no_guard(without: Any, words: str) -> None:
    policy = Policy(mode="detach", hand_over="clear", detach_without_fence=without)
    (found,) = look(installed(gone(POLICY, guard.NAME)), policy)
    assert found.level == "warning" and found.what.endswith(f"none by exchange, and {words}")


@pytest.mark.parametrize("case", WRONG)
def test_who_exchanges_nothing_needs_the_guard_to_give_devices_back(case: str) -> None:
    change, words = WRONG[case]
    clinic = installed(change)
    (wrong,) = worst(look(clinic, Policy(mode="detach", hand_over="clear")), "warning")
    assert words in wrong
    switched = {"data": {"mode": "attach"}}
    clinic.admin.patch("configmaps", "composable-dra-dds", switched, "composable-dra")
    assert worst(look(clinic, Policy(mode="detach", hand_over="clear")), "note") == [wrong], "the kill switch"


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
@pytest.mark.parametrize("policy", [LIVE, Policy(mode="detach", hand_over="clear")], ids=["exchanges", "detaches"])
def test_without_its_rights_nothing_else_is_lost(resource: str, policy: Policy) -> None:
    clinic = installed()
    user = clinic.with_role(without=[resource])
    found = clinic.look(permissions.permissions, policy=policy, **user)
    assert any(one.startswith("guards is not possible without: ") for one in worst(found, "warning"))
    assert not any(one.startswith(("guards", "exchange", "holds")) for one in worst(found, "error"))
    found = clinic.look(permissions.permissions, policy=CLEAR, **user)
    assert not any(one.startswith(("guards", "exchange", "holds")) for one in worst(found, "warning"))


def test_holds_need_a_right_in_the_namespace_of_dds_alone() -> None:
    clinic = installed()
    user = clinic.with_role(without=["resourceclaims"])
    found = clinic.look(permissions.permissions, policy=Policy(mode="detach", hand_over="clear"), **user)
    (lost,) = [one for one in worst(found, "warning") if one.startswith("holds ")]
    for verb in ("create", "delete"):
        assert f"{verb} resourceclaims.resource.k8s.io in {SPACE}" in lost


# -- holds


SECOND = 1_000_000
OWNER = "cro.hpsys.ibm.ie.com/v1alpha1"


def held(state: str = "Online", *, mark: bool = False, there: bool = True, ours: bool = True) -> DoctorLab:
    """A claim that holds a device, and what became of the device's resource."""
    clinic = installed()
    kind = {"apiVersion": OWNER, "kind": "ComposableResource"}
    annotations = {"cohdi.io/delete-device": "true"} if mark else {}
    spec = {"type": "gpu", "model": "A100 40G", "target_node": "node0"}
    made = clinic.admin.create(
        "composableresources", {**kind, "metadata": {"name": "a", "annotations": annotations}, "spec": spec}
    )
    made = clinic.admin.update("composableresources", {**made, "status": {"state": state}}, "status")
    claim = guard.probe(SPACE)
    owner = {**kind, "name": "a", "uid": made["metadata"]["uid"]}
    labels = {"app.kubernetes.io/managed-by": "dds"} if ours else {}
    claim["metadata"] |= {"name": "dds-hold-a", "labels": labels, "ownerReferences": [owner]}
    clinic.admin.create("resourceclaims", claim, SPACE)
    if not there:
        clinic.admin.delete("composableresources", "a")
    return clinic


def holds(clinic: DoctorLab, seconds: float = 61) -> list[Finding]:
    """What is said of them so long after they were made."""
    return clinic.look(guarding.holds, policy=Policy(mode="detach"), skew=round(seconds * SECOND))


STRAYS: dict[str, Callable[[], DoctorLab]] = {
    "not marked": held,
    "gone": lambda: held(there=False),
    "gone, and marked before": lambda: held(mark=True, there=False),
}


@pytest.mark.parametrize("case", STRAYS)
def test_a_hold_of_a_device_that_does_not_go_is_told(case: str) -> None:
    clinic = STRAYS[case]()
    (stray,) = [one for one in holds(clinic) if one.level == "warning"]
    assert stray.what == f"claim {SPACE}/dds-hold-a holds a device that is not about to go: no pod gets it"
    assert f"kubectl -n {SPACE} delete resourceclaim dds-hold-a" in stray.mend
    assert worst(holds(clinic, 30), "warning") == [], "it may be about to be marked"


@pytest.mark.parametrize(
    "going",
    [lambda: held(mark=True), lambda: held("Detaching"), lambda: held("Deleting", mark=True)],
    ids=["marked", "detaching", "deleting"],
)
def test_a_hold_of_a_device_that_goes_is_as_it_should_be(going: Callable[[], DoctorLab]) -> None:
    (found,) = holds(going())
    assert found.level == "ok" and found.what.startswith("1 device ")


def test_holds_are_a_topic_of_their_own() -> None:
    assert {one.check for one in (*holds(held()), *holds(held(mark=True)))} == {"holds"}


def test_claims_of_others_are_no_holds() -> None:
    assert holds(held(ours=False)) == holds(installed()) == []


def test_the_scalers_role_is_enough_to_see_holds() -> None:
    clinic = held(mark=True)
    found = clinic.look(guarding.holds, **clinic.with_role())
    assert levels(found) == ["ok"]


# -- schedulers


def schedulers(clinic: DoctorLab, **more: Any) -> list[Finding]:
    return clinic.look(scheduling.schedulers, policy=Policy(mode="attach", **more))


@pytest.mark.parametrize(("version", "level"), [("1.34", "note"), ("1.35", "note"), ("1.36", "ok"), ("1.36.3", "ok")])
def test_which_releases_exchange(version: str, level: str) -> None:
    found = schedulers(DoctorLab(seconds=0, version=version))
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
    context = DoctorLab(seconds=0).context(policy=LIVE)
    monkeypatch.setattr(context, "release", lambda: release)
    found = [one for one in scheduling.schedulers(context) if "two claims" in one.what]
    assert levels(found) == ([level] if level else [])
    assert all(one.what.startswith(release) for one in found)


def test_a_release_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    context = DoctorLab(seconds=0).context(policy=LIVE)
    monkeypatch.setattr(context, "release", lambda: "a release that it does not tell")
    assert levels(scheduling.schedulers(context)) == ["unknown"]


RULE = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a.b/c", "effect": "NoSchedule"}}}


@pytest.mark.parametrize(
    ("version", "served", "rules", "level"),
    [("1.36", True, 1, "error"), ("1.36", True, 0, "warning"), ("1.36", False, 0, ""), ("1.36.3", True, 1, "")],
)
def test_a_scheduler_that_taint_rules_end(version: str, served: bool, rules: int, level: str) -> None:
    clinic = DoctorLab(seconds=0, version=version, taint_rules="resource.k8s.io/v1beta2" if served else "none")
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
        (
            {"scheduler": SchedulerPolicy(hand_over="exchange")},
            "handed over by clear, as the policy does not say exchange",
        ),
        ({"hand_over": "clear"}, ""),
    ],
)
def test_schedulers_of_other_names(policy: dict[str, Any], words: str) -> None:
    clinic = DoctorLab(seconds=0)
    for name, scheduler in (("a", "other"), ("b", "default-scheduler"), ("c", "idle")):
        claims = [] if name == "c" else [{"name": "gpu", "resourceClaimName": "gpu"}]
        spec = {"schedulerName": scheduler, "containers": [{"name": "m", "image": "i"}], "resourceClaims": claims}
        clinic.admin.create("pods", {"metadata": {"name": name}, "spec": spec}, "default")
    found = [one.what for one in schedulers(clinic, **policy) if one.what.startswith("scheduler ")]
    assert len(found) == bool(words)
    assert all(one.startswith("scheduler other is used by 1 pod with claims") and words in one for one in found)
