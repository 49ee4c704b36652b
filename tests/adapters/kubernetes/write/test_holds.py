"""A claim of ours keeps everybody from a device that is to go back: made while its devices are guarded, and cleared before it is
deleted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS
from dds_adapters.kubernetes.write.devices import rfc3339
from dds_adapters.kubernetes.write.exchange import GuardDevices
from dds_adapters.kubernetes.write.holds import EndHold, HoldDevice
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete
from dds_core.model import DeviceKey
from dds_lab.api.requests import MASTERS
from dds_lab.driver import Direct
from dds_lab.setup import install_guard
from tests.support.fed_engine import START
from tests.support.guarding import NAMESPACE, guarded
from tests.support.roles import NOTHING, role
from tests.support.written_objects import GPU, RESOURCE, Object, WrittenObjects, uid_of

NAME = "dds-hold-a"
FACES = ((GPU, "node0", "gpu-0"), (GPU, "node0", "gpu-0-part"))
OTHER = (GPU, "node0", "gpu-1")
POD = {"resource": "pods", "name": "p", "uid": "uid-p"}


class Case:
    """A stage with the guard, resource `a` with a device of two faces, and their guards."""

    def __init__(self, user: str = "writer") -> None:
        self.stage = WrittenObjects()
        install_guard(self.stage.admin, user)
        self.owner = uid_of(self.stage.resource("a"))
        for key in (*FACES, OTHER):
            data = {guard.key(*key): rfc3339(START + 60_000_000, precise=True)}
            self.stage.edit("configmaps", guard.CONFIG_MAP, {"data": data}, NAMESPACE)

    def hold(self, *devices: DeviceKey) -> HoldDevice:
        owner = Ref(RESOURCE, "a", uid=self.owner)
        return HoldDevice(Ref(CLAIMS, NAME, NAMESPACE), owner, devices or FACES, "node0")

    def end(self, name: str = NAME, *, young: bool = False) -> EndHold:
        return EndHold(Ref(CLAIMS, name, NAMESPACE), self.owner, FACES, young)

    def held(self) -> Object:
        """The claim, once it holds the device."""
        assert self.stage.carry_out(self.hold()) == Done()
        self.stage.writer.requests.clear()
        return self.live

    @property
    def live(self) -> Object:
        return self.stage.get(CLAIMS, NAME, NAMESPACE)

    @property
    def claims(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.stage.admin.list(CLAIMS)} - {"dds-probe"}

    @property
    def guarded(self) -> set[DeviceKey]:
        keys = guarded(self.stage.admin)
        return {one for one in (*FACES, OTHER) if guard.key(*one) in keys}

    def edit(self, patch: Object, subresource: str = "") -> Object:
        return self.stage.edit(CLAIMS, NAME, patch, NAMESPACE, subresource)

    def written(self) -> list[str]:
        """What is written from here on: methods and objects, and of a deletion whether the claim was cleared before."""
        found: list[str] = []

        def before(method: str, path: str) -> None:
            if method != "GET":
                cleared = ", cleared" if method == "DELETE" and "allocation" not in self.live.get("status", {}) else ""
                found.append(f"{method} {path.partition(f'/{NAMESPACE}/')[2]}{cleared}")

        self.stage.writer.before = before
        return found


# --- to hold -----------------------------------------------------------------------------------------------------------


def test_a_claim_of_ours_that_belongs_to_the_resource_has_all_faces_of_its_device() -> None:
    case = Case()
    assert case.stage.carry_out(case.hold()) == Done()
    live, owned = case.live, {"kind": "ComposableResource", "name": "a", "uid": case.owner}
    assert live["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dds"}
    assert live["metadata"]["ownerReferences"] == [{"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", **owned}]
    assert live["status"]["reservedFor"] == [
        {"apiGroup": "cro.hpsys.ibm.ie.com", "resource": "composableresources", "name": "a", "uid": case.owner}
    ]
    (request,) = live["spec"]["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == ("dds-probe", 2), "nobody's class"
    claim = decoding.claim(msgspec.json.encode(live))
    assert claim.allocation is not None and claim.hold == case.owner
    assert tuple(one.key for one in claim.allocation.results) == FACES
    assert {one.request for one in claim.allocation.results} == {request["name"]}
    assert claim.allocation.node == "node0"


def test_it_stays_guarded_until_the_guard_is_over() -> None:
    """What a scheduler has decided before it knew of the hold may be written after it."""
    case = Case()
    written = case.written()
    case.stage.carry_out(case.hold())
    assert written == ["POST resourceclaims", f"PATCH resourceclaims/{NAME}/status"]
    assert case.guarded == {*FACES, OTHER}


def test_what_is_held_is_not_held_again() -> None:
    case = Case()
    before = case.held()
    assert case.stage.carry_out(case.hold()) == Done(written=False)
    assert case.live == before and case.stage.writes == 0


def test_a_claim_that_was_made_and_not_allocated_yet_is_allocated() -> None:
    case = Case()
    case.held()
    case.edit({"status": {"allocation": None, "reservedFor": None}}, "status")
    assert case.stage.carry_out(case.hold()) == Done()
    assert case.live["status"]["reservedFor"] and len(case.live["status"]["allocation"]["devices"]["results"]) == 2
    assert case.stage.writes == 1


def test_two_who_hold_it_at_once_make_one_claim() -> None:
    case = Case()
    other = case.stage.as_user("writer", MASTERS)
    case.stage.meanwhile("POST", lambda: case.hold().carry_out(other, case.stage.versions))
    assert case.stage.carry_out(case.hold()) == Done(written=False)
    assert case.claims == {NAME}


TAKEN: dict[str, Callable[[Case], object]] = {
    "without our label": lambda case: case.edit({"metadata": {"labels": None}}),
    "of another manager": lambda case: case.edit({"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}),
    "of nobody's device": lambda case: case.edit({"metadata": {"ownerReferences": None}}),
    "of a resource of that name before": lambda case: case.edit(
        {"metadata": {"ownerReferences": [{**case.live["metadata"]["ownerReferences"][0], "uid": "before"}]}}
    ),
    "of a pod": lambda case: case.edit({"status": {"reservedFor": [POD]}}, "status"),
}
"""What makes the claim of that name somebody else's."""
taken = pytest.mark.parametrize("whose", TAKEN)


@taken
def test_a_name_that_is_taken_is_declined(whose: str) -> None:
    case = Case()
    case.held()
    TAKEN[whose](case)
    before = case.live
    result = case.stage.carry_out(case.hold())
    assert isinstance(result, Declined) and (result.code, result.reason) == (409, "AlreadyExists")
    assert f"{NAMESPACE}/{NAME}" in result.text
    assert case.live == before and case.stage.writes == 0


def test_a_hold_that_is_being_deleted_holds_nothing() -> None:
    case = Case()
    case.held()
    case.stage.leaving(CLAIMS, NAME, NAMESPACE)
    result = case.stage.carry_out(case.hold())
    assert isinstance(result, Declined) and result.code == 409
    assert case.stage.writes == 0


@pytest.mark.parametrize("devices", [FACES[:1], (*FACES, OTHER), (FACES[0], OTHER)])
def test_a_hold_of_other_devices_is_not_changed(devices: tuple[DeviceKey, ...]) -> None:
    case = Case()
    before = case.held()
    result = case.stage.carry_out(case.hold(*devices))
    assert isinstance(result, Obsolete) and "holds other devices" in result.why
    assert case.live == before and case.stage.writes == 0


# --- to let go ---------------------------------------------------------------------------------------------------------


def test_it_is_cleared_before_the_guards_go_and_it_is_deleted() -> None:
    """Without the guard a late write of the scheduler would put a second claim beside it; deleted, it would wake nobody."""
    case = Case()
    case.held()
    written = case.written()
    assert case.stage.carry_out(case.end()) == Done()
    assert written == [
        f"PATCH resourceclaims/{NAME}/status",
        "PATCH configmaps/dds-guards",
        f"DELETE resourceclaims/{NAME}, cleared",
    ]
    assert case.claims == set() and case.guarded == {OTHER}
    assert case.stage.carry_out(case.end()) == Done(written=False)
    assert len(written) == 3


def test_a_young_one_stays_guarded_for_a_moment_after_it_is_gone() -> None:
    """A scheduler that chose the device before it knew of the hold would write that now, and the end of the hold, which it sees
    after that, would free the device for a third."""
    case = Case()
    case.held()
    written = case.written()
    later = case.stage.carry_out(case.end(young=True))
    assert isinstance(later, Later) and later.wait == 2.0
    assert written == [f"PATCH resourceclaims/{NAME}/status", f"DELETE resourceclaims/{NAME}, cleared"]
    assert case.claims == set() and case.guarded == {*FACES, OTHER}
    assert case.stage.carry_out(case.end(young=True)) == Done()
    assert case.guarded == {OTHER}


@pytest.mark.parametrize("name", [NAME, ""], ids=["that is not there", "whose name is not known"])
def test_guards_are_taken_off_without_a_claim(name: str) -> None:
    case = Case()
    assert case.stage.carry_out(case.end(name)) == Done()
    assert case.guarded == {OTHER}
    assert case.stage.carry_out(case.end(name)) == Done(written=False)
    assert case.stage.writes == 1


@taken
def test_a_claim_that_is_not_ours_is_left_alone(whose: str) -> None:
    case = Case()
    case.held()
    TAKEN[whose](case)
    before = case.live
    assert isinstance(case.stage.carry_out(case.end()), Done)
    assert case.live == before and case.guarded == {OTHER} and case.stage.writes == 1


def test_a_hold_that_becomes_anothers_under_the_write_is_left_alone() -> None:
    case = Case()
    case.held()
    case.stage.carry_out(case.end(""))
    case.stage.meanwhile("PATCH", lambda: TAKEN["without our label"](case))
    assert case.stage.carry_out(case.end()) == Done(written=False)
    assert "allocation" in case.live["status"]


def test_another_claim_of_that_name_is_not_deleted() -> None:
    case = Case()
    case.held()

    def replaced() -> None:
        case.stage.admin.delete(CLAIMS, NAME, NAMESPACE)
        body = {"metadata": {"name": NAME}, "spec": {"devices": {"requests": []}}}
        case.stage.admin.create(CLAIMS, body, NAMESPACE)

    case.stage.meanwhile("DELETE", replaced)
    assert isinstance(case.stage.carry_out(case.end()), Done)
    assert case.claims == {NAME} and "labels" not in case.live["metadata"]


# --- rights, and answers that are lost ---------------------------------------------------------------------------------


def granted(case: Case, without: tuple[str, str] = ("", "")) -> Direct:
    """Somebody with the scaler's rights for holds, less a verb of a resource."""
    rules = [*role("cluster", NOTHING | {"exchange"})["rules"], *role("guard")["rules"]]
    for one in rules:
        if without[0] in one["resources"]:
            one["verbs"] = [verb for verb in one["verbs"] if verb != without[1]]
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dds"}}
    return case.stage.grant("dds", {**body, "rules": [one for one in rules if one["verbs"]]})


def test_the_scalers_rights_are_enough() -> None:
    case = Case("dds")
    dds = granted(case)
    assert case.stage.carry_out(GuardDevices(NAMESPACE, FACES, START + 90_000_000, "node0"), dds) == Done()
    assert case.stage.carry_out(case.hold(), dds) == Done()
    assert case.stage.carry_out(case.end(), dds) == Done()
    assert case.claims == set()


LACKS = {
    "to hold": [(CLAIMS, "get"), (CLAIMS, "create"), ("resourceclaims/status", "patch"), ("resourceclaims/binding", "patch")],
    "to let go": [("configmaps", "get"), ("configmaps", "patch"), ("resourceclaims/status", "patch"), (CLAIMS, "delete")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("what", "without"), [pytest.param(what, one, id=f"{what}: {' '.join(one)}") for what, some in LACKS.items() for one in some]
)  # fmt: skip
def test_without_a_right_it_is_declined(what: str, without: tuple[str, str]) -> None:
    if what == "to hold":
        case = Case("dds")
        write: HoldDevice | EndHold = case.hold()
    else:
        case = Case()
        case.held()
        write = case.end()
    result = case.stage.carry_out(write, granted(case, without))
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")
    assert "\n" not in result.text and without[0].partition("/")[0] in result.text


def test_under_our_guard_nobody_else_holds_it() -> None:
    case = Case()
    result = case.stage.carry_out(case.hold(), case.stage.as_user("another", MASTERS))
    assert isinstance(result, Declined) and "dds is giving" in result.text
    assert case.stage.carry_out(case.end()) == Done()
    assert case.claims == set(), "what was begun is taken away"


@pytest.mark.parametrize("sent", [False, True], ids=["before it is sent", "after it was sent"])
def test_every_request_may_be_the_last(sent: bool) -> None:
    whole = Case()
    whole.stage.carry_out(whole.hold())
    wanted = whole.live["status"]
    whole.stage.carry_out(whole.end())
    requests = sum(whole.stage.writer.requests.values())
    assert requests == 8, "the claim and two writes; the map and a write; the claim and two writes"
    for number in range(requests):
        case, left = Case(), [number]

        def lost(method: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Unreachable("the connection broke", where=path)

        setattr(case.stage.writer, "after" if sent else "before", lost)
        cuts = 0
        for write in (case.hold(), case.end()):
            result = case.stage.carry_out(write)
            if isinstance(result, Later):
                cuts, result = cuts + 1, case.stage.carry_out(write)
            assert isinstance(result, Done), (number, result)
            if isinstance(write, HoldDevice):
                devices = case.live["status"]["allocation"]["devices"]
                assert devices == wanted["allocation"]["devices"]
        assert cuts == 1 and case.claims == set() and case.guarded == {OTHER}, number
