"""What the doctor says of permissions: each that is missing, with what stops without it."""

from __future__ import annotations

import pytest

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.doctor import permissions
from dds_core.scaler.policy import Policy
from tests.support.doctor_lab import DoctorLab, levels, worst

LIVE = Policy(mode="detach")


def test_whoever_may_do_everything_has_all() -> None:
    found = DoctorLab().look(permissions.permissions, policy=LIVE)
    assert set(levels(found)) == {"ok"}
    assert {one.what.partition(":")[0] for one in found} == {rule.feature for rule in rbac.RULES}


def test_exactly_the_scalers_role_is_enough() -> None:
    clinic = DoctorLab()
    found = clinic.look(permissions.permissions, policy=LIVE, **clinic.with_role())
    assert [one for one in found if one.level != "ok"] == []


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("resourceclaims", "list resourceclaims.resource.k8s.io"),
        ("resourceclaims/status", "patch resourceclaims/status.resource.k8s.io"),
        ("resourceclaims/driver", "arbitrary-node:patch resourceclaims/driver.resource.k8s.io gpu.nvidia.com"),
        ("resourceclaims/binding", "hand-over clear is not possible without: patch resourceclaims/binding"),
        ("composabilityrequests", "attach is not possible without: create composabilityrequests"),
        ("configmaps", "list configmaps composable-dra-dds in composable-dra"),
        ("namespaces", "get namespaces kube-system"),
    ],
)
def test_what_is_missing_is_named_with_what_stops(resource: str, words: str) -> None:
    clinic = DoctorLab()
    user = clinic.with_role(without=[resource])
    wrong = [one for one in clinic.look(permissions.permissions, policy=LIVE, **user) if one.level == "error"]
    assert any(words in one.what for one in wrong), [one.what for one in wrong]
    assert all(one.mend.startswith("add it to the ") for one in wrong)


def test_what_a_mode_never_uses_is_only_noted() -> None:
    clinic = DoctorLab()
    user = clinic.with_role(rbac.needed(Policy(), rbac.RULES))
    assert set(levels(clinic.look(permissions.permissions, policy=Policy(), **user))) == {"ok", "note"}
    live = clinic.look(permissions.permissions, policy=LIVE, **user)
    assert any(what.startswith("attach is not possible") for what in worst(live, "error"))


def test_without_events_only_words_are_lost() -> None:
    clinic = DoctorLab()
    found = clinic.look(permissions.permissions, policy=LIVE, **clinic.with_role(without=["events"]))
    assert [one.what.partition(" is ")[0] for one in found if one.level == "warning"] == ["events"]


def test_what_no_flag_asked_for_is_only_noted() -> None:
    clinic = DoctorLab()
    found = clinic.look(permissions.permissions, policy=LIVE, **clinic.with_role(without=["leases", "tokenreviews"]))
    assert set(levels(found)) == {"ok", "note"}


def test_an_older_server_does_not_ask_for_the_granular_ones() -> None:
    clinic = DoctorLab(version="1.35")
    user = clinic.with_role(without=["resourceclaims/driver", "resourceclaims/binding"])
    assert worst(clinic.look(permissions.permissions, policy=LIVE, **user), "error") == []


def test_the_drivers_of_the_config_map_are_asked_for() -> None:
    clinic = DoctorLab()
    names = permissions.names_of(clinic.context())
    assert names.drivers == ("gpu.nvidia.com",)
    rule = next(one for one in rbac.RULES if one.resource == "resourceclaims/driver")
    assert [one.name for one in permissions.asked_of(rule, names)] == ["gpu.nvidia.com"]


def test_a_server_that_answers_no_reviews() -> None:
    clinic = DoctorLab()
    clinic.admin.delete("clusterrolebindings", "system:basic-user")
    (found,) = clinic.look(permissions.permissions, user="stranger", groups=())
    assert (found.level, "403" in found.what) == ("unknown", True)
