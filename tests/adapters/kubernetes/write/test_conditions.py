"""What the scheduler is told of a claim's devices: on the allocation that was decided on, all of a group or none, once."""

from __future__ import annotations

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS, TellClaims, Telling
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.tasks import Declined, Done, Obsolete
from dds_core.scaler.events import Entry
from dds_lab.api.requests import MASTERS
from tests.support.written_objects import FAILED, GPU, POOL, RESCHEDULE, Object, WrittenObjects, uid_of

WHEN = "2026-01-02T03:04:05Z"


def entry(device: str = "dev-0", condition: str = RESCHEDULE, reason: str = "DeviceAttached") -> Entry:
    return Entry(GPU, POOL, device, condition, reason, "words")


def telling(stage: WrittenObjects, made: Object, *entries: Entry) -> Telling:
    """About the claim as it is allocated now."""
    name = made["metadata"]["name"]
    answer = stage.writer.ask("GET", f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}")
    stage.writer.requests.clear()
    return Telling(
        Ref(CLAIMS, name, "default", uid_of(made)), decoding.claim(answer.body).allocation, entries or (entry(),)
    )


def test_a_claim_is_told_once_and_the_condition_says_when_it_was_decided() -> None:
    stage = WrittenObjects()
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)
    assert stage.carry_out(write) == Done()
    assert stage.carry_out(write) == Done(written=False)
    (device,) = stage.get(CLAIMS, "c", "default")["status"]["devices"]
    assert (device["driver"], device["pool"], device["device"]) == (GPU, POOL, "dev-0")
    assert device["conditions"] == [
        {
            "type": RESCHEDULE,
            "status": "True",
            "reason": "DeviceAttached",
            "message": "words",
            "lastTransitionTime": WHEN,
        }
    ]
    assert stage.writes == 1


def test_all_claims_of_a_group_are_told() -> None:
    stage = WrittenObjects()
    claims = [stage.allocated("c"), stage.allocated("d", "dev-1", "dev-2")]
    write = TellClaims(
        (telling(stage, claims[0]), telling(stage, claims[1], entry("dev-1"), entry("dev-2"))),
        WHEN,
    )
    assert stage.carry_out(write) == Done()
    assert stage.conditions("c") == {("dev-0", RESCHEDULE): "DeviceAttached"}
    assert set(stage.conditions("d")) == {("dev-1", RESCHEDULE), ("dev-2", RESCHEDULE)}


def test_one_claim_that_has_moved_on_leaves_all_untold() -> None:
    stage = WrittenObjects()
    write = TellClaims(
        (telling(stage, stage.allocated("c")), telling(stage, stage.allocated("d", "dev-1"), entry("dev-1"))), WHEN
    )
    stage.deallocate("d")
    assert isinstance(stage.carry_out(write), Obsolete)
    assert stage.conditions("c") == {} and stage.writes == 0


def test_the_same_device_name_on_another_node_is_another_allocation() -> None:
    stage = WrittenObjects()
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)
    stage.deallocate("c")
    stage.allocate("c", "dev-0", node="node1")
    assert isinstance(stage.carry_out(write), Obsolete)
    assert stage.conditions("c") == {}


def test_a_claim_that_moves_between_reading_and_telling_is_not_told() -> None:
    stage = WrittenObjects()
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)

    def elsewhere() -> None:
        stage.deallocate("c")
        stage.allocate("c", "dev-0", node="node1")

    stage.meanwhile("PATCH", elsewhere)
    assert isinstance(stage.carry_out(write), Obsolete)
    assert stage.conditions("c") == {}


def test_a_device_that_is_allocated_no_more_is_obsolete_in_the_servers_words_too() -> None:
    stage = WrittenObjects()
    made = stage.allocated("c")
    write = TellClaims((telling(stage, made, entry("dev-9")),), WHEN)
    assert isinstance(stage.carry_out(write), Obsolete)
    assert stage.writes == 1


def test_a_claim_made_anew_under_the_name_is_not_told() -> None:
    stage = WrittenObjects()
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)
    stage.admin.delete(CLAIMS, "c", "default")
    stage.allocated("c")
    assert isinstance(stage.carry_out(write), Obsolete)
    stage.admin.delete(CLAIMS, "c", "default")
    assert isinstance(stage.carry_out(write), Obsolete)


def test_what_other_drivers_wrote_stays() -> None:
    stage = WrittenObjects()
    made = stage.allocated("c", "dev-0", "dev-1")
    write = TellClaims((telling(stage, made),), WHEN)
    theirs = {"driver": GPU, "pool": POOL, "device": "dev-1", "networkData": {"interfaceName": "eth7"}}
    stage.meanwhile("PATCH", lambda: stage.edit(CLAIMS, "c", {"status": {"devices": [theirs]}}, "default", "status"))
    assert stage.carry_out(write) == Done()
    devices = {one["device"]: one for one in stage.get(CLAIMS, "c", "default")["status"]["devices"]}
    assert devices["dev-1"]["networkData"] == {"interfaceName": "eth7"}
    assert "conditions" in devices["dev-0"]


def test_a_failure_replaces_what_we_told_before() -> None:
    stage = WrittenObjects()
    made = stage.allocated("c", "dev-0", "dev-1")
    first = telling(stage, made, entry("dev-0"), entry("dev-1"))
    assert stage.carry_out(TellClaims((first,), WHEN)) == Done()
    then = telling(stage, made, entry("dev-0"), entry("dev-1", FAILED, "AttachTimeout"))
    assert stage.carry_out(TellClaims((then,), WHEN)) == Done()
    assert stage.conditions("c") == {("dev-0", RESCHEDULE): "DeviceAttached", ("dev-1", FAILED): "AttachTimeout"}


def test_without_the_permission_for_the_driver_the_refusal_is_told_as_forbidden() -> None:
    stage = WrittenObjects()
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dds"}}
    dds = stage.grant("dds", {**role, "rules": rules})
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)
    result = stage.carry_out(write, dds)
    assert isinstance(result, Declined) and (result.code, result.reason) == (422, "Forbidden")
    assert "resourceclaims/driver" in result.text
    assert stage.carry_out(write, stage.as_user("admin", MASTERS)) == Done()


def test_a_condition_that_somebody_else_owns_is_taken_over() -> None:
    stage = WrittenObjects()
    made = stage.allocated("c")
    told = {"type": RESCHEDULE, "status": "False", "reason": "Theirs", "message": "", "lastTransitionTime": WHEN}
    device = {"driver": GPU, "pool": POOL, "device": "dev-0", "conditions": [told]}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "status": {"devices": [device]},
    }
    stage.admin.patch(CLAIMS, "c", body, "default", how="apply", subresource="status")
    assert stage.carry_out(TellClaims((telling(stage, made),), WHEN)) == Done()
    assert stage.conditions("c") == {("dev-0", RESCHEDULE): "DeviceAttached"}


def test_a_claim_that_is_being_deleted_is_not_told() -> None:
    stage = WrittenObjects()
    write = TellClaims((telling(stage, stage.allocated("c")),), WHEN)
    stage.leaving(CLAIMS, "c", "default")
    assert isinstance(stage.carry_out(write), Obsolete)
    assert stage.writes == 0


def test_a_share_of_a_device_is_told_by_its_id() -> None:
    stage = WrittenObjects()
    share = "00000000-0000-0000-0000-000000000001"
    stage.claim("c")
    made = stage.allocate("c", "dev-0", share=share)
    write = TellClaims(
        (telling(stage, made, Entry(GPU, POOL, "dev-0", RESCHEDULE, "DeviceAttached", "", share)),), WHEN
    )
    assert stage.carry_out(write) == Done()
    assert stage.carry_out(write) == Done(written=False)
    (device,) = stage.get(CLAIMS, "c", "default")["status"]["devices"]
    assert device["shareID"] == share and len(device["conditions"]) == 1
