"""Patches through the server: whatever is sent, the answer is an object or a Status that says what is wrong."""

from typing import Any

import pytest

from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import ApiError, Client, Object
from dds_lab.crds import COMPOSABILITY_REQUESTS
from dds_lab.time import VirtualTime

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
