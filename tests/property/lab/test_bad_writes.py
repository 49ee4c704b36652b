"""The server never dies of a write: objects of every kind, bent somewhere, are created, replaced and patched in all four ways.

What comes back is the object or a Status with a code that a real server gives; an answer of 500 is one of the few for which
a real server has no kind of error either. Nothing that is refused changes anything; what is taken is understood when it is read
again, and changes only the part (spec or status) whose path it came by.
"""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import ApiError, Client, Object
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from dds_lab.time import VirtualTime
from tests.support.drawn import examples

DRA = "resource.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
CRO = "cro.hpsys.ibm.ie.com/v1alpha1"
DEVICES: Object = {
    "requests": [
        {
            "name": "a",
            "exactly": {"deviceClassName": "g", "selectors": [{"cel": {"expression": "device.driver == 'd.x'"}}]},
        },
        {"name": "b", "firstAvailable": [{"name": "s", "deviceClassName": "g", "count": 2}]},
    ],
    "constraints": [{"requests": ["a"], "matchAttribute": "d.x/numa"}],
    "config": [{"requests": ["a"], "opaque": {"driver": "d.x", "parameters": {"k": [1]}}}],
}
RESULT: Object = {
    "request": "a", "driver": "d.x", "pool": "p", "device": "one", "bindingConditions": ["R"],
    "bindingFailureConditions": ["F"], "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
}  # fmt: skip
CONDITION: Object = {
    "type": "R", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
SLICE: Object = {
    "driver": "d.x",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]},
    "devices": [
        {
            "name": "one", "attributes": {"model": {"string": "m"}, "n": {"int": 1}, "v": {"version": "1.0.0"}},
            "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "allowMultipleAllocations": True,
            "bindingConditions": ["R"], "bindingFailureConditions": ["F"], "bindsToNode": True,
        }
    ],
}  # fmt: skip
POD: Object = {
    "containers": [{
        "name": "c", "image": "i", "env": [{"name": "e", "value": "v"}], "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}, "claims": [{"name": "d"}]},
    }],
    "resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}},
}  # fmt: skip
CRD = copy.deepcopy(COMPOSABLE_RESOURCES)
CRD["metadata"]["name"] = "things.example.com"
CRD["spec"] |= {"group": "example.com", "names": {"kind": "Thing", "plural": "things"}}


def kind(api_version: str, name: str, namespaced: bool = True, **parts: Any) -> Object:
    metadata: Object = {"name": "x", "labels": {"l": "1"}, "annotations": {"a/b": "2"}}
    if namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": api_version, "kind": name, "metadata": metadata, **parts}


RULE: Object = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["n"]}
ROLE_REF: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}
SUBJECT: Object = {"kind": "ServiceAccount", "name": "s", "namespace": "default"}
ABOUT: Object = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"}
KINDS: dict[str, Object] = {
    "resourceclaims": kind(DRA, "ResourceClaim", spec={"devices": DEVICES}),
    "resourceclaimtemplates": kind(DRA, "ResourceClaimTemplate", spec={"spec": {"devices": DEVICES}}),
    "resourceslices": kind(DRA, "ResourceSlice", False, spec=SLICE),
    "deviceclasses": kind(DRA, "DeviceClass", False, spec={"selectors": [{"cel": {"expression": "true"}}]}),
    "devicetaintrules": kind(
        "resource.k8s.io/v1beta2", "DeviceTaintRule", False,
        spec={"deviceSelector": {"driver": "d.x"}, "taint": {"key": "k", "effect": "NoExecute"}},
    ),
    "pods": kind("v1", "Pod", spec=POD),
    "nodes": kind("v1", "Node", False, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
    "namespaces": kind("v1", "Namespace", False),
    "configmaps": kind("v1", "ConfigMap", data={"k": "v"}, binaryData={"b": "aGk="}),
    "secrets": kind("v1", "Secret", data={"k": "aGk="}, type="Opaque"),
    "serviceaccounts": kind("v1", "ServiceAccount", secrets=[{"name": "s"}]),
    "events": kind("v1", "Event", involvedObject=ABOUT, reason="R", message="m", type="Normal"),
    "events.events.k8s.io": kind(
        "events.k8s.io/v1",
        "Event", regarding=ABOUT, reason="R", note="n", type="Normal", action="A",
        reportingController="x.y/z", reportingInstance="i", eventTime="2026-01-01T00:00:00.000000Z",
    ),
    "leases": kind("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "h", "leaseDurationSeconds": 15}),
    "clusterroles": kind(RBAC, "ClusterRole", False, rules=[RULE]),
    "roles": kind(RBAC, "Role", rules=[RULE]),
    "clusterrolebindings": kind(RBAC, "ClusterRoleBinding", False, subjects=[SUBJECT], roleRef=ROLE_REF),
    "rolebindings": kind(RBAC, "RoleBinding", subjects=[SUBJECT], roleRef=ROLE_REF),
    "customresourcedefinitions": CRD,
    "composabilityrequests": kind(
        CRO, "ComposabilityRequest", False,
        spec={"resource": {"type": "gpu", "model": "m", "size": 1, "other_spec": {"memory": 1}}},
    ),
    "composableresources": kind(
        CRO, "ComposableResource", False, spec={"type": "gpu", "model": "m", "target_node": "n"}
    ),
}  # fmt: skip
STATUSES: dict[str, Object] = {
    "resourceclaims": {
        "allocation": {"devices": {"results": [RESULT]}, "nodeSelector": SLICE["nodeSelector"]},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [{"driver": "d.x", "pool": "p", "device": "one", "conditions": [CONDITION], "data": {"k": 1}}],
    },
    "pods": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "nominatedNodeName": "n"},
    "nodes": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    "namespaces": {"phase": "Active"},
    "customresourcedefinitions": {"conditions": [], "storedVersions": ["v1alpha1"]},
    "composabilityrequests": {"state": "Running", "resources": {"r": {"state": "Online"}}},
    "composableresources": {"state": "Online", "device_id": "GPU-1"},
    "devicetaintrules": {"conditions": [CONDITION]},
}

REVIEWS: dict[str, Object] = {
    "selfsubjectaccessreviews": kind(
        "authorization.k8s.io/v1", "SelfSubjectAccessReview", False,
        spec={"resourceAttributes": {"verb": "get", "resource": "pods"}},
    ),
    "subjectaccessreviews": kind(
        "authorization.k8s.io/v1", "SubjectAccessReview", False,
        spec={"user": "u", "groups": ["g"], "nonResourceAttributes": {"verb": "get", "path": "/x"}},
    ),
    "tokenreviews": kind("authentication.k8s.io/v1", "TokenReview", False, spec={"token": "t"}),
}  # fmt: skip

NAMES = [
    "metadata",
    "spec",
    "status",
    "labels",
    "name",
    "uid",
    "resourceVersion",
    "type",
    "devices",
    "items",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "x",
]
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.just(2**70), st.floats(-2, 2, width=16),
    st.sampled_from(["", "x", "delete", "\x00", "2026-01-01T00:00:00Z", "1Gi", "-1", "device.", "a" * 300, "é"]),
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)),
    max_leaves=8,
)

POINTERS = st.lists(st.sampled_from([*NAMES, "0", "-", "-1", "9" * 30]), max_size=4).map(
    lambda parts: "".join("/" + part.replace("/", "~1") for part in parts)
)
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": POINTERS},
    optional={"value": ANYTHING, "from": POINTERS},
)


def bent(draw: st.DrawFn, value: Any) -> Any:
    """The value with something else somewhere in it: another value, nothing, or an entry twice."""
    if isinstance(value, dict) and value and draw(st.integers(0, 6)):
        name = draw(st.sampled_from(sorted(value)))
        how = draw(st.integers(0, 9))
        if how == 0:
            return {key: below for key, below in value.items() if key != name}
        if how == 1:
            return {**value, draw(st.sampled_from(NAMES)): draw(ANYTHING)}
        return {**value, name: bent(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 6)):
        at = draw(st.integers(0, len(value) - 1))
        again = [value[at]] if draw(st.booleans()) else []
        return [*value[:at], bent(draw, value[at]), *value[at + 1 :], *again]
    return draw(ANYTHING)


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, str, str, Any]:
    """(how, plural, subresource, body)"""
    if draw(st.integers(0, 9)) == 0:
        plural = draw(st.sampled_from(sorted(REVIEWS)))
        return "create", plural, "", bent(draw, REVIEWS[plural])
    plural = draw(st.sampled_from(sorted(KINDS)))
    how = draw(st.sampled_from(["create", "update", "merge", "strategic", "apply", "json"]))
    body: Any = KINDS[plural]
    if how == "json":
        return how, plural, "", draw(st.one_of(st.lists(OPERATION, max_size=3), ANYTHING))
    subresource = "status" if plural in STATUSES and how != "create" and draw(st.booleans()) else ""
    if subresource:
        body = {**body, "status": bent(draw, STATUSES[plural])}
    for _ in range(draw(st.integers(0 if subresource else 1, 2))):
        body = bent(draw, body) if isinstance(body, dict) else body
    return how, plural, subresource, body


def served() -> Client:
    time = VirtualTime(1, 1_795_219_200_000_000)
    gates = Gates.for_version("1.36", served=("resource.k8s.io/v1beta2",))
    server = ApiServer(gates=gates, now=time.now, random=time.random("server"))
    user = Client(server, time, "test")
    if user.find("namespaces", "default") is None:
        user.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    user.create("customresourcedefinitions", COMPOSABILITY_REQUESTS)
    user.create("customresourcedefinitions", COMPOSABLE_RESOURCES)
    return user


def named(plural: str) -> tuple[str, str]:
    """Namespace and name of the one object of a kind."""
    namespaced = plural in KINDS and "namespace" in KINDS[plural]["metadata"]
    return "default" if namespaced else "", "things.example.com" if plural == "customresourcedefinitions" else "x"


def write(user: Client, how: str, plural: str, subresource: str, body: Any) -> None:
    namespace, name = named(plural)
    if how == "create":
        user._write("create", plural, body, namespace, "")
    elif how == "update":
        user._write("update", plural, body, namespace, name, subresource)
    else:
        user.patch(plural, name, body, namespace, how, subresource)


def test_the_true_ones_are_taken() -> None:
    """Otherwise the bent ones would prove little."""
    user = served()
    for plural, body in KINDS.items():
        user.create(plural, {**body, "metadata": {**body["metadata"]}})
        if plural == "events":
            user.delete("events", "x", "default")
    for plural, status in STATUSES.items():
        write(user, "merge", plural, "status", {"status": status})
    for plural, body in REVIEWS.items():
        user.create(plural, body)


@examples(40, 800)
@given(st.lists(writes(), min_size=1, max_size=8))
def test_every_write_has_an_answer(sent: list[tuple[str, str, str, Any]]) -> None:
    user = served()
    plurals = {plural for _, plural, _, _ in sent} - REVIEWS.keys()
    for plural in sorted(plurals - {"events"} if "events.events.k8s.io" in plurals else plurals):
        write(user, "create", plural, "", KINDS[plural])  # the two kinds of events are one
    for how, plural, subresource, body in sent:
        before, revision = copy.deepcopy(body), user.server.store.revision
        old = stored(user, plural)
        try:
            write(user, how, plural, subresource, body)
            taken(user, plural, subresource, old, stored(user, plural))
        except ApiError as problem:
            assert problem.code in (400, 403, 404, 409, 413, 415, 422, 500), (problem.code, str(problem))
            assert problem.status["status"] == "Failure"
            if problem.code == 500:
                assert problem.reason == "", str(problem)
            assert user.server.store.revision == revision, "what is refused changes nothing"
        assert body == before, "what was sent is not changed"


def stored(user: Client, plural: str) -> Object | None:
    """The object of the kind as it is now; None for a review, which is never kept."""
    namespace, name = named(plural)
    return None if plural in REVIEWS else user.find(plural, name, namespace)


def taken(user: Client, plural: str, subresource: str, old: Object | None, new: Object | None) -> None:
    """What holds of a write that was not refused."""
    if new is None:
        return
    resource = user.resource(plural)
    strategy = user.server.registry.strategy(resource)
    assert strategy.decode(new) == (new, []), "what is stored is what is understood"
    assert all(isinstance(value, str) for value in strategy.selectable(new).values())
    if old is not None and subresource:
        assert new.get("spec") == old.get("spec")
    elif old is not None and "status" in resource.subresources and not plural.startswith("customresource"):
        assert new.get("status") == old.get("status")
