"""Admission policies on examples: what our components do passes, what they must not do is refused, others are let be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dds_adapters.kubernetes.watch.watch_spec import DRA, OPERATOR
from dds_core.model import FAILED_CONDITION, RESCHEDULE
from tests.project.deploy import test_admission_autoscaler, test_admission_publisher
from tests.project.deploy.admission import (
    ACCOUNT,
    AUTOSCALER_ACCOUNT,
    PUBLISHER_ACCOUNT,
    Asked,
    Object,
    denials,
    policies,
)
from tests.project.deploy.permitted import objects
from tests.support.served import client_of, new_server

Change = Callable[[Object], Any]
KEY = {"driver": "gpu.nvidia.com", "pool": "fabric-1", "device": "gpu-0"}
FOREIGN = {"driver": "nic.example.com", "pool": "node1", "device": "nic-0"}


def _condition(type: str, status: str = "True") -> Object:
    return {"type": type, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-11-21T10:00:00Z"}


POD: Object = {
    "metadata": {"name": "train", "labels": {"app": "train"}, "resourceVersion": "7"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
}
NODE: Object = {
    "metadata": {
        "name": "node1",
        "labels": {"cohdi.io/fabric": "1", "cohdi.io/a100-size-max": "4", "cohdi.io/a100": "true", "zone": "a"},
        "annotations": {"note": "x"},
    },
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {"capacity": {"cpu": "4"}},
}
CLAIM: Object = {
    "metadata": {
        "name": "train-gpu",
        "namespace": "default",
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    },
    "spec": {"devices": {"requests": [{"name": "gpu"}]}},
    "status": {
        "allocation": {"devices": {"results": [{**KEY, "request": "gpu"}, {**FOREIGN, "request": "nic"}]}},
        "devices": [{**FOREIGN, "networkData": {"ips": ["10.1.1.1/24"]}, "conditions": [_condition("Ready")]}],
    },
}
NODE_POOL = {"driver": "gpu.nvidia.com", "pool": "node1", "device": "gpu-3"}
SELECTOR = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}]}
PODS = [{"resource": "pods", "name": "train", "uid": "u1"}]
WAITS: Object = {
    **CLAIM,
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {**KEY, "request": "gpu", "bindingConditions": ["FabricDeviceReady"]},
                    {**FOREIGN, "request": "nic"},
                ]
            },
            "nodeSelector": SELECTOR,
        },
        "reservedFor": PODS,
    },
}
"""A claim whose pod waits for a device of the pool, reserved for it."""
FREE: Object = {**CLAIM, "status": {}}
"""The same with its allocation cleared."""
PROBE: Object = {**FREE, "metadata": {"name": "dds-probe", "namespace": "composable-dra"}}
ADMIN: Object = {**FREE, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"adminAccess": True}}]}}}
RESOURCE: Object = {
    "metadata": {"name": "gpu-1", "annotations": {"cohdi.io/last-used-time": "a", "other": "x"}, "labels": {"a": "b"}},
    "spec": {"type": "gpu", "model": "A100", "target_node": "node1"},
    "status": {"state": "Online"},
}
REQUEST: Object = {
    "metadata": {"name": "dds-node1", "labels": {"app.kubernetes.io/managed-by": "dds"}},
    "spec": {"resource": {"type": "gpu", "model": "A100", "size": 1, "target_node": "node1"}},
}
BELONGS = [{"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "name": "gpu-1", "uid": "u2"}]
FREE_HOLD: Object = {
    "metadata": {
        "name": "dds-hold-gpu-1",
        "namespace": "composable-dra",
        "labels": {"app.kubernetes.io/managed-by": "dds"},
        "ownerReferences": BELONGS,
    },
    "spec": {"devices": {"requests": [{"name": "gpu"}]}},
}
"""A claim of ours for a device that is to go back, before it holds it."""


def _signalled(claim: Object) -> Object:
    after = copy.deepcopy(claim)
    after["status"]["devices"].append({**KEY, "conditions": [_condition(RESCHEDULE)]})
    return after


def _cleared(claim: Object) -> None:
    del claim["status"]["allocation"]
    del claim["status"]["devices"]


def _given(*more: Object, selector: Any = SELECTOR, **fields: Any) -> Object:
    """A status with the node's device in place of the pool's."""
    results = [{**NODE_POOL, "request": "gpu", **fields}, *more]
    where = {"nodeSelector": selector} if selector else {}
    return {"allocation": {"devices": {"results": results}, **where}, "reservedFor": PODS}


def _hold(**metadata: Any) -> Object:
    """The claim with other metadata, None for none."""
    given = {key: value for key, value in {**FREE_HOLD["metadata"], **metadata}.items() if value is not None}
    return {**FREE_HOLD, "metadata": given}


def _held(**metadata: Any) -> Object:
    """The claim as it holds the device."""
    return {**_hold(**metadata), "status": HOLDS}


def _sets(status: Object, was: Object = FREE, **more: Any) -> Asked:
    return _asked("resourceclaims/status", was, _set("status", to=status), DRA, **more)


RESERVED = [{"apiGroup": "cro.hpsys.ibm.ie.com", "resource": "composableresources", "name": "gpu-1", "uid": "u2"}]
HOLDS: Object = {**_given(), "reservedFor": RESERVED}


def _term(**field: Any) -> Object:
    """A selector of one term with one field, part of it replaced."""
    return {"nodeSelectorTerms": [{"matchFields": [{**SELECTOR["nodeSelectorTerms"][0]["matchFields"][0], **field}]}]}


def _set(*path: str | int, to: Any) -> Change:
    """A change that sets what is at a path, making maps on the way."""

    def change(one: Object) -> None:
        here: Any = one
        for step in path[:-1]:
            here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
        here[path[-1]] = to

    return change


def _without(*path: str | int) -> Change:
    def change(one: Object) -> None:
        here: Any = one
        for step in path[:-1]:
            here = here[step]
        del here[path[-1]]

    return change


def _condition_on_foreign(type: str) -> Change:
    return lambda claim: claim["status"]["devices"][0]["conditions"].append(_condition(type))


def _asked(resource: str, was: Object, change: Change, group: str = "", **more: Any) -> Asked:
    after = copy.deepcopy(was)
    change(after)
    after["metadata"]["managedFields"] = [{"manager": "dds"}]
    after["metadata"]["resourceVersion"] = "8"
    return Asked(resource, after, was, group, **more)


def _resource(change: Change) -> Asked:
    return _asked("composableresources", RESOURCE, change, OPERATOR)


def _request(change: Change) -> Asked:
    return _asked("composabilityrequests", REQUEST, change, OPERATOR)


ALLOWED: dict[str, Asked] = {
    "nominate": _asked("pods/status", POD, _set("status", "nominatedNodeName", to="node1")),
    "nominate a pod without a status": _asked("pods/status", {**POD, "status": {}}, _set("status", "nominatedNodeName", to="n")),
    "take a nomination back": _asked(
        "pods/status", {**POD, "status": {"phase": "Pending", "nominatedNodeName": "n"}}, _without("status", "nominatedNodeName")
    ),
    "a pool label": _asked("nodes", NODE, _set("metadata", "labels", "cohdi.io/h100", to="true")),
    "a ready label": _asked("nodes", NODE, _set("metadata", "labels", "cohdi.io/a100-ready", to="true")),
    "a label that asks the publisher to close a pool": _asked(
        "nodes", NODE, _set("metadata", "labels", "cohdi.io/a100-cooling", to="true")
    ),
    "a pool label off": _asked("nodes", NODE, _without("metadata", "labels", "cohdi.io/a100")),
    "a node's first label": _asked("nodes", {"metadata": {"name": "n"}}, _set("metadata", "labels", "cohdi.io/a", to="true")),
    "a signal": Asked("resourceclaims/status", _signalled(CLAIM), CLAIM, DRA),
    "the first entry of a claim": _asked(
        "resourceclaims/status", {**CLAIM, "status": {"allocation": CLAIM["status"]["allocation"]}},
        _set("status", "devices", to=[{**KEY, "conditions": [_condition(FAILED_CONDITION)]}]), DRA,
    ),
    "our condition beside another's": _asked("resourceclaims/status", CLAIM, _condition_on_foreign(RESCHEDULE), DRA),
    "our entry away again": Asked("resourceclaims/status", CLAIM, _signalled(CLAIM), DRA),
    "clear what was signalled": _asked("resourceclaims/status", _signalled(CLAIM), _cleared, DRA),
    "clear what waits, with its reservations": _asked("resourceclaims/status", WAITS, _set("status", to={}), DRA),
    "clear what waits and is not reserved": _asked(
        "resourceclaims/status", {**WAITS, "status": {"allocation": WAITS["status"]["allocation"]}}, _set("status", to={}), DRA
    ),
    "give the node's device": _sets(_given()),
    "give it beside another's device": _sets(_given({**FOREIGN, "request": "nic"})),
    "give it to a claim that never had a status": _sets(_given(), {key: CLAIM[key] for key in ("metadata", "spec")}),
    "give a share of it": _sets(_given(shareID="0f1e2d3c-0000-4000-8000-000000000001")),
    "give it to an administrator's request": _sets(_given(adminAccess=True), ADMIN),
    "give it to an administrator's request of v1beta1": _sets(
        _given(adminAccess=True), {**ADMIN, "spec": {"devices": {"requests": [{"name": "gpu", "adminAccess": True}]}}}
    ),
    "try a guard": _sets(_given(), PROBE, dry=True),
    "try the guard of a device that is of no node": _sets(_given(pool="rack/1", selector=None), PROBE, dry=True),
    "mark": _resource(_set("metadata", "annotations", "cohdi.io/delete-device", to="true")),
    "stamp": _resource(_set("metadata", "annotations", "cohdi.io/last-used-time", to="b")),
    "look": _resource(_set("metadata", "annotations", "dds.cohdi.io/look", to="b")),
    "stamp away": _resource(_without("metadata", "annotations", "cohdi.io/last-used-time")),
    "order": Asked("composabilityrequests", REQUEST, None, OPERATOR),
    "raise": _request(_set("spec", "resource", "size", to=3)),
    "make a hold": Asked("resourceclaims", FREE_HOLD, None, DRA),
    "hold a device": _sets(HOLDS, FREE_HOLD),
    "hold all faces of a device": _sets(
        {**_given({**NODE_POOL, "device": "gpu-3-part", "request": "gpu"}), "reservedFor": RESERVED}, FREE_HOLD
    ),
    "clear a hold": _asked("resourceclaims/status", _held(), _set("status", to={}), DRA),
    "clear a hold that is not reserved": _asked(
        "resourceclaims/status", {**FREE_HOLD, "status": {"allocation": HOLDS["allocation"]}}, _set("status", to={}), DRA
    ),
    "delete a hold": Asked("resourceclaims", None, FREE_HOLD, DRA),
    "delete a hold that was not cleared": Asked("resourceclaims", None, _held(), DRA),
    "epoch": _request(_set("metadata", "annotations", "cohdi.io/epoch", to="4")),
}  # fmt: skip

DENIED: dict[str, tuple[Asked, str]] = {
    "a hold without our label": (Asked("resourceclaims", _hold(labels=None), None, DRA), "managed-by"),
    "a hold in another's name": (
        Asked("resourceclaims", _hold(labels={"app.kubernetes.io/managed-by": "helm"}), None, DRA), "managed-by",
    ),
    "a hold of no device": (Asked("resourceclaims", _hold(ownerReferences=None), None, DRA), "belongs to a ComposableResource"),
    "a hold of a pod": (
        Asked("resourceclaims", _hold(ownerReferences=[{**BELONGS[0], "kind": "Pod"}]), None, DRA),
        "belongs to a ComposableResource",
    ),
    "a user's claim away": (Asked("resourceclaims", None, CLAIM, DRA), "managed-by"),
    "another's claim of our namespace away": (Asked("resourceclaims", None, _held(labels={"a": "b"}), DRA), "managed-by"),
    "clear a hold that is elsewhere": (
        _asked("resourceclaims/status", _held(namespace="default"), _set("status", to={}), DRA), "may clear only",
    ),
    "clear another's claim of our namespace": (
        _asked("resourceclaims/status", _held(labels=None), _set("status", to={}), DRA), "may clear only",
    ),
    "make a claim a hold as it is cleared": (
        _asked("resourceclaims/status", _held(labels=None), lambda c: c.update(
            status={}, metadata={**c["metadata"], "labels": FREE_HOLD["metadata"]["labels"]}), DRA), "not change spec, labels",
    ),
    "clear a hold and reserve it": (
        _asked("resourceclaims/status", _held(), _set("status", to={"reservedFor": PODS}), DRA),
        "only as it clears its allocation",
    ),
    "reserve a hold for nobody": (
        _asked("resourceclaims/status", _held(), _without("status", "reservedFor"), DRA), "only as it clears its allocation",
    ),
    "reserve a hold for a pod": (
        _asked("resourceclaims/status", _held(), _set("status", "reservedFor", to=PODS), DRA), "only as it clears its allocation",
    ),
    "hold another device": (
        _asked("resourceclaims/status", _held(),
               _set("status", "allocation", "devices", "results", 0, "device", to="gpu-7"), DRA),
        "may not change an allocation that is set",
    ),
    "hold another node's device": (_sets(_given(pool="node2"), FREE_HOLD), "only with a device of that node"),
    "a pod's phase": (_asked("pods/status", POD, _set("status", "phase", to="Failed")), "nominatedNodeName"),
    "a pod's conditions": (_asked("pods/status", POD, _set("status", "conditions", to=[])), "nominatedNodeName"),
    "a pod's conditions away": (_asked("pods/status", POD, _without("status", "conditions")), "nominatedNodeName"),
    "another field of the status": (_asked("pods/status", POD, _set("status", "hostIP", to="10.0.0.1")), "nominatedNodeName"),
    "a pod's labels": (_asked("pods/status", POD, _set("metadata", "labels", "app", to="x")), "labels"),
    "a pod's spec": (_asked("pods", POD, _set("spec", "containers", to=[])), "spec"),
    "the fabric's label": (_asked("nodes", NODE, _set("metadata", "labels", "cohdi.io/fabric", to="2")), "labels of a node"),
    "the fabric's label away": (_asked("nodes", NODE, _without("metadata", "labels", "cohdi.io/fabric")), "labels of a node"),
    "a limit": (_asked("nodes", NODE, _set("metadata", "labels", "cohdi.io/a100-size-max", to="9")), "labels of a node"),
    "a new limit": (_asked("nodes", NODE, _set("metadata", "labels", "cohdi.io/h100-size-min", to="9")), "labels of a node"),
    "another's label": (_asked("nodes", NODE, _set("metadata", "labels", "zone", to="b")), "labels of a node"),
    "another's label away": (_asked("nodes", NODE, _without("metadata", "labels", "zone")), "labels of a node"),
    "a prefix that only begins alike": (
        _asked("nodes", NODE, _set("metadata", "labels", "cohdi.io.example/a", to="b")), "labels of a node",
    ),
    "cordon": (_asked("nodes", NODE, _set("spec", "unschedulable", to=True)), "nothing of a node but its labels"),
    "taint": (_asked("nodes", NODE, _set("spec", "taints", to=[{"key": "a"}])), "nothing of a node but its labels"),
    "annotate a node": (_asked("nodes", NODE, _set("metadata", "annotations", "note", to="y")), "nothing of a node"),
    "a node's capacity": (_asked("nodes/status", NODE, _set("status", "capacity", "cpu", to="8")), "nothing of a node"),
    "another's condition": (
        _asked("resourceclaims/status", CLAIM, _condition_on_foreign("Healthy"), DRA), "set no conditions on devices but",
    ),
    "another's condition on our device": (
        _asked("resourceclaims/status", _signalled(CLAIM), lambda c: c["status"]["devices"][1]["conditions"].append(
            _condition("Ready")), DRA), "set no conditions on devices but",
    ),
    "another's condition changed": (
        _asked("resourceclaims/status", CLAIM, _set("status", "devices", 0, "conditions", 0, "status", to="False"), DRA),
        "set no conditions on devices but",
    ),
    "network data": (
        _asked("resourceclaims/status", CLAIM, _set("status", "devices", 0, "networkData", to={"ips": []}), DRA), "networkData",
    ),
    "data of our device": (
        _asked("resourceclaims/status", _signalled(CLAIM), _set("status", "devices", 1, "data", to={"a": 1}), DRA), "networkData",
    ),
    "another's condition away": (
        _asked("resourceclaims/status", CLAIM, _set("status", "devices", 0, "conditions", to=[]), DRA), "take away",
    ),
    "another's entry away": (_asked("resourceclaims/status", CLAIM, _without("status", "devices", 0), DRA), "take away"),
    "all entries away": (_asked("resourceclaims/status", CLAIM, _without("status", "devices"), DRA), "take away"),
    "clear what nobody signalled": (_asked("resourceclaims/status", CLAIM, _cleared, DRA), "may clear only"),
    "clear what was only failed": (
        _asked("resourceclaims/status", {**CLAIM, "status": {**CLAIM["status"], "devices": [
            {**KEY, "conditions": [_condition(FAILED_CONDITION), _condition(RESCHEDULE, "False")]}]}}, _cleared, DRA),
        "may clear only",
    ),
    "clear by a signal on a device that is not allocated": (
        _asked("resourceclaims/status", {**CLAIM, "status": {**CLAIM["status"], "devices": [
            {**KEY, "device": "gpu-9", "conditions": [_condition(RESCHEDULE)]}]}}, _cleared, DRA),
        "may clear only",
    ),
    "the whole status away": (_asked("resourceclaims/status", CLAIM, _without("status"), DRA), "may clear only"),
    "allocate without a node": (_sets(CLAIM["status"]), "only for a single node"),
    "allocate for any node": (_sets(_given(selector={"nodeSelectorTerms": []})), "only for a single node"),
    "allocate for two nodes": (
        _sets(_given(selector={"nodeSelectorTerms": SELECTOR["nodeSelectorTerms"] * 2})), "only for a single node",
    ),
    "allocate for one of two nodes": (_sets(_given(selector=_term(values=["node1", "node2"]))), "only for a single node"),
    "allocate for other nodes": (_sets(_given(selector=_term(operator="NotIn"))), "only for a single node"),
    "allocate by a label": (_sets(_given(selector=_term(key="zone"))), "only for a single node"),
    "allocate by a label beside the name": (
        _sets(_given(selector={"nodeSelectorTerms": [{**SELECTOR["nodeSelectorTerms"][0], "matchExpressions": [{"key": "a"}]}]})),
        "only for a single node",
    ),
    "another node's device": (_sets(_given(pool="node2")), "only with a device of that node"),
    "a device of a driver that is not ours": (_sets(_given(driver="nic.example.com")), "of one of its own drivers"),
    "a device of a pool": (_sets(_given(**KEY)), "only with a device of that node"),
    "an administrator's access that nobody asked for": (_sets(_given(adminAccess=True)), "only to a request that asks for it"),
    "an administrator's access of another request": (
        _sets(_given({**NODE_POOL, "request": "other", "adminAccess": True}), ADMIN), "only to a request that asks for it",
    ),
    "allocate the probe in earnest": (_sets(_given(), PROBE), "only as a dry run"),
    "a probe of another namespace": (
        _sets(_given(selector=None), {**PROBE, "metadata": {"name": "dds-probe", "namespace": "default"}}, dry=True),
        "only for a single node",
    ),
    "another device in place": (
        _asked("resourceclaims/status", _signalled(CLAIM),
               _set("status", "allocation", "devices", "results", 0, "device", to="gpu-7"), DRA),
        "may not change an allocation that is set",
    ),
    "exchange in one write": (_sets(_given(), WAITS), "may not change an allocation that is set"),
    "clear the reservations alone": (
        _asked("resourceclaims/status", WAITS, _without("status", "reservedFor"), DRA), "only as it clears its allocation",
    ),
    "clear an allocation that is ready, with its reservations": (
        _asked("resourceclaims/status", {**CLAIM, "status": _given()}, _set("status", to={}), DRA), "may clear only",
    ),
    "clear and leave a reservation": (
        _asked("resourceclaims/status", WAITS, _set("status", to={"reservedFor": [*PODS, *PODS]}), DRA),
        "only as it clears its allocation",
    ),
    "clear and annotate": (
        _asked("resourceclaims/status", WAITS, lambda c: c.update(
            status={}, metadata={**c["metadata"], "annotations": {"a": "b"}}), DRA), "annotations",
    ),
    "give a device and a condition of another": (
        _sets({**_given(), "devices": [{**NODE_POOL, "conditions": [_condition("Ready")]}]}), "set no conditions on devices but",
    ),
    "reserve": (
        _asked("resourceclaims/status", CLAIM, _set("status", "reservedFor", to=[{"resource": "pods", "name": "x"}]), DRA),
        "reserved",
    ),
    "a reservation of a claim without an allocation": (
        _asked("resourceclaims/status", FREE, _set("status", "reservedFor", to=PODS), DRA), "only as it clears its allocation",
    ),
    "a claim's finalizer": (_asked("resourceclaims/status", CLAIM, _set("metadata", "finalizers", to=[]), DRA), "finalizers"),
    "a claim's spec": (_asked("resourceclaims", CLAIM, _set("spec", "devices", to={}), DRA), "spec"),
    "another annotation": (
        _resource(_set("metadata", "annotations", "other", to="y")), "annotations of a",
    ),
    "another annotation away": (
        _resource(_without("metadata", "annotations", "other")), "annotations of a",
    ),
    "a resource's node": (
        _resource(_set("spec", "target_node", to="node2")), "nothing of a ComposableResource",
    ),
    "a resource's labels": (
        _resource(_set("metadata", "labels", "a", to="c")), "nothing of a ComposableResource",
    ),
    "an order in nobody's name": (
        Asked("composabilityrequests", {**REQUEST, "metadata": {"name": "x"}}, None, OPERATOR), "carries its label",
    ),
    "an order in another's name": (
        Asked("composabilityrequests", {**REQUEST, "metadata": {"name": "x", "labels": {"app.kubernetes.io/managed-by": "a"}}},
              None, OPERATOR), "carries its label",
    ),
    "a request's node": (
        _request(_set("spec", "resource", "target_node", to="node2")), "but its size",
    ),
    "force a detach": (
        _request(_set("spec", "resource", "force_detach", to=True)), "but its size",
    ),
    "take a request over": (
        _asked("composabilityrequests", {**REQUEST, "metadata": {"name": "x"}},
               _set("metadata", "labels", to={"app.kubernetes.io/managed-by": "dds"}), OPERATOR), "but its size",
    ),
}  # fmt: skip


EXAMPLES = {
    ACCOUNT: (ALLOWED, DENIED),
    PUBLISHER_ACCOUNT: (test_admission_publisher.ALLOWED, test_admission_publisher.DENIED),
    AUTOSCALER_ACCOUNT: (test_admission_autoscaler.ALLOWED, test_admission_autoscaler.DENIED),
}
"""Of each component."""
accounts = pytest.mark.parametrize("account", EXAMPLES, ids=["scaler", "publisher", "autoscaler"])
some_denied = pytest.mark.parametrize(
    ("asked", "words"), [pytest.param(*one, id=name) for _, denied in EXAMPLES.values() for name, one in denied.items()]
)


@pytest.mark.parametrize(
    "asked", [pytest.param(one, id=name) for allowed, _ in EXAMPLES.values() for name, one in allowed.items()]
)
def test_what_it_does_passes(asked: Asked) -> None:
    assert denials(asked) == []


@some_denied
def test_what_it_must_never_do_is_refused(asked: Asked, words: str) -> None:
    found = denials(asked)
    assert any(words in message for message in found), found


@some_denied
def test_others_are_left_alone(asked: Asked, words: str) -> None:
    assert denials(replace(asked, user="system:serviceaccount:composable-dra:other")) == []


def test_taint_rules_are_only_watched() -> None:
    verbs = {
        verb
        for one in objects("rbac.yaml")
        for rule in one.get("rules", ())
        if "devicetaintrules" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"list", "watch"}


@accounts
def test_every_validation_refuses_something(account: str) -> None:
    messages = {one["message"] for policy in policies(account) for one in policy["spec"]["validations"]}
    assert {message for asked, _ in EXAMPLES[account][1].values() for message in denials(asked)} == messages


@accounts
def test_a_server_takes_them_and_they_fail_closed_for_one_account_alone(account: str) -> None:
    admin = client_of(new_server())
    for policy in policies(account):
        admin.create("validatingadmissionpolicies", policy)
        spec = policy["spec"]
        assert spec["failurePolicy"] == "Fail"
        (condition,) = spec["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{account}'"


def test_the_largest_claim_is_judged() -> None:
    """32 devices with 8 conditions each, which is the most that a claim can have: nothing runs into the bound on iterations."""
    keys = [{**KEY, "device": f"gpu-{number}"} for number in range(32)]
    was: Object = copy.deepcopy(CLAIM)
    was["status"]["allocation"]["devices"]["results"] = [{**key, "request": "gpu"} for key in keys]
    was["status"]["devices"] = [{**key, "conditions": [_condition(f"T{n}") for n in range(7)]} for key in keys]
    after = copy.deepcopy(was)
    for entry in after["status"]["devices"]:
        entry["conditions"].append(_condition(RESCHEDULE))
    assert denials(Asked("resourceclaims/status", after, was, DRA)) == []
    after["status"]["devices"][31]["conditions"][0]["status"] = "False"
    assert denials(Asked("resourceclaims/status", after, was, DRA)) != []


def test_the_largest_exchange_is_judged() -> None:
    """32 requests with an administrator's device each."""
    requests = [{"name": f"r{number}", "exactly": {"adminAccess": True}} for number in range(32)]
    was = {**FREE, "spec": {"devices": {"requests": requests}}}
    results = [{**NODE_POOL, "request": f"r{number}", "adminAccess": True} for number in range(32)]
    given = _sets({"allocation": {"devices": {"results": results}, "nodeSelector": SELECTOR}}, was)
    assert denials(given) == []
