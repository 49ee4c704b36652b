"""The guard as it is shipped, asked on the lab's API server: whom it keeps from which device, and what its probe shows."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes import guard
from tests.project.deploy.admission import ACCOUNT
from tests.project.deploy.guarded import AFTER, BEFORE, DEVICE, DRY, EXPIRY, GUARDS, Room, allocation

SCHEDULER = "system:kube-scheduler"
RACK = (DEVICE[0], "rack/a/node1", DEVICE[2])
SHARE = "0f1e2d3c-0000-4000-8000-000000000001"
ASKED: dict[str, tuple[int, dict[str, Any]]] = {
    "before the end": (422, {"timestamp": BEFORE}),
    "at the end": (200, {"timestamp": EXPIRY}),
    "after it": (200, {"timestamp": AFTER}),
    "without a timestamp": (422, {"timestamp": ""}),
    "another device": (200, {"device": (*DEVICE[:2], "gpu-1")}),
    "the same name on another node": (200, {"device": (DEVICE[0], "node2", DEVICE[2])}),
    "the same name of another driver": (200, {"device": ("nic.example.com", *DEVICE[1:])}),
    "a pool with a slash": (422, {"device": RACK}),
    "a pool that is written like its key": (200, {"device": (DEVICE[0], "rack", "a-node1")}),
    "a share": (200, {"shareID": SHARE}),
    "an administrator": (200, {"adminAccess": True}),
    "whoever asks for no administrator's access": (422, {"adminAccess": False}),
}


@pytest.fixture(scope="module")
def guarded() -> Room:
    room = Room()
    room.guard()
    room.guard(device=RACK)
    room.admin.create(
        "namespaces", {"metadata": {"name": "admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
    claim = {"metadata": {"name": "look"}, "spec": {"devices": {"requests": [request]}}}
    room.admin.create("resourceclaims", claim, "admin")
    room.claim("rival")
    return room


def allocate(room: Room, user: str = SCHEDULER, dry: bool = True, **asked: Any) -> tuple[int, str]:
    """Give the claim `rival` a device, or an administrator's claim."""
    where = "admin/resourceclaims/look" if asked.get("adminAccess") else "default/resourceclaims/rival"
    path = f"/apis/resource.k8s.io/v1/namespaces/{where}/status"
    body = {"status": {"allocation": allocation(**asked)}}
    code, answer = room.ask("PATCH", path, body, DRY if dry else None, user)
    return code, answer.get("message", "")


@pytest.mark.parametrize("case", ASKED)
def test_who_is_given_a_guarded_device(guarded: Room, case: str) -> None:
    code, asked = ASKED[case]
    assert allocate(guarded, **asked)[0] == code


def test_a_refusal_names_policy_and_device(guarded: Room) -> None:
    said = "denied request: dds is giving gpu.nvidia.com_node1_gpu-0 to another claim just now"
    assert allocate(guarded)[1].endswith(f"'{guard.NAME}' with binding '{guard.NAME}' {said}")


@pytest.mark.parametrize(("dry", "code"), [(True, 422), (False, 200)])
def test_we_pass_it_but_see_it_by_a_dry_run(dry: bool, code: int) -> None:
    room = Room()
    room.guard()
    room.claim("rival")
    assert allocate(room, ACCOUNT, dry)[0] == code


def test_a_guard_ends_with_its_key_and_by_anything_that_fails() -> None:
    room = Room()
    room.claim("rival")
    room.guard()
    assert allocate(room)[0] == 422
    room.guard("soon")
    assert allocate(room)[0] == 200, "what fails is ignored"
    room.guard()
    room.guard(None)
    assert allocate(room)[0] == 200
    room.guard()
    assert room.ask("DELETE", GUARDS, user="admin")[0] == 200
    assert allocate(room)[0] == 200, "without its ConfigMap nothing is guarded"


def test_what_was_given_is_changed_by_anybody() -> None:
    """The guard is about a step from no allocation to one, and nothing else."""
    room = Room()
    room.claim("rival", {"allocation": allocation()})
    room.guard()
    body = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/rival/status"
    assert room.ask("PATCH", path, body, user=SCHEDULER)[0] == 200


@pytest.mark.parametrize("device", [DEVICE, RACK], ids=["of a node", "of a rack"])
def test_the_probe_shows_whether_a_guard_is_in_force(device: tuple[str, str, str]) -> None:
    room = Room()
    assert room.probe(device)[0] == 200
    room.guard(device=device)
    code, answer = room.probe(device)
    assert code == 422
    assert answer["message"].startswith('resourceclaims.resource.k8s.io "dds-probe" is forbidden: ')
    assert f"ValidatingAdmissionPolicy '{guard.NAME}'" in answer["message"]
    room.guard(None, device)
    assert room.probe(device)[0] == 200
