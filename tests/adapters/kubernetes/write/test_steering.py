"""Hand-over mode `clear`: at its one moment, on what was signalled, and never under anybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS, Signalled, SteerPod, TellClaims, Telling
from dds_adapters.kubernetes.write.devices import LabelNode
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.tasks import Declined, Done, Obsolete
from dds_core.scaler.events import Entry
from tests.support.roles import EVERYTHING, role
from tests.support.written_life import live_through
from tests.support.written_objects import GPU, POOL, RESCHEDULE, WrittenObjects, uid_of

WHEN = "2026-01-02T03:04:05Z"


class Failed:
    """A pod after its failed binding, with claims c (one device) and d (two) that were signalled."""

    def __init__(self) -> None:
        self.stage = WrittenObjects()
        self.pod = self.stage.pod("p", "SchedulerError")
        self.claims = [self._signalled("c", "dev-0"), self._signalled("d", "dev-1", "dev-2")]
        self.stage.writer.requests.clear()

    def _signalled(self, name: str, *devices: str) -> Signalled:
        made = self.stage.allocated(name, *devices)
        path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}"
        allocation = decoding.claim(self.stage.writer.ask("GET", path).body).allocation
        assert allocation is not None
        ref = Ref(CLAIMS, name, "default", uid_of(made))
        entries = tuple(Entry(GPU, POOL, device, RESCHEDULE, "DeviceAttached", "") for device in devices)
        assert self.stage.carry_out(TellClaims((Telling(ref, allocation, entries),), WHEN)) == Done()
        return Signalled(ref, allocation, frozenset((GPU, POOL, device) for device in devices))

    @property
    def write(self) -> SteerPod:
        return SteerPod(Ref("pods", "p", "default", uid_of(self.pod)), "node0", tuple(self.claims))

    def nominated(self) -> str:
        return str(self.stage.get("pods", "p", "default")["status"].get("nominatedNodeName", ""))

    def allocated(self) -> list[str]:
        claims = (self.stage.get(CLAIMS, name, "default") for name in ("c", "d"))
        return [one["metadata"]["name"] for one in claims if one["status"].get("allocation")]

    def edit_pod(self, status: dict[str, object]) -> None:
        self.stage.edit("pods", "p", {"status": status}, "default", "status")


def test_the_node_is_nominated_before_the_allocations_are_cleared_once() -> None:
    failed = Failed()
    order: list[str] = []
    failed.stage.writer.before = lambda method, path: order.append(path) if method == "PATCH" else None
    assert failed.stage.carry_out(failed.write) == Done()
    assert failed.nominated() == "node0" and failed.allocated() == []
    assert [path.split("/")[-3:] for path in order] == [
        ["pods", "p", "status"],
        ["resourceclaims", "c", "status"],
        ["resourceclaims", "d", "status"],
    ]
    assert failed.stage.carry_out(failed.write) == Done(written=False)
    assert failed.stage.writes == 3


def test_what_the_scheduler_cleared_itself_needs_no_more() -> None:
    failed = Failed()
    failed.stage.deallocate("c")
    assert failed.stage.carry_out(failed.write) == Done()
    assert failed.allocated() == [] and failed.stage.writes == 2


def test_after_a_crash_between_the_writes_the_rest_is_done() -> None:
    failed = Failed()
    failed.edit_pod({"nominatedNodeName": "node0"})
    failed.stage.deallocate("c")
    assert failed.stage.carry_out(failed.write) == Done()
    assert failed.allocated() == [] and failed.stage.writes == 1


def _bound(failed: Failed) -> None:
    failed.stage.node("node0")
    failed.stage.admin.bind("p", "default", "node0")


def _reserved(failed: Failed) -> None:
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    failed.stage.edit(CLAIMS, "d", {"status": reserved}, "default", "status")


def _allocated_anew(failed: Failed) -> None:
    failed.stage.deallocate("c")
    failed.stage.allocate("c", "dev-0", node="node1")


def _made_anew(failed: Failed) -> None:
    failed.stage.admin.delete("pods", "p", "default", grace=0)
    failed.stage.pod("p", "SchedulerError")


_WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}


@pytest.mark.parametrize(
    "change",
    [
        _bound,
        _reserved,
        _allocated_anew,
        _made_anew,
        lambda failed: failed.stage.leaving("pods", "p", "default"),
        lambda failed: failed.stage.leaving(CLAIMS, "d", "default"),
        lambda failed: failed.edit_pod({"nominatedNodeName": "node1"}),
        lambda failed: failed.edit_pod({"conditions": [_WAITS]}),
        lambda failed: failed.stage.edit(CLAIMS, "c", {"status": {"devices": None}}, "default", "status"),
    ],
    ids=[
        "bound",
        "reserved",
        "allocated anew",
        "made anew",
        "pod leaves",
        "claim leaves",
        "nominated elsewhere",
        "another reason",
        "not signalled",
    ],
)
def test_at_any_other_moment_nothing_is_written(change: Callable[[Failed], None]) -> None:
    failed = Failed()
    change(failed)
    before = failed.allocated()
    assert isinstance(failed.stage.carry_out(failed.write), Obsolete)
    assert failed.allocated() == before and failed.stage.writes == 0


def test_a_claim_that_is_reserved_meanwhile_keeps_its_allocation() -> None:
    failed = Failed()
    calls = iter(range(9))

    def reserve() -> None:
        if next(calls) == 1:  # after the nomination
            reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
            failed.stage.edit(CLAIMS, "c", {"status": reserved}, "default", "status")

    failed.stage.meanwhile("PATCH", reserve, times=9)
    assert isinstance(failed.stage.carry_out(failed.write), Obsolete)
    assert failed.allocated() == ["c", "d"]


# -- every kind of write with exactly the scaler's role, and not one request more than it allows


def test_every_kind_of_write_is_allowed() -> None:
    stage = WrittenObjects()
    dds = stage.grant("dds", role("cluster"))
    live_through(stage, lambda write: write.carry_out(dds, stage.versions))


def test_a_power_that_is_off_declines_its_writes_in_one_line() -> None:
    stage = WrittenObjects()
    dds = stage.grant("dds", role("cluster", EVERYTHING - {"labels"}))
    node = stage.node("node0")
    result = LabelNode("node0", uid_of(node), (("a", "1"),)).carry_out(dds, stage.versions)
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")
    assert "nodes" in result.text and "\n" not in result.text
    assert stage.get("nodes", "node0") == node
