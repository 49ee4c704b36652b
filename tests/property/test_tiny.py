"""All orders of facts in tiny clusters (`tiny`): no invariant is ever broken, every pod can be bound from wherever things stand,
and everything can go back."""

from __future__ import annotations

import pytest

from dds_core.model import Claim, FabricResource, Pod, Slice
from dds_core.scaler import exchange, settling
from tests.property.tiny import Size, explored


@pytest.fixture(autouse=True)
def one_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that it obeys is obeyed everywhere; the half second until others do too would double the states."""
    monkeypatch.setattr(settling, "GUARD_SETTLE", 0)


ONE = {
    "one of each": Size(1, 1, 1),
    "two nodes": Size(2, 2, 1),
    "in parts": Size(1, 1, 1, parts=True),
    "nothing can be guarded": Size(1, 1, 1, guards=False, refusals=1),
    "a write comes to nothing": Size(1, 1, 1, refusals=1),
    "the process ends": Size(1, 1, 1, restarts=1),
    "others are late": Size(1, 1, 1, unsettled=True),
    "slices are late": Size(1, 1, 1, late=Slice),
    "pods are late": Size(1, 1, 1, late=Pod),
    "claims are late": Size(1, 1, 1, late=Claim),
    "resources are late": Size(1, 1, 1, late=FabricResource),
}
TROUBLE = {
    "several troubles": Size(1, 1, 1, refusals=2, restarts=1),
    "several troubles, and others late": Size(1, 1, 1, refusals=1, restarts=1, unsettled=True),
    "several troubles, and slices late": Size(2, 1, 1, refusals=1, restarts=1, late=Slice),
}
MORE = {
    "two devices, two claims": Size(1, 2, 2),
    "two devices, two claims, in parts": Size(1, 2, 2, parts=True),
    "two nodes, two devices, two claims": Size(2, 2, 2),
}


def exhausted(size: Size) -> None:
    graph = explored(size)
    assert not graph.wrong, graph.wrong[0]
    for goal, without in ((graph.bound, ("finish", "submit")), (graph.clean, ())):
        stuck = graph.cannot_reach(goal, without)
        assert not stuck, f"{len(stuck)} of {len(goal)} states, such as after {graph.path(stuck[0])}"


@pytest.mark.parametrize("size", ONE.values(), ids=ONE.keys())
def test_whatever_comes_first_with_one_claim(size: Size) -> None:
    exhausted(size)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", TROUBLE.values(), ids=TROUBLE.keys())
def test_whatever_comes_first_in_trouble(size: Size) -> None:
    exhausted(size)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", MORE.values(), ids=MORE.keys())
def test_whatever_comes_first_with_more(size: Size) -> None:
    exhausted(size)


def test_what_is_never_taken_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_lift", lambda work, uid: None)
    with pytest.raises(AssertionError, match="states, such as after"):
        exhausted(Size(1, 1, 1))
