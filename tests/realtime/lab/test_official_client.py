"""The official Python client works against the lab: typed, custom and dynamic, and its watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dds_lab.http_frontend import Served
from tests.support.served import client_of, served

k8s: Any = import_module("kubernetes")  # typed in part only

GROUP, VERSION = "cro.hpsys.ibm.ie.com", "v1alpha1"
SPEC = {"resource": {"type": "gpu", "model": "A100 40G", "size": 1, "target_node": "n1"}}
CLAIM = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    with served(tls=True) as server:
        yield server


@pytest.fixture(scope="module")
def config(lab: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    return lab.kubeconfig(Path(tmp_path_factory.mktemp("client")) / "config")


@pytest.fixture
def api(config: str) -> Iterator[Any]:
    client = k8s.config.new_client_from_config(config, "admin")
    yield client
    client.rest_client.pool_manager.clear()


def custom(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ComposabilityRequest",
        "metadata": {"name": name},
        "spec": {"resource": {**SPEC["resource"], **spec}},
    }


def claim(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": CLAIM}


def refused(code: int, call: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(k8s.client.exceptions.ApiException) as caught:
        call(*args, **more)
    assert caught.value.status == code
    return str(caught.value.body)


# -- typed -------------------------------------------------------------------------------------------------------


def test_core_objects(api: Any) -> None:
    core = k8s.client.CoreV1Api(api)
    assert {each.metadata.name for each in core.list_namespace().items} >= {"default", "kube-system"}
    core.create_node({"metadata": {"name": "typed", "labels": {"a": "1"}}})
    core.patch_node("typed", {"metadata": {"labels": {"b": "2", "a": None}}})
    assert core.read_node("typed").metadata.labels == {"b": "2"}
    pod = {"metadata": {"name": "typed"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = core.create_namespaced_pod("default", pod)
    assert made.status.phase == "Pending" and made.spec.scheduler_name == "default-scheduler"
    binding = {"metadata": {"name": "typed"}, "target": {"kind": "Node", "name": "typed"}}
    core.create_namespaced_pod_binding("typed", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("typed", "default").spec.node_name == "typed"
    core.delete_namespaced_pod("typed", "default", grace_period_seconds=0)
    assert '"reason":"NotFound"' in refused(404, core.read_namespaced_pod, "typed", "default")


@pytest.mark.smoke
def test_claims(api: Any) -> None:
    resource = k8s.client.ResourceV1Api(api)
    made = resource.create_namespaced_resource_claim("default", claim("typed", x="y"))
    assert made.spec.devices.requests[0].exactly.allocation_mode == "ExactCount"
    made.metadata.labels["x"] = "z"
    changed = resource.replace_namespaced_resource_claim("typed", "default", made)
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    assert "the object has been modified" in refused(
        409, resource.replace_namespaced_resource_claim, "typed", "default", made
    )
    page = resource.list_namespaced_resource_claim("default", limit=1)
    assert len(page.items) == 1
    resource.delete_namespaced_resource_claim("typed", "default")


def test_a_watch_of_claims_gives_typed_objects(lab: Served, api: Any) -> None:
    resource = k8s.client.ResourceV1Api(api)
    since = resource.list_namespaced_resource_claim("default").metadata.resource_version

    def change() -> None:
        time.sleep(0.2)
        resource.create_namespaced_resource_claim("default", claim("seen"))
        resource.delete_namespaced_resource_claim("seen", "default")

    changing = threading.Thread(target=change)
    changing.start()
    watch = k8s.watch.Watch(return_type="ResourceV1ResourceClaim")
    listing = resource.list_namespaced_resource_claim
    events = watch.stream(listing, "default", resource_version=since, timeout_seconds=3)
    told = [(each["type"], each["object"].metadata.name, type(each["object"]).__name__) for each in events]
    changing.join()
    assert told == [("ADDED", "seen", "ResourceV1ResourceClaim"), ("DELETED", "seen", "ResourceV1ResourceClaim")]


def test_a_lease_is_taken_once(api: Any) -> None:
    coordination = k8s.client.CoordinationV1Api(api)
    lease = {"metadata": {"name": "dds"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    made = coordination.create_namespaced_lease("default", lease)
    assert "AlreadyExists" in refused(409, coordination.create_namespaced_lease, "default", lease)
    coordination.replace_namespaced_lease("dds", "default", made)


# -- custom ------------------------------------------------------------------------------------------------------


def test_custom_objects(api: Any) -> None:
    objects = k8s.client.CustomObjectsApi(api)
    kind = (GROUP, VERSION, "composabilityrequests")
    objects.create_cluster_custom_object(*kind, custom("co"))
    patched = objects.patch_cluster_custom_object(*kind, "co", {"spec": {"resource": {"size": 2}}})
    assert patched["spec"]["resource"]["size"] == 2 and patched["metadata"]["generation"] == 2
    status = objects.patch_cluster_custom_object_status(*kind, "co", {"status": {"state": "Running"}})
    assert status["status"]["state"] == "Running" and status["metadata"]["generation"] == 2
    listed = objects.list_cluster_custom_object(*kind, label_selector="none=here")
    assert listed["kind"] == "ComposabilityRequestList" and listed["items"] == []
    said = refused(422, objects.create_cluster_custom_object, *kind, custom("bad", type="fpga"))
    assert "Unsupported value" in said
    objects.delete_cluster_custom_object(*kind, "co")
    refused(404, objects.get_cluster_custom_object, *kind, "co")


def test_custom_objects_are_applied(api: Any) -> None:
    objects = k8s.client.CustomObjectsApi(api)
    kind = (GROUP, VERSION, "composabilityrequests")
    apply = {"_content_type": "application/apply-patch+yaml"}
    objects.patch_cluster_custom_object(*kind, "applied", custom("applied"), field_manager="dds", **apply)
    other = custom("applied", size=3)
    said = refused(409, objects.patch_cluster_custom_object, *kind, "applied", other, field_manager="human", **apply)
    assert 'conflict with \\"dds\\"' in said
    forced = objects.patch_cluster_custom_object(*kind, "applied", other, field_manager="human", force=True, **apply)
    assert forced["spec"]["resource"]["size"] == 3


# -- dynamic -----------------------------------------------------------------------------------------------------


def test_the_dynamic_client_finds_and_changes(api: Any, tmp_path: Path) -> None:
    dynamic = k8s.dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    for api_version, kind, namespaced in (
        ("resource.k8s.io/v1", "ResourceClaim", True),
        (f"{GROUP}/{VERSION}", "ComposabilityRequest", False),
        (f"{GROUP}/{VERSION}", "ComposableResource", False),
        ("v1", "Node", False),
    ):
        found = dynamic.resources.get(api_version=api_version, kind=kind)
        assert found.namespaced is namespaced and "watch" in found.verbs
    requests = dynamic.resources.get(api_version=f"{GROUP}/{VERSION}", kind="ComposabilityRequest")
    requests.create(body=custom("dyn"))
    requests.patch(name="dyn", body={"spec": {"resource": {"size": 4}}}, content_type="application/merge-patch+json")
    assert requests.get(name="dyn").spec.resource.size == 4
    requests.status.patch(
        name="dyn", body={"status": {"state": "Running"}}, content_type="application/merge-patch+json"
    )
    assert requests.get(name="dyn").status.state == "Running"
    applied = requests.server_side_apply(body=custom("dyn2"), name="dyn2", field_manager="dds")
    assert applied.metadata.name == "dyn2"
    requests.delete(name="dyn")
    with pytest.raises(k8s.dynamic.exceptions.NotFoundError):
        requests.get(name="dyn")


def test_the_dynamic_client_watches(lab: Served, api: Any, tmp_path: Path) -> None:
    dynamic = k8s.dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    claims = dynamic.resources.get(api_version="resource.k8s.io/v1", kind="ResourceClaim")

    def change() -> None:
        time.sleep(0.3)
        lab.run(lambda: client_of(lab.server).create("resourceclaims", claim("watched"), "default"))

    changing = threading.Thread(target=change)
    changing.start()
    told = []
    for event in claims.watch(namespace="default", timeout=5):
        told.append((event["type"], event["object"].metadata.name))
        if told[-1] == ("ADDED", "watched"):
            break
    changing.join()
    assert told[-1] == ("ADDED", "watched")


# -- rights ------------------------------------------------------------------------------------------------------


def test_a_user_without_rights_is_told_what_is_missing(lab: Served, config: str) -> None:
    api = k8s.config.new_client_from_config(config, "dds")
    resource = k8s.client.ResourceV1Api(api)
    said = refused(403, resource.list_namespaced_resource_claim, "default")
    assert 'User \\"ddsuser\\" cannot list resource \\"resourceclaims\\"' in said
    review = {
        "spec": {"resourceAttributes": {"verb": "list", "group": "resource.k8s.io", "resource": "resourceclaims"}}
    }
    asked = k8s.client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert asked.status.allowed is False
    api.rest_client.pool_manager.clear()


def test_a_wrong_token_is_nobody(lab: Served, config: str) -> None:
    api = k8s.config.new_client_from_config(config, "admin")
    api.configuration.api_key = dict.fromkeys(api.configuration.api_key, "Bearer wrong")
    api.configuration.refresh_api_key_hook = None
    refused(401, k8s.client.CoreV1Api(api).list_namespace)
    api.rest_client.pool_manager.clear()
