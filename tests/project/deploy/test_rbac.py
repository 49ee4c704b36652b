"""Roles made from the table of permissions: what a power that is off takes along, and what no role may ever hold."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.rbac import ELECTION, REVIEWS, RULES, Names
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_core import Policy, read_policy
from tests.support.roles import EVERYTHING, NOTHING, POWERS, Powers, binding, role, rules

ATTACHES = {"attach", "signal", "steer", "labels", "nudge", "stamp", "events"}


def _allowed(powers: Powers, names: Names = rbac.USUAL) -> set[tuple[str, str, tuple[str, ...]]]:
    """(resource, verb, names) of all roles."""
    return {
        (resource, verb, tuple(rule.get("resourceNames", ())))
        for where in rbac.WHERES
        for rule in role(where, powers, names)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("power", POWERS)
def test_a_power_that_is_off_takes_its_rules_and_no_others(power: str) -> None:
    only = NOTHING | {power}
    assert _allowed(NOTHING) < _allowed(only), f"{power} has no rule of its own"
    without = EVERYTHING - {power}
    lost = _allowed(EVERYTHING) - _allowed(without)
    assert lost <= _allowed(only)
    assert {rule.power for rule in RULES} - {rule.power for rule in rules(without)} == {power}


def test_without_any_power_nothing_of_the_fleet_can_be_written() -> None:
    writes = {(resource, verb) for resource, verb, _ in _allowed(NOTHING) if verb not in ("get", "list", "watch")}
    assert writes == {("selfsubjectaccessreviews", "create")}


def test_all_that_is_followed_may_be_listed_and_watched() -> None:
    may = {(resource, verb) for resource, verb, _ in _allowed(NOTHING)}
    assert {(resource, verb) for resource in VERSIONS for verb in ("list", "watch")} <= may


def test_no_rule_has_a_wildcard_or_reaches_what_is_nobodys_business() -> None:
    for rule in (*RULES, *rbac.PUBLISHER_RULES, *rbac.AUTOSCALER_RULES):
        assert "*" not in (rule.group, rule.resource, *rule.verbs, *rule.names)
        assert rule.parts[0] not in ("secrets", "serviceaccounts", "roles", "clusterroles")
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule.verbs)


def test_every_rule_says_which_call_needs_it() -> None:
    calls = [(rule.call, rule.resource) for rule in RULES]
    assert all(call and resource for call, resource in calls)
    assert len(set(calls)) == len(calls)


def test_names_take_the_place_of_their_markers() -> None:
    names = Names(drivers=("a.example", "b.example"), configmap="fabric", lease="other")
    found = {(resource, named) for resource, _, named in _allowed(EVERYTHING, names) if named}
    assert found == {
        ("resourceclaims/driver", ("a.example", "b.example")),
        ("configmaps", ("fabric",)),
        ("leases", ("other",)),
        ("namespaces", ("kube-system",)),
        ("validatingadmissionpolicies", ("dds-guard",)),
        ("validatingadmissionpolicybindings", ("dds-guard",)),
        ("configmaps", ("dds-guards",)),
    }


def test_without_drivers_the_drivers_rule_is_left_out_rather_than_open_to_all() -> None:
    found = {resource for resource, _, _ in _allowed(EVERYTHING, Names(drivers=()))}
    assert "resourceclaims/driver" not in found
    assert "resourceclaims/status" in found


def test_roles_stand_in_the_namespaces_of_their_objects() -> None:
    names = Names(config_namespace="fabric", lease_namespace="scaler", guard_namespace="own")
    assert role("config", names=names)["metadata"] == {"name": "dds-config", "namespace": "fabric"}
    assert role("lease", names=names)["metadata"] == {"name": "dds-lease", "namespace": "scaler"}
    assert role("cluster")["metadata"] == {"name": "dds"}
    assert role("guard", names=names)["metadata"] == {"name": "dds-guard", "namespace": "own"}
    bound = binding(role("lease", names=names), "dds", "scaler")
    assert bound["kind"] == "RoleBinding"
    assert bound["roleRef"]["name"] == bound["metadata"]["name"] == "dds-lease"
    assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "dds", "namespace": "scaler"}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"mode": "observe"}, set()),
        ({"mode": "attach"}, ATTACHES | {"exchange"}),
        ({"mode": "attach", "hand_over": "clear"}, ATTACHES),
        ({"mode": "attach", "hand_over": "clear", "scheduler": {"hand_over": "exchange"}}, ATTACHES | {"exchange"}),
        (
            {"mode": "attach", "hand_over": "clear", "schedulers": {"a": {"hand_over": "exchange"}}},
            ATTACHES | {"exchange"},
        ),
        ({"mode": "detach"}, set(POWERS) - {"leader_election", "metrics_reviews"}),
    ],
)
def test_a_policy_needs_no_more_than_its_mode_and_hand_over(written: dict[str, Any], expected: set[str]) -> None:
    assert rbac.needed(read_policy(written), RULES) - NOTHING == expected


@pytest.mark.parametrize(
    ("written", "features"),
    [
        ({"mode": "attach"}, {"exchange", "guards"}),
        ({"mode": "attach", "hand_over": "clear"}, set()),
        ({"mode": "detach", "hand_over": "clear"}, {"guards", "holds"}),
        ({"mode": "detach"}, {"exchange", "guards", "holds"}),
    ],
)
def test_devices_are_guarded_for_exchanges_and_for_holds(written: dict[str, Any], features: set[str]) -> None:
    policy = read_policy(written)
    rules = [rule for rule in RULES if rule.power == "exchange"]
    assert {rule.feature for rule in rules if rbac.needed(policy, [rule]) - NOTHING} == features


def test_claims_are_made_and_deleted_in_our_namespace_alone() -> None:
    claims = [rule for rule in RULES if rule.parts[0] == "resourceclaims"]
    assert {rule.where for rule in claims if {"create", "delete"} & set(rule.verbs)} == {"guard"}


def test_leader_election_and_reviews_are_needed_in_every_mode() -> None:
    powers = rbac.needed(Policy(), RULES, ELECTION, REVIEWS)
    assert powers - NOTHING == {"leader_election", "metrics_reviews"}
