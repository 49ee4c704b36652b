"""Patches through the server: whatever is sent, the answer is an object or a Status that says what is wrong."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import ApiError, Client, Object
from dds_lab.crds import COMPOSABILITY_REQUESTS
from dds_lab.time import VirtualTime
from tests.property.streams import QUICK

CRO = "cro.hpsys.ibm.ie.com/v1alpha1"
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default", "labels": {"a": "1"}, "finalizers": ["x.example/keep"]},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
ALLOCATED = {
    "allocation": {"devices": {"results": [{"request": "r", "driver": "d.x", "pool": "p", "device": "one"}]}},
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "devices": [{"driver": "d.x", "pool": "p", "device": "one", "networkData": {"interfaceName": "eth0"}}],
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "e"}]}]},
}
REQUEST = {
    "apiVersion": CRO,
    "kind": "ComposabilityRequest",
    "metadata": {"name": "r"},
    "spec": {"resource": {"type": "gpu", "model": "m", "size": 1, "target_node": "n"}},
}
PLACES = (
    ("resourceclaims", "c", "default", ""),
    ("resourceclaims", "c", "default", "status"),
    ("pods", "p", "default", ""),
    ("pods", "p", "default", "status"),
    ("composabilityrequests", "r", "", ""),
    ("composabilityrequests", "r", "", "status"),
)
HEADS = {
    place[0]: {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    for place, body in zip(PLACES[::2], (CLAIM, POD, REQUEST), strict=True)
}


def served() -> Client:
    """A server with one object of each of three kinds."""
    time = VirtualTime(1, 1_795_219_200_000_000)
    server = ApiServer(gates=Gates.for_version("1.36"), now=time.now, random=time.random("server"))
    user = Client(server, time, "test")
    if user.find("namespaces", "default") is None:
        user.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    user.create("customresourcedefinitions", COMPOSABILITY_REQUESTS)
    for plural, body in (("resourceclaims", CLAIM), ("pods", POD), ("composabilityrequests", REQUEST)):
        user.create(plural, body)
    user.patch("resourceclaims", "c", {"status": ALLOCATED}, "default", subresource="status")
    return user


def refused(
    user: Client, plural: str, name: str, patch: Any, namespace: str, how: str, subresource: str = ""
) -> ApiError:
    with pytest.raises(ApiError) as problem:
        user.patch(plural, name, patch, namespace, how, subresource)
    return problem.value


@pytest.mark.parametrize("how", ["merge", "strategic"])
def test_a_patch_that_leads_to_no_object(how: str) -> None:
    """422 about the patch, where the same in a whole object is 400."""
    user = served()
    problem = refused(user, "resourceclaims", "c", {"metadata": {"labels": 5}}, "default", how)
    assert (problem.code, problem.reason) == (422, "Invalid")
    assert problem.causes[0]["field"] == "patch"
    assert '"" is invalid: patch: Invalid value: {"metadata":{"labels":5}}: json: cannot unmarshal' in str(problem)
    claim = user.get("resourceclaims", "c", "default")
    with pytest.raises(ApiError) as whole:
        user.update("resourceclaims", {**claim, "metadata": {**claim["metadata"], "labels": 5}})
    assert whole.value.code == 400


def test_unknown_fields_in_a_patch() -> None:
    user = served()
    problem = refused(user, "resourceclaims", "c", {"spec": {"bogus": 1}}, "default", "merge")
    assert problem.code == 422
    assert 'unknown field "spec.bogus"' in str(problem)
    operation = {"op": "add", "path": "/spec/bogus", "value": 1}
    assert refused(user, "resourceclaims", "c", [operation], "default", "json").code == 422


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"spec": {"bogus": 1}}, ".spec.bogus: field not declared in schema"),
        ({"metadata": {"name": "c", "labels": 5}}, ".metadata.labels: expected map"),
        ({"metadata": {"name": "c", "labels": {"a": 5}}}, ".metadata.labels.a: expected string"),
        ({"status": {"devices": {}}}, ".status.devices: expected list"),
    ],
)
def test_configurations_that_do_not_fit(body: Object, words: str) -> None:
    user = served()
    problem = refused(user, "resourceclaims", "c", {**HEADS["resourceclaims"], **body}, "default", "apply")
    assert problem.code == 500
    assert "failed to create typed patch object" in str(problem)
    assert words in str(problem)


def test_owners_survive_the_loss_of_an_allocation() -> None:
    """As recorded (deallocate): device statuses go with the allocation, and yet their owners stay noted; the next who
    applies another value for the same device meets them."""
    user = served()
    other = Client(user.server, user.time, "other")
    user.patch(
        "resourceclaims", "c", {"status": {"allocation": None, "reservedFor": None}}, "default", subresource="status"
    )
    claim = user.get("resourceclaims", "c", "default")
    assert "devices" not in claim["status"]
    assert any("f:devices" in entry["fieldsV1"].get("f:status", {}) for entry in claim["metadata"]["managedFields"])
    status = {key: ALLOCATED[key] for key in ("allocation", "reservedFor")}
    user.patch("resourceclaims", "c", {"status": status}, "default", subresource="status")
    device = {"driver": "d.x", "pool": "p", "device": "one", "networkData": {"interfaceName": "eth1"}}
    body = {**HEADS["resourceclaims"], "status": {"devices": [device]}}
    problem = refused(other, "resourceclaims", "c", body, "default", "apply", "status")
    assert problem.code == 409
    assert 'conflict with "test" with subresource "status"' in problem.causes[0]["message"]


# -- whatever is sent ----------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["metadata", "spec", "status", "labels", "finalizers", "ownerReferences", "managedFields", "name", "uid", "devices",
     "conditions", "containers", "resource", "resourceVersion", "type", "size", "reservedFor", "allocation", "$patch",
     "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "apiVersion", "kind", "x"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["", "x", "delete", "replace", "merge", "gpu", "\x00", "2026-01-01T00:00:00Z", "-1"]),
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
POINTERS = st.lists(st.one_of(WORDS, st.sampled_from(["0", "-", "-1", "9" * 30])), max_size=4).map(
    lambda parts: "".join("/" + part.replace("/", "~1") for part in parts)
)
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": POINTERS},
    optional={"value": ANYTHING, "from": POINTERS},
)
OBJECT = st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), ANYTHING, min_size=1)


def bent(draw: st.DrawFn, value: Any) -> Any:
    """Something like a true object: somewhere in it a value is another one."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: bent(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        return [bent(draw, value[0]), *value[1:], *(value[:1] if draw(st.booleans()) else [])]
    return draw(ANYTHING)


@st.composite
def patches(draw: st.DrawFn) -> tuple[tuple[str, str, str, str], str, Any]:
    place, how = draw(st.sampled_from(PLACES)), draw(st.sampled_from(["merge", "strategic", "json", "apply"]))
    if how == "json":
        return place, how, draw(st.one_of(st.lists(OPERATION, max_size=3), ANYTHING))
    true = {"resourceclaims": {**CLAIM, "status": ALLOCATED}, "pods": POD, "composabilityrequests": REQUEST}[place[0]]
    body = bent(draw, copy.deepcopy(true)) if draw(st.booleans()) else draw(st.one_of(OBJECT, ANYTHING))
    if isinstance(body, dict) and how == "apply" and draw(st.integers(0, 9)):
        body = {**HEADS[place[0]], **{key: body[key] for key in body.keys() - {"apiVersion", "kind"}}}
    return place, how, body


@QUICK
@given(st.lists(patches(), min_size=1, max_size=6))
def test_every_patch_has_an_answer(sent: list[tuple[tuple[str, str, str, str], str, Any]]) -> None:
    user = served()
    for (plural, name, namespace, subresource), how, body in sent:
        before = copy.deepcopy(body)
        try:
            user.patch(plural, name, body, namespace, how, subresource)
        except ApiError as problem:
            assert problem.code in (400, 403, 404, 409, 413, 415, 422, 500)
            assert problem.status["status"] == "Failure"
            if problem.code == 500:
                assert problem.reason == "", "only where a real server knows no reason either"
        assert body == before
    for plural, name, namespace, _ in PLACES[::2]:
        assert (
            user.find(plural, name, namespace) is None or user.get(plural, name, namespace)["metadata"]["name"] == name
        )
