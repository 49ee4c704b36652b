"""Sizes of ComposabilityRequests: one device for one need, and nobody but a marked victim goes."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.write.requests import LowerRequest, RaiseRequest, StampEpoch
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, NotLeading, Obsolete
from dds_lab.api.requests import Call
from dds_lab.api.status import ApiError, Cause
from tests.support.written_objects import REQUEST, RESOURCE, WrittenObjects, uid_of

OURS = {"app.kubernetes.io/managed-by": "dds"}


def order(size: int = 1, previous: int | None = None, uid: str = "", **given: Any) -> RaiseRequest:
    told: dict[str, Any] = {"name": "dds-r", "type": "gpu", "model": "A100 40G", "node": "node0", **given}
    return RaiseRequest(uid=uid, size=size, previous=previous, epoch_key="cohdi.io/epoch", epoch=3, **told)


# --- made and raised ---------------------------------------------------------------------------------------------------


def test_a_request_is_made_once_with_our_label_and_epoch() -> None:
    stage = WrittenObjects()
    assert stage.carry_out(order()) == Done()
    assert stage.carry_out(order()) == Done(written=False)
    made = stage.get(REQUEST, "dds-r")
    assert made["metadata"]["labels"] == OURS and made["metadata"]["annotations"] == {"cohdi.io/epoch": "3"}
    wanted = {"type": "gpu", "model": "A100 40G", "size": 1, "target_node": "node0", "allocation_policy": "samenode"}
    assert made["spec"]["resource"] == wanted
    assert stage.writes == 1


def test_an_order_that_was_taken_back_makes_no_request_and_lowers_none() -> None:
    stage = WrittenObjects()
    assert stage.carry_out(order(0)) == Done(written=False)
    assert stage.writes == 0
    stage.request("dds-r", 1, **OURS)
    assert stage.carry_out(order(0)) == Done(written=False)
    assert stage.size("dds-r") == 1 and stage.writes == 0


def test_a_request_is_made_with_force_detach_and_one_that_is_there_keeps_its_own() -> None:
    stage = WrittenObjects()
    forced = order(force_detach=True)
    assert stage.carry_out(forced) == Done()
    made = stage.get(REQUEST, "dds-r")
    assert made["spec"]["resource"]["force_detach"] is True
    assert stage.carry_out(order(2, 1, made["metadata"]["uid"])) == Done()
    assert stage.get(REQUEST, "dds-r")["spec"]["resource"] == {**made["spec"]["resource"], "size": 2}


def test_a_request_is_raised_once() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    assert stage.carry_out(order(3, 1, uid)) == Done()
    assert stage.carry_out(order(3, 1, uid)) == Done(written=False)
    assert stage.size("dds-r") == 3 and stage.writes == 1


def test_of_two_who_make_it_at_once_the_second_raises_what_the_first_made() -> None:
    stage = WrittenObjects()
    stage.meanwhile("POST", lambda: stage.request("dds-r", 1, **OURS))
    assert stage.carry_out(order(2)) == Done()
    assert stage.size("dds-r") == 2


def test_who_comes_between_reading_and_writing_is_seen() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    stage.meanwhile("PATCH", lambda: stage.edit(REQUEST, "dds-r", {"spec": {"resource": {"size": 3}}}))
    assert stage.carry_out(order(2, 1, uid)) == Done(written=False)
    assert stage.size("dds-r") == 3


def test_an_object_that_changes_all_the_time_is_left_for_later() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    numbers = iter(range(99))

    def touch() -> None:
        stage.edit(REQUEST, "dds-r", {"metadata": {"annotations": {"x": str(next(numbers))}}})

    stage.meanwhile("PATCH", touch, times=99)
    assert isinstance(stage.carry_out(order(2, 1, uid)), Later)
    assert stage.size("dds-r") == 1


def test_the_server_takes_our_patch_only_of_the_version_that_was_read() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    stage.meanwhile("PATCH", lambda: stage.edit(REQUEST, "dds-r", {"metadata": {"annotations": {"x": "1"}}}))
    assert stage.carry_out(order(2, 1, uid)) == Done()
    assert stage.writer.requests == {"GET": 2, "PATCH": 2} and stage.size("dds-r") == 2


def test_a_namesake_that_is_being_deleted_is_waited_for() -> None:
    stage = WrittenObjects()
    stage.request("dds-r", 1, **OURS)
    stage.edit(REQUEST, "dds-r", {"metadata": {"finalizers": ["com.ie.ibm.hpsys/finalizer"]}})
    stage.admin.delete(REQUEST, "dds-r")
    result = stage.carry_out(order())
    assert isinstance(result, Later) and result.wait > 0
    stage.edit(REQUEST, "dds-r", {"metadata": {"finalizers": None}})
    assert stage.carry_out(order()) == Done()


def test_a_namesake_for_something_else_is_refused() -> None:
    stage = WrittenObjects()
    stage.request("dds-r", 1, node="node7")
    assert stage.carry_out(order(2)) == Declined(409, "AlreadyExists", f"{REQUEST} dds-r is there for something else")
    assert stage.size("dds-r") == 1


def test_an_order_for_a_request_that_is_gone_or_made_anew_is_obsolete() -> None:
    stage = WrittenObjects()
    old = uid_of(stage.request("dds-r", 1, **OURS))
    stage.admin.delete(REQUEST, "dds-r")
    assert isinstance(stage.carry_out(order(2, 1, old)), Obsolete)
    stage.request("dds-r", 1, **OURS)
    assert isinstance(stage.carry_out(order(2, 1, old)), Obsolete)
    assert stage.size("dds-r") == 1


def test_a_request_that_somebody_lowered_is_not_raised_past_the_need() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    assert isinstance(stage.carry_out(order(4, 3, uid)), Obsolete)
    assert stage.size("dds-r") == 1


def test_a_detach_that_was_ordered_is_taken_back() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 2, **OURS))
    assert stage.carry_out(order(3, 3, uid)) == Done()
    assert stage.size("dds-r") == 3


def test_the_webhooks_refusal_comes_back_in_its_words_without_secrets() -> None:
    stage = WrittenObjects()

    def judge(call: Call, old: Any, new: Any) -> list[Cause] | None:
        if call.resource.plural == REQUEST:
            return [Cause("Forbidden", "node0 has one already; token=s3cr3t-t0ken", "")]
        return None

    stage.server.admission.append(judge)
    result = stage.carry_out(order())
    assert isinstance(result, Declined) and result.code in (403, 422)
    assert "node0 has one already" in result.text and "s3cr3t" not in result.text


def test_without_permission_it_is_declined() -> None:
    stage = WrittenObjects()
    result = stage.carry_out(order(), stage.as_user("nobody"))
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")


# --- a server in trouble -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again_later(code: int) -> None:
    stage = WrittenObjects()

    def overloaded(call: Call, old: Any, new: Any) -> None:
        raise ApiError(code, "Trouble", "no")

    stage.server.admission.append(overloaded)
    assert isinstance(stage.carry_out(order()), Later)


def test_no_answer_is_later_and_not_leading_goes_up() -> None:
    stage = WrittenObjects()

    def no_answer(method: str, path: str) -> None:
        raise Unreachable("does not answer", where=path)

    stage.writer.before = no_answer
    assert isinstance(stage.carry_out(order()), Later)

    def not_leading(method: str, path: str) -> None:
        raise NotLeading

    stage.writer.before = not_leading
    with pytest.raises(NotLeading):
        stage.carry_out(order())


def test_an_answer_that_is_lost_makes_no_second_request() -> None:
    stage = WrittenObjects()

    def lost(method: str, path: str) -> None:
        if method == "POST":
            raise Unreachable("the connection broke", where=path)

    stage.writer.after = lost
    assert isinstance(stage.carry_out(order(2)), Later)
    stage.writer.after = None
    assert stage.carry_out(order(2)) == Done(written=False)
    assert stage.size("dds-r") == 2 and len(stage.admin.list(REQUEST)) == 1


def test_a_kind_that_is_not_served_is_later() -> None:
    stage = WrittenObjects()
    del stage.served[REQUEST]
    assert isinstance(stage.carry_out(order()), Later)
    assert stage.writer.requests == {}


# --- lowered -----------------------------------------------------------------------------------------------------------


class Three:
    """A request with three devices, some of them marked."""

    def __init__(self, *marked: str) -> None:
        self.stage = WrittenObjects()
        self.uid = uid_of(self.stage.request("dds-r", 3, **OURS))
        self.devices = {
            name: uid_of(self.stage.resource(name, "dds-r", mark=name in marked)) for name in ("a", "b", "c")
        }

    def lower(self, *victims: str, size: int | None = None) -> Any:
        uids = frozenset(self.devices[name] for name in victims)
        return self.stage.carry_out(LowerRequest("dds-r", self.uid, 3 - len(uids) if size is None else size, 3, uids))


def test_a_size_is_lowered_once_by_the_marked_victims() -> None:
    three = Three("a", "b")
    assert three.lower("a", "b") == Done()
    assert three.lower("a", "b") == Done(written=False)
    assert three.stage.size("dds-r") == 1 and three.stage.writes == 1


def test_without_victims_a_size_falls_to_what_is_there() -> None:
    stage = WrittenObjects()
    request = uid_of(stage.request("dds-r", 3, **OURS))
    stage.resource("a", "dds-r")
    stage.resource("b", "dds-r")
    assert isinstance(stage.carry_out(LowerRequest("dds-r", request, 1, 3, frozenset())), Obsolete), (
        "one has come since"
    )
    assert stage.carry_out(LowerRequest("dds-r", request, 2, 3, frozenset())) == Done()
    assert stage.size("dds-r") == 2


def test_nothing_goes_while_another_device_would_go_first() -> None:
    three = Three("a")
    three.stage.resource("d", "dds-r", state="Attaching")
    assert isinstance(three.lower("a"), Obsolete)
    assert three.stage.size("dds-r") == 3


def test_nothing_goes_while_one_of_the_number_is_still_being_attached() -> None:
    three = Three("a")
    three.stage.edit(RESOURCE, "c", {"status": {"state": "Attaching"}}, subresource="status")
    assert isinstance(three.lower("a"), Obsolete)
    assert three.stage.size("dds-r") == 3


def stranded(three: Three, *names: str) -> frozenset[str]:
    for name in names:
        three.stage.edit(RESOURCE, name, {"status": {"state": "Attaching"}}, subresource="status")
    three.stage.edit(REQUEST, "dds-r", {"status": {"state": "Updating"}}, subresource="status")
    return frozenset(three.devices[name] for name in names)


def test_marked_ones_go_beside_one_that_is_stranded() -> None:
    three = Three("a")
    there = stranded(three, "c")
    victims = frozenset({three.devices["a"]})
    assert isinstance(three.stage.carry_out(LowerRequest("dds-r", three.uid, 2, 3, victims)), Obsolete)
    assert three.stage.carry_out(LowerRequest("dds-r", three.uid, 2, 3, victims, stranded=there)) == Done()


def test_a_device_of_another_request_does_not_matter() -> None:
    three = Three("a")
    three.stage.resource("d", "other", state="Attaching", mark=True)
    assert three.lower("a") == Done()


def hang(three: Three, name: str, **status: str) -> None:
    """The fabric has nothing for it."""
    said = {"state": "Attaching", "error": "no free resource", "device_id": "", "cdi_device_id": "", **status}
    three.stage.edit(RESOURCE, name, {"status": said}, subresource="status")


def call_off(three: Three, *victims: str) -> Any:
    uids = frozenset(three.devices[name] for name in victims)
    return three.stage.carry_out(LowerRequest("dds-r", three.uid, 3 - len(uids), 3, uids, unattached=True))


@pytest.mark.parametrize("marked", [(), ("c",)])
def test_what_has_no_device_is_called_off_marked_or_not_and_is_not_touched(marked: tuple[str, ...]) -> None:
    """Any change of it would make the operator order again."""
    three = Three(*marked)
    hang(three, "c")
    before = three.stage.get(RESOURCE, "c")
    assert call_off(three, "c") == Done()
    assert call_off(three, "c") == Done(written=False)
    assert three.stage.size("dds-r") == 2 and three.stage.writes == 1
    assert three.stage.get(RESOURCE, "c") == before


CAME = [{"state": "Online"}, {"device_id": "GPU-1"}, {"cdi_device_id": "res-1"}]


@pytest.mark.parametrize("marked", [(), ("b", "c")])
@pytest.mark.parametrize("came", CAME)
def test_nothing_is_called_off_once_a_device_has_come(came: dict[str, str], marked: tuple[str, ...]) -> None:
    three = Three(*marked)
    hang(three, "b")
    hang(three, "c", **came)
    assert isinstance(call_off(three, "b", "c"), Obsolete)
    assert three.stage.size("dds-r") == 3


@pytest.mark.parametrize("came", CAME[1:])
def test_nor_once_one_has_come_for_another_that_attaches(came: dict[str, str]) -> None:
    """The operator may take any resource that has no device yet."""
    three = Three()
    hang(three, "b", **came)
    hang(three, "c")
    assert isinstance(call_off(three, "c"), Obsolete)
    assert three.stage.size("dds-r") == 3


def test_nothing_is_called_off_when_the_size_is_not_the_number_of_those_that_stay() -> None:
    three = Three()
    hang(three, "c")
    lower = LowerRequest("dds-r", three.uid, 1, 3, frozenset({three.devices["c"]}), unattached=True)
    assert isinstance(three.stage.carry_out(lower), Obsolete)
    three.stage.resource("d", "dds-r", state="Attaching")
    assert isinstance(call_off(three, "c"), Obsolete), "one has come since"
    three.stage.admin.delete(RESOURCE, "d")
    three.stage.admin.delete(RESOURCE, "c")
    assert isinstance(call_off(three, "c"), Obsolete), "it has gone by itself"
    assert three.stage.size("dds-r") == 3


def test_nothing_is_called_off_when_demand_rose_in_between_or_the_operator_has_not_acted() -> None:
    three = Three()
    hang(three, "c")
    wanted = three.stage.get(REQUEST, "dds-r")["spec"]["resource"]
    three.stage.edit(REQUEST, "dds-r", {"status": {"scalarResource": {**wanted, "size": 2}}}, subresource="status")
    assert isinstance(call_off(three, "c"), Obsolete)
    three.stage.edit(REQUEST, "dds-r", {"status": {"scalarResource": wanted}}, subresource="status")
    three.stage.meanwhile("PATCH", lambda: three.stage.edit(REQUEST, "dds-r", {"spec": {"resource": {"size": 4}}}))
    assert isinstance(call_off(three, "c"), Obsolete)
    assert three.stage.size("dds-r") == 4


@pytest.mark.parametrize("marked", [(), ("b",), ("a", "b")])
def test_nothing_goes_when_the_marks_are_not_the_victims(marked: tuple[str, ...]) -> None:
    three = Three(*marked)
    assert isinstance(three.lower("a"), Obsolete)
    assert three.stage.size("dds-r") == 3


def test_nothing_goes_when_the_size_is_not_the_number_of_those_that_stay() -> None:
    three = Three("a")
    assert isinstance(three.lower("a", size=1), Obsolete)


def test_nothing_goes_while_the_operator_is_not_done() -> None:
    three = Three("a")
    three.stage.edit(REQUEST, "dds-r", {"status": {"state": "Updating"}}, subresource="status")
    assert isinstance(three.lower("a"), Obsolete)
    wanted = three.stage.get(REQUEST, "dds-r")["spec"]["resource"]
    acted = {"status": {"state": "Running", "scalarResource": {**wanted, "size": 2}}}
    three.stage.edit(REQUEST, "dds-r", acted, subresource="status")
    assert isinstance(three.lower("a"), Obsolete)


def test_nothing_goes_when_demand_rose_in_between() -> None:
    three = Three("a")
    three.stage.meanwhile("PATCH", lambda: three.stage.edit(REQUEST, "dds-r", {"spec": {"resource": {"size": 4}}}))
    assert isinstance(three.lower("a"), Obsolete)
    assert three.stage.size("dds-r") == 4


def test_nothing_goes_when_a_device_has_left_by_itself() -> None:
    three = Three("a")
    three.stage.admin.delete(RESOURCE, "c")
    assert isinstance(three.lower("a"), Obsolete)


def test_a_request_that_is_being_deleted_is_left_alone() -> None:
    three = Three("a")
    three.stage.edit(REQUEST, "dds-r", {"metadata": {"finalizers": ["com.ie.ibm.hpsys/finalizer"]}})
    three.stage.admin.delete(REQUEST, "dds-r")
    assert isinstance(three.lower("a"), Obsolete)
    assert isinstance(three.stage.carry_out(order(4, 3, three.uid)), Obsolete)
    assert three.stage.writes == 0


# --- stamped -----------------------------------------------------------------------------------------------------------


def test_a_leaders_epoch_is_stamped_once_and_never_taken_back() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    stamp = StampEpoch("dds-r", uid, "cohdi.io/epoch", 4)
    assert stage.carry_out(stamp) == Done()
    assert stage.carry_out(stamp) == Done(written=False)
    assert stage.carry_out(StampEpoch("dds-r", uid, "cohdi.io/epoch", 3)) == Done(written=False)
    assert stage.get(REQUEST, "dds-r")["metadata"]["annotations"] == {"cohdi.io/epoch": "4"}


def test_a_write_that_was_compared_before_the_stamp_fails() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.request("dds-r", 1, **OURS))
    stamp = StampEpoch("dds-r", uid, "cohdi.io/epoch", 4)

    def takes_over() -> None:
        other = stage.as_user("other", "system:masters")
        assert stamp.carry_out(other, stage.versions) == Done()
        stage.edit(REQUEST, "dds-r", {"spec": {"resource": {"size": 2}}})

    stage.meanwhile("PATCH", takes_over)
    assert stage.carry_out(order(2, 1, uid)) == Done(written=False)
    assert stage.size("dds-r") == 2
