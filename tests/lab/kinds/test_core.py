"""Metadata of all kinds; nodes, namespaces, data, leases, events, roles, classes and taint rules."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.api import names, writing
from tests.lab.kinds.kinds import (
    REMOVED,
    SECOND,
    Object,
    allocated,
    changed,
    claim,
    created,
    refused_create,
    refused_update,
    registry,
    strategy,
    updated,
)

# -- metadata -----------------------------------------------------------------------------------------------------


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-1"}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", "", [("Required", "name")]),
        ("name", "x" * 254, [("Invalid", "name")]),
        ("namespace", "Not", [("Invalid", "namespace")]),
        ("namespace", "", [("Required", "namespace")]),
        ("generateName", "Not_", [("Invalid", "generateName")]),
        ("labels", {"a": "not valid!"}, [("Invalid", "labels")]),
        ("labels", {"not valid": "a"}, [("Invalid", "labels")]),
        ("labels", {"a/b/c": "a"}, [("Invalid", "labels")]),
        ("annotations", {"not valid": "a"}, [("Invalid", "annotations")]),
        ("annotations", {"a": "x" * 262_144}, [("TooLong", "annotations")]),
        ("finalizers", ["plain"], [("Invalid", "finalizers")]),
        ("finalizers", ["not valid!/x"], [("Invalid", "finalizers")]),
        ("finalizers", ["orphan", "foregroundDeletion"], [("Invalid", "finalizers")]),
        ("ownerReferences", [{**OWNER, "uid": ""}], [("Invalid", "ownerReferences.uid")]),
        ("ownerReferences", [{**OWNER, "apiVersion": ""}], [("Invalid", "ownerReferences.apiVersion")]),
        ("ownerReferences", [{**OWNER, "kind": "Event"}], [("Invalid", "ownerReferences")]),
        (
            "ownerReferences",
            [{**OWNER, "controller": True}, {**OWNER, "uid": "2", "controller": True}],
            [("Invalid", "ownerReferences")],
        ),
    ],
)
def test_what_metadata_may_not_hold(key: str, value: Any, expected: list[tuple[str, str]]) -> None:
    found = refused_create(strategy("resourceclaims"), changed(claim(), f"metadata.{key}", value))
    assert found == [(reason, f"metadata.{field}") for reason, field in expected]


def test_what_metadata_may_hold() -> None:
    made = changed(
        changed(claim(), "metadata.finalizers", ["a.com/x", "foregroundDeletion"]), "metadata.ownerReferences", [OWNER]
    )
    made = changed(
        changed(made, "metadata.annotations", {"A.com/Key": "any text!"}), "metadata.labels", {"a.com/b": ""}
    )
    created(strategy("resourceclaims"), changed(made, "metadata.generateName", "gen-"))


def test_cluster_wide_objects_have_no_namespace() -> None:
    body = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    assert refused_create(strategy("deviceclasses"), body) == [("Forbidden", "metadata.namespace")]


def test_names_never_change_and_no_finalizer_comes_while_deleting() -> None:
    made, old = strategy("resourceclaims"), changed(claim(), "metadata.deletionTimestamp", SECOND)
    new = changed(old, "metadata.finalizers", ["a.com/new"])
    assert refused_update(made, new, old) == [("Forbidden", "metadata.finalizers")] * 2
    assert ("Invalid", "metadata.name") in refused_update(made, changed(old, "metadata.name", "other"), old)
    assert ("Invalid", "metadata.deletionTimestamp") in refused_update(made, old, claim())


def test_creators_set_neither_generation_nor_deletion() -> None:
    body = changed(changed(claim(), "metadata.generation", 9), "metadata.deletionTimestamp", SECOND)
    assert not {"generation", "deletionTimestamp"} & set(created(strategy("resourceclaims"), body)["metadata"])


# -- nodes --------------------------------------------------------------------------------------------------------

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def node() -> Object:
    return created(strategy("nodes"), {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})


def test_a_new_node_is_tainted_and_keeps_the_status_that_it_brings() -> None:
    made = node()
    assert made["spec"]["taints"] == [NOT_READY] and made["status"]["capacity"] == {"cpu": "4"}
    assert "generation" not in made["metadata"]
    own = {"metadata": {"name": "n"}, "spec": {"taints": [NOT_READY]}}
    assert created(strategy("nodes"), own)["spec"]["taints"] == [NOT_READY]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.taints", [{"key": "k", "effect": "Never"}], [("NotSupported", "spec.taints[0].effect")]),
        ("spec.taints", [{"key": "k", "effect": "NoExecute"}] * 2, [("Duplicate", "spec.taints[1]")]),
        ("spec.taints", [{"key": "not valid!", "effect": "NoExecute"}], [("Invalid", "spec.taints[0].key")]),
        ("spec.podCIDR", "10.0.0.0/24", []),
        ("spec.unschedulable", True, []),
        ("spec.providerID", "fab://2", [("Forbidden", "spec.providerID")]),
        ("spec.externalID", "x", [("Forbidden", "spec")]),
        ("metadata.labels", {"a": "b"}, []),
    ],
)
def test_changes_of_a_node(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    old = changed(node(), "spec.providerID", "fab://1")
    assert refused_update(strategy("nodes"), changed(old, path, value), old) == expected


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("capacity", {"cpu": "-1"}, [("Invalid", "status.capacity[cpu]")]),
        ("allocatable", {"pods": "1.5"}, [("Invalid", "status.allocatable[pods]")]),
        ("capacity", {"a.com/gpu": "500m"}, [("Invalid", "status.capacity[a.com/gpu]")]),
        ("addresses", [{"type": "InternalIP", "address": "1.2.3.4"}] * 2, [("Duplicate", "status.addresses[1]")]),
        ("conditions", [{"type": "", "status": "True"}], [("Required", "status.conditions[0].type")]),
        ("conditions", [{"type": "Ready", "status": "True"}], []),
    ],
)
def test_statuses_of_a_node(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_update(strategy("nodes"), changed(node(), f"status.{path}", value), node(), "status") == expected


def test_a_nodes_status_and_spec_are_isolated_and_its_labels_are_not() -> None:
    made, old = strategy("nodes"), node()
    assert updated(made, changed(old, "status.capacity", {}), old)["status"] == old["status"]
    wanted = changed(
        changed(changed(old, "spec.unschedulable", True), "metadata.labels", {"a": "b"}), "status.capacity.cpu", "8"
    )
    new = updated(made, wanted, old, "status")
    assert "unschedulable" not in new["spec"]
    assert (new["metadata"]["labels"], new["status"]["capacity"]) == ({"a": "b"}, {"cpu": "8"})
    assert made.selectable(changed(old, "spec.unschedulable", True)) == {"spec.unschedulable": "true"}


# -- namespaces, data, leases -----------------------------------------------------------------------------------


def test_namespaces() -> None:
    made = strategy("namespaces")
    old = created(made, {"metadata": {"name": "conf"}})
    assert old["metadata"]["labels"] == {"kubernetes.io/metadata.name": "conf"}
    assert (old["spec"], old["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert refused_create(made, {"metadata": {"name": "a.b"}}) == [("Invalid", "metadata.name")]
    assert updated(made, changed(old, "spec.finalizers", []), old)["spec"] == old["spec"]
    assert updated(made, changed(old, "metadata.labels", {}), old)["metadata"]["labels"] == old["metadata"]["labels"]
    assert "finalizers" not in updated(made, changed(old, "spec.finalizers", []), old, "finalize")["spec"]
    assert refused_update(made, changed(old, "spec.finalizers", ["x"]), old, "finalize") == [
        ("Invalid", "spec.finalizers")
    ]
    assert made.selectable(old) == {"status.phase": "Active"}


META = {"name": "x", "namespace": "default"}


def test_config_maps() -> None:
    made = strategy("configmaps")
    old = created(made, {"metadata": META, "data": {"a.b": "text"}, "binaryData": {"c": "AAE="}})
    assert refused_create(made, {"metadata": META, "data": {"a/b": ""}}) == [("Invalid", "data[a/b]")]
    assert refused_create(made, {"metadata": META, "data": {"a": ""}, "binaryData": {"a": ""}}) == [
        ("Invalid", "binaryData[a]")
    ]
    assert refused_create(made, {"metadata": META, "data": {"a": "x" * (1024 * 1024 + 1)}}) == [("TooLong", "")]
    sealed = updated(made, {**old, "immutable": True}, old)
    assert refused_update(made, changed(sealed, "data.a", "other"), sealed) == [("Forbidden", "data")]
    assert refused_update(made, changed(sealed, "immutable", REMOVED), sealed) == [("Forbidden", "immutable")]
    assert updated(made, changed(sealed, "metadata.labels", {"a": "b"}), sealed)["data"] == {"a.b": "text"}


def test_secrets() -> None:
    made = strategy("secrets")
    old = created(made, {"metadata": META, "data": {"a": "AAE="}, "stringData": {"b": "text"}})
    assert (old["data"], old["type"]) == ({"a": "AAE=", "b": "dGV4dA=="}, "Opaque")
    assert "stringData" not in old
    assert refused_update(made, changed(old, "type", "a.com/x"), old) == [("Invalid", "type")]
    assert refused_create(made, {"metadata": META, "data": {"": "AAE="}}) == [("Invalid", "data[]")]
    assert made.selectable(old) == {"type": "Opaque"}


def test_leases() -> None:
    made = strategy("leases")
    body = {"metadata": META, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0}}
    old = created(made, body)
    assert old["spec"] == body["spec"] and "generation" not in old["metadata"]
    assert refused_update(made, changed(old, "spec.leaseDurationSeconds", 0), old) == [
        ("Invalid", "spec.leaseDurationSeconds")
    ]
    assert refused_create(made, changed(body, "spec.leaseTransitions", -1)) == [("Invalid", "spec.leaseTransitions")]
    assert refused_create(made, changed(body, "spec.preferredHolder", "b")) == [("Forbidden", "spec.preferredHolder")]


# -- events -------------------------------------------------------------------------------------------------------


def new_event() -> Object:
    regarding = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "namespace": "default", "name": "c1"}
    return {
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "dds",
        "reportingInstance": "dds-0",
        "action": "Attach",
        "reason": "AttachOrdered",
        "type": "Normal",
        "note": "n",
        "regarding": regarding,
    }


def test_events_are_kept_in_the_words_of_the_core_group() -> None:
    made, core = strategy("events", "events.k8s.io"), strategy("events", "")
    stored = created(made, new_event())
    assert (stored["apiVersion"], stored["message"], stored["reportingComponent"]) == ("v1", "n", "dds")
    assert stored["involvedObject"] == new_event()["regarding"]
    assert made.resource.key == core.resource.key
    assert registry().by_key("events").group == ""
    shown = made.from_storage(stored)
    assert {**new_event(), "metadata": shown["metadata"]}.items() <= shown.items()
    assert (shown["deprecatedSource"], shown["deprecatedFirstTimestamp"]) == ({}, None)
    assert "note" not in core.from_storage(stored) and core.from_storage(stored) is stored
    assert made.to_storage(shown) == stored


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("eventTime", REMOVED, [("Required", "eventTime")]),
        (
            "reportingController",
            "",
            [
                ("Required", "reportingController"),
                ("Invalid", "reportingController"),
                ("Invalid", "reportingController"),
            ],
        ),
        ("reportingInstance", "", [("Required", "reportingInstance")]),
        ("action", "", [("Required", "action")]),
        ("reason", "r" * 129, [("Invalid", "reason")]),
        ("note", "n" * 1025, [("Invalid", "message")]),
        ("type", "Odd", [("Invalid", "type")]),
        ("regarding.namespace", "other", [("Invalid", "involvedObject.namespace")]),
    ],
)
def test_what_a_new_event_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("events", "events.k8s.io"), changed(new_event(), path, value)) == expected


def test_what_an_event_says_never_changes_but_how_often() -> None:
    made = strategy("events", "events.k8s.io")
    old = created(made, new_event())
    again = {**made.from_storage(old), "series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    assert updated(made, again, old)["series"]["count"] == 2
    assert refused_update(made, {**again, "note": "other"}, old) == [("Invalid", "note")]


def test_core_events_have_few_rules() -> None:
    made = strategy("events", "")
    body = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    old = created(made, {**body, "reason": "R", "message": "m", "count": 1})
    assert updated(made, {**old, "count": 2}, old)["count"] == 2
    assert refused_create(made, changed(body, "involvedObject.namespace", "other")) == [
        ("Invalid", "involvedObject.namespace")
    ]
    assert made.selectable(old)["involvedObject.name"] == "p"
    assert strategy("events", "events.k8s.io").selectable(old)["regarding.name"] == "p"


# -- roles --------------------------------------------------------------------------------------------------------

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("plural", "rule", "expected"),
    [
        ("roles", RULE, []),
        ("clusterroles", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, []),
        ("roles", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, [("Invalid", "rules[0].nonResourceURLs")]),
        ("clusterroles", {**RULE, "nonResourceURLs": ["/x"]}, [("Invalid", "rules[0].nonResourceURLs")]),
        ("roles", {**RULE, "verbs": []}, [("Required", "rules[0].verbs")]),
        ("roles", {**RULE, "apiGroups": []}, [("Required", "rules[0].apiGroups")]),
        ("roles", {**RULE, "resources": []}, [("Required", "rules[0].resources")]),
    ],
)
def test_rules(plural: str, rule: Object, expected: list[tuple[str, str]]) -> None:
    meta = {"name": "system:x", **({"namespace": "default"} if plural == "roles" else {})}
    assert refused_create(strategy(plural), {"metadata": meta, "rules": [rule]}) == expected


def test_bindings() -> None:
    made = strategy("clusterrolebindings")
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    old = created(made, body)
    assert old["roleRef"]["apiGroup"] == old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert refused_update(made, changed(old, "roleRef.name", "other"), old) == [("Invalid", "roleRef")]
    for path, value, expected in (
        ("roleRef.kind", "Role", ("NotSupported", "roleRef.kind")),
        ("roleRef.name", "", ("Required", "roleRef.name")),
        ("roleRef.apiGroup", "x", ("NotSupported", "roleRef.apiGroup")),
        ("subjects.0.name", "", ("Required", "subjects[0].name")),
        ("subjects.0.kind", "Robot", ("NotSupported", "subjects[0].kind")),
        ("subjects.0.apiGroup", "x", ("NotSupported", "subjects[0].apiGroup")),
        ("subjects.0", {"kind": "ServiceAccount", "name": "s"}, ("Required", "subjects[0].namespace")),
    ):
        assert refused_create(made, changed(body, path, value)) == [expected]
    local = {**changed(body, "roleRef.kind", "Role"), "metadata": META}
    created(strategy("rolebindings"), local)


# -- classes, taint rules, admin access ---------------------------------------------------------------------------


def test_device_classes() -> None:
    made = strategy("deviceclasses")
    body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": 'device.driver == "d.com"'}}]}}
    old = created(made, body)
    assert old["metadata"]["generation"] == 1
    new = updated(made, changed(old, "spec.extendedResourceName", "example.com/gpu"), old)
    assert new["metadata"]["generation"] == 2
    for name in ("gpu", "kubernetes.io/gpu", "a.b/c/d", "requests.a.com/gpu", ""):
        bad = changed(body, "spec.extendedResourceName", name)
        assert refused_create(made, bad) == [("Invalid", "spec.extendedResourceName")], name
    bad = changed(body, "spec.selectors.0.cel.expression", "device.driver +")
    assert refused_update(made, {**old, "spec": bad["spec"]}, old) == [("Invalid", "spec.selectors[0].cel.expression")]


def test_taint_rules() -> None:
    made = strategy("devicetaintrules")
    body = {
        "metadata": {"name": "t"},
        "spec": {"deviceSelector": {"driver": "d.com"}, "taint": {"key": "k", "effect": "NoExecute"}},
    }
    old = created(made, body)
    assert old["spec"]["taint"]["timeAdded"] == SECOND
    assert old["status"] == {}
    for path, value, expected in (
        ("spec.deviceSelector.driver", "Not_A_Driver", ("Invalid", "spec.deviceSelector.driver")),
        ("spec.deviceSelector.pool", "a//b", ("Invalid", "spec.deviceSelector.pool")),
        ("spec.deviceSelector.device", "a.b", ("Invalid", "spec.deviceSelector.device")),
        ("spec.taint.effect", "", ("Required", "spec.taint.effect")),
        ("spec.taint.key", "", ("Required", "spec.taint.key")),
    ):
        assert refused_create(made, changed(body, path, value)) == [expected]
    created(made, changed(body, "spec.deviceSelector", {}))
    created(made, changed(body, "spec.deviceSelector", REMOVED))
    conditions = [{"type": f"C{n}", "status": "True", "reason": "R", "lastTransitionTime": SECOND} for n in range(9)]
    wanted = changed(old, "status.conditions", conditions)
    assert refused_update(made, wanted, old, "status") == [("TooMany", "status.conditions")]
    assert updated(made, changed(old, "spec.taint.value", "v"), old)["metadata"]["generation"] == 2


def test_a_taint_rules_new_effect_counts_from_now_on() -> None:
    made = strategy("devicetaintrules")
    before = "2026-01-01T00:00:00Z"
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": before}
    old = created(made, {"metadata": {"name": "t"}, "spec": {"taint": taint}})
    for changes, added in (
        ({"effect": "NoExecute"}, SECOND),
        ({"effect": "NoExecute", "timeAdded": "2026-02-01T00:00:00Z"}, "2026-02-01T00:00:00Z"),
        ({"value": "v"}, before),
    ):
        new = updated(made, changed(old, "spec.taint", {**taint, **changes}), old)
        assert new["spec"]["taint"]["timeAdded"] == added


def test_admin_access_needs_a_labelled_namespace() -> None:
    body = changed(claim(), "spec.devices.requests.0.exactly.adminAccess", True)
    plain, labelled = ({"metadata": {"labels": labels}} for labels in ({}, {writing.ADMIN_ACCESS: "true"}))
    assert [cause.field for cause in writing.check_admin_access(body, plain)] == [
        "spec.devices.requests[0].adminAccess"
    ]
    template = {"kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}
    assert [cause.field for cause in writing.check_admin_access(template, None)] == [
        "spec.spec.devices.requests[0].adminAccess"
    ]
    assert writing.check_admin_access(body, labelled) == [] and writing.check_admin_access(allocated(), plain) == []


# -- what may be a name, a key or a value


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_label, ["a", "a-b", "0", "a" * 63], ["", "A", "a.b", "-a", "a-", "a" * 64, "a\n"]),
        (names.dns_subdomain, ["a", "a.b", "n1.example.com"], ["", "a..b", ".a", "a_b", "A", "x" * 254, "a\n"]),
        (
            names.qualified_name,
            ["a", "A.b_c", "example.com/Name"],
            ["", "/a", "a/", "a/b/c", "UP/x", "a b", "x" * 64, "x/" + "y" * 64],
        ),
        (names.label_value, ["", "true", "My_value.1"], ["not valid!", "-a", "a-", "v" * 64, "a\n"]),
        (names.c_identifier, ["memory", "_x", "a1"], ["", "1a", "a-b", "a.b", "ä"]),
        (names.semantic_version, ["1.2.3", "0.0.0", "1.0.0-rc.1+b5"], ["1.2", "v1.2.3", "01.2.3", "1.2.3-", ""]),
        (names.lower_uuid, ["00000000-0000-0000-0000-00000000000a"], ["", "x", "00000000-0000-0000-0000-00000000000A"]),
        (names.config_key, ["a", "a.b-c_D", ".a"], ["", ".", "..", "..a", "a/b", "k" * 254]),
        (names.condition_reason, ["Ready", "A_b,C:D"], ["", "1a", "a b", "a,"]),
        (names.path_segment, ["system:node", "a b"], [".", "..", "a/b", "a%b"]),
    ],
)
def test_syntaxes(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    assert [text for text in good if check(text)] == []
    assert [text for text in bad if not check(text)] == []


def test_words_are_a_real_servers() -> None:
    assert names.label_value("not valid!") == (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
        "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    )
