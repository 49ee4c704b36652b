"""What the steps of an exchange mean in writes. What the state has of it stands in a state of its own here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dds_adapters.kubernetes.write.exchange import ClearAllocation, GiveDevices, GuardDevices, LiftGuards
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.scaler_tasks import Overtaken, tasks_of
from dds_adapters.kubernetes.write.tasks import Declined, Task
from dds_core.model import Allocation, Claim, Consumer, Result
from dds_core.scaler import events as e

AT = 1_700_000_000_000_000
UNTIL = AT + 60_000_000
KEY = ("gpu.nvidia.com", "node0", "gpu-0")
POOL = Result("r0", "gpu.nvidia.com", "pool", "dev-0", ("Ready",), ("Failed",))
USERS = (Consumer("uid-p", "p"),)
CLAIM = Claim("u", "default", "c", allocation=Allocation((POOL,), "node0", timestamp=AT), consumers=USERS)
REF = Ref("resourceclaims", "c", "default", "u")
SWAP = e.Swap("u", (Result("r0", *KEY),), USERS, AT, "d1")
BEGUN = e.ExchangeBegun(pod="uid-p", node="node0", swaps=(SWAP,), until=UNTIL, mode="attach")
CLEARED = e.AllocationCleared(claim="u", mode="attach", node="node0", attempt=1)
GIVEN = e.DevicesGiven(claim="u", mode="attach", node="node0", attempt=1, swap=SWAP, version="7")
LIFTED = e.GuardLifted(claim="u", devices=(KEY,), mode="attach")


def state(**given: Any) -> Any:
    row = SimpleNamespace(swap=SWAP, pod="uid-p", node="node0", attempt=1, until=UNTIL)
    usual = {"guards": "composable-dra", "claims": {"u": CLAIM}, "exchanges": {"u": row}, "skew": None, "live": False}
    known = SimpleNamespace(**{**usual, **given})
    return SimpleNamespace(settings=known, demand=known, hand_over=known, live=known.live)


def task_of(decision: Any, at: int = AT, **given: Any) -> Task:
    (task,) = tasks_of(decision, "id-1", at, state(**given))
    assert (task.decision, task.action, task.at) == ("id-1", type(decision).__name__, at)
    assert task.target == "u" and task.needs == ("observe" if decision is LIFTED else "attach"), (
        "a guard goes in any mode"
    )
    return task


def test_an_exchange_begins_with_a_guard_that_is_soon_seen_or_given_up() -> None:
    task = task_of(BEGUN)
    assert task.write == GuardDevices("composable-dra", (KEY,), UNTIL, "node0")
    guard = "configmaps/dds-guards/gpu.nvidia.com_node0_gpu-0"
    assert task.objects == (guard, "resourceclaims/u") and task.within == 2.0
    assert isinstance(task.too_late, Declined) and task.too_late.reason == "NotGuarded"
    lifted = task_of(LIFTED)
    assert lifted.objects == (guard, "resourceclaims/u"), "after it was set, and after what is written under it"


@pytest.mark.parametrize(("skew", "later"), [(-3_000_000, 3_000_000), (0, 0), (400_000, 0)])
def test_a_guard_ends_by_the_clock_of_a_scheduler_that_is_ahead(skew: int, later: int) -> None:
    assert task_of(BEGUN, skew=skew).write == GuardDevices("composable-dra", (KEY,), UNTIL + later, "node0")


def test_each_write_has_all_that_was_decided_on_and_ends_with_the_guard() -> None:
    assert CLAIM.allocation is not None
    clear, give = task_of(CLEARED), task_of(GIVEN, UNTIL - 1_500_000)
    assert clear.write == ClearAllocation(REF, CLAIM.allocation, USERS, SWAP)
    assert give.write == GiveDevices(REF, SWAP, "node0", "7")
    assert clear.objects == give.objects == ("resourceclaims/u",)
    assert (clear.within, give.within) == (60.0, 1.5)
    assert task_of(LIFTED).write == LiftGuards("composable-dra", (KEY,))


LATER = SimpleNamespace(swap=SWAP, pod="uid-p", node="node0", attempt=2, until=UNTIL)
ELSEWHERE = SimpleNamespace(swap=SWAP, pod="uid-p", node="node1", attempt=1, until=UNTIL)


@pytest.mark.parametrize(
    ("decision", "given"),
    [
        (BEGUN, {"guards": ""}),
        (LIFTED, {"guards": ""}),
        *((one, {"exchanges": rows}) for one in (CLEARED, GIVEN) for rows in ({}, {"u": LATER}, {"u": ELSEWHERE})),
        (CLEARED, {"claims": {"u": Claim("u", "default", "c")}}),
        (CLEARED, {"claims": {}}),
        (GIVEN, {"claims": {}}),
    ],
)
def test_what_the_picture_bears_out_no_more_ends_at_once(decision: Any, given: dict[str, Any]) -> None:
    assert isinstance(task_of(decision, **given).write, Overtaken)


def test_observe_writes_nothing() -> None:
    for decision in (BEGUN, CLEARED, GIVEN, LIFTED):
        fields = {name: getattr(decision, name) for name in decision.__struct_fields__}
        assert tasks_of(type(decision)(**{**fields, "mode": "observe"}), "id-1", AT, state()) == ()
