"""What a claim can ask for, and what is refused. What is given for it (counts, all devices, alternatives, constraints,
administrators) is held to Kubernetes' own answers in test_against_kubernetes.py."""

from typing import Any

import pytest

from dds_core.matching.allocator import AllocationError, Gates
from dds_core.matching.from_api import read_class
from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    asked,
    claim,
    class_of,
    device,
    devices,
    exactly,
    first_of,
    slice_of,
)

BIG = f"device.attributes['{GPU}'].model == 'big'"
SMALL = f"device.attributes['{GPU}'].model == 'small'"
SIZES = slice_of(device("s0", {"model": "small"}), device("b0", {"model": "big"}), device("s1", {"model": "small"}))
ALL: dict[str, Any] = {"allocationMode": "All"}


# -- selectors -----------------------------------------------------------------------------------------------


def test_a_selector_that_fails_ends_the_allocation_of_the_pod() -> None:
    chosen = allocator(slice_of("bare"))
    with pytest.raises(AllocationError, match="no such key: model") as caught:
        chosen.allocate(NODE, [claim(exactly("gpu", BIG))])
    error = caught.value
    assert (error.claim, error.request) == ("default/claim", "gpu")
    assert (error.device, error.expression) == (f"{GPU}/node0/bare", BIG)


def test_a_failing_selector_of_a_class_names_the_class() -> None:
    with pytest.raises(
        AllocationError, match=r"claim default/claim, request gpu: class big: selector .* no such key: model"
    ):
        allocator(slice_of("bare"), classes=[class_of("big", BIG)]).allocate(NODE, [claim(exactly(device_class="big"))])


def test_a_selector_that_does_not_compile_ends_it_too() -> None:
    with pytest.raises(AllocationError, match="undeclared reference to 'node'"):
        allocator(SIZES).allocate(NODE, [claim(exactly("gpu", "node == 'x'"))])


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (exactly(device_class="nope"), "could not retrieve device class nope: not found; create the DeviceClass"),
        (exactly(device_class=""), "missing device class name"),
        (exactly(allocationMode="Some"), "unsupported count mode Some"),
        ({"name": "gpu", "exactly": asked() | {"selectors": [{"jsonpath": "x"}]}}, "selector #0: CEL expression empty"),
    ],
)
def test_what_nobody_can_obey_is_refused(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(AllocationError, match=rf"claim default/claim, request gpu: {said}"):
        allocator(SIZES).allocate(NODE, [claim(request_)])


def test_what_is_kept_of_selectors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dds_core.matching.allocator.SELECTORS_KEPT", 5)
    chosen = allocator(SIZES)
    for number in range(20):
        wanted = claim(exactly("gpu", f"{BIG} && {number} >= 0"))
        assert devices(chosen.allocate(NODE, [wanted])) == ["b0"]
    assert all(len(candidate.matches) <= 5 for candidate in chosen._inventory.candidates())


def test_classes_come_change_and_go() -> None:
    chosen = allocator(SIZES)
    wanted = [claim(exactly(device_class="new"))]
    with pytest.raises(AllocationError, match="class new"):
        chosen.allocate(NODE, wanted)
    chosen.put_class(class_of("new", BIG))
    assert devices(chosen.allocate(NODE, wanted)) == ["b0"]
    chosen.put_class(class_of("new", SMALL))
    assert devices(chosen.allocate(NODE, wanted)) == ["s0"]
    chosen.remove_class("new")
    with pytest.raises(AllocationError, match="class new"):
        chosen.allocate(NODE, wanted)


def test_an_extended_resource_is_read() -> None:
    assert class_of("gpu", extendedResourceName="example.com/gpu").extended_resource == "example.com/gpu"
    assert read_class({"metadata": {"name": "bare"}}).selectors == ()


# -- how many ------------------------------------------------------------------------------------------------


def test_a_claim_gets_at_most_32_devices() -> None:
    many = slice_of(*(f"d{i}" for i in range(40)))
    assert len(devices(allocator(many).allocate(NODE, [claim(exactly(count=32))]))) == 32
    for request in (exactly(count=33), exactly(**ALL)):
        with pytest.raises(AllocationError, match=r"number of requested devices \d+ exceeds the claim limit of 32"):
            allocator(many).allocate(NODE, [claim(request)])
    two = [claim(exactly(count=20)), claim(exactly(count=20), name="second")]
    assert allocator(many).allocate(NODE, two)  # the limit is one claim's


def test_an_alternative_that_would_be_too_many_gives_way_to_one_that_is_not() -> None:
    many = slice_of(*(f"d{i}" for i in range(60)))
    wanted = claim(
        first_of("a", lots=asked(count=20), few=asked(count=5)),
        first_of("b", lots=asked(count=25), some=asked(count=15), few=asked(count=10)),
    )
    fit = allocator(many).allocate(NODE, [wanted])
    names = [result.request for result in fit.allocations[0].results]
    assert (names.count("a/lots"), names.count("b/few"), len(names)) == (20, 10, 30)


def test_an_alternative_that_leaves_too_little_for_the_next_request_is_passed_over() -> None:
    many = slice_of(*(f"d{i}" for i in range(60)))
    wanted = claim(first_of("a", lots=asked(count=20), few=asked(count=5)), exactly("b", count=20))
    names = [result.request for result in allocator(many).allocate(NODE, [wanted]).allocations[0].results]
    assert (names.count("a/few"), names.count("b")) == (5, 20)


# -- the first that is available -----------------------------------------------------------------------------


def test_the_first_alternative_that_is_to_be_had() -> None:
    wanted = claim(first_of("gpu", big=asked(BIG, count=2), small=asked(SMALL, count=2), any=asked()))
    fit = allocator(SIZES).allocate(NODE, [wanted])
    assert [(result.request, result.device) for result in fit.allocations[0].results] == [
        ("gpu/small", "s0"),
        ("gpu/small", "s1"),
    ]
    assert fit.score == 8 - 1


def test_the_score_is_the_sum_over_requests_with_alternatives() -> None:
    wanted = [
        claim(first_of("x", first=asked(BIG), second=asked(SMALL)), exactly("plain")),
        claim(first_of("y", big=asked(BIG), small=asked(SMALL)), name="second"),
    ]
    fit = allocator(SIZES).allocate(NODE, wanted)
    assert [result.request for each in fit.allocations for result in each.results] == ["x/first", "plain", "y/small"]
    assert fit.score == 8 + 7
    assert allocator(SIZES).allocate(NODE, [claim()]).score == 0


# -- constraints ---------------------------------------------------------------------------------------------

ROOTS = slice_of(
    device("a0", {"root": "a", "unit": 1}),
    device("b0", {"root": "b", "unit": 1}),
    device("bare"),
    device("b1", {"root": "b", "unit": 2}),
    device("a1", {"root": "a", "unit": 2}),
)
ROOT, UNIT = f"{GPU}/root", f"{GPU}/unit"


def test_devices_that_must_agree_on_an_attribute() -> None:
    chosen = allocator(ROOTS)
    same: dict[str, Any] = {"constraints": [{"matchAttribute": ROOT}]}
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2), **same)])) == ["a0", "a1"]
    assert not chosen.allocate(NODE, [claim(exactly(count=3), **same)])
    chosen.in_use.add({"devices": {"results": [{"driver": GPU, "pool": "node0", "device": "a1"}]}})
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2), **same)])) == ["b0", "b1"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (True, 1, False),
        ("1", 1, False),
        ({"version": "1.0.0"}, "1.0.0", False),
        ({"version": "1.0.0"}, {"version": "1.0.0"}, True),
        (True, True, True),
        ({"strings": ["a"]}, {"strings": ["a"]}, False),  # of a kind that is not known
    ],
)
def test_values_are_equal_only_within_their_type(one: Any, other: Any, same: bool) -> None:
    two = slice_of(device("x", {"root": one}), device("y", {"root": other}))
    assert (
        bool(allocator(two).allocate(NODE, [claim(exactly(count=2), constraints=[{"matchAttribute": ROOT}])])) is same
    )


def test_within_one_request_1_36_compares_neighbours_only() -> None:
    """The rule is that every pair differs."""
    wanted = [claim(exactly(count=3), constraints=[{"distinctAttribute": ROOT}])]
    assert devices(allocator(ROOTS, gates=Gates(faults=True)).allocate(NODE, wanted)) == ["a0", "b0", "a1"]
    assert not allocator(ROOTS).allocate(NODE, wanted)
    two = [claim(exactly(count=2), constraints=[{"distinctAttribute": ROOT}])]
    assert devices(allocator(ROOTS).allocate(NODE, two)) == ["a0", "b0"]


def test_a_device_that_one_constraint_refuses_has_joined_none() -> None:
    """The second device differs in unit and is refused for its root; the third has the same unit and is welcome."""
    three = slice_of(
        device("a1", {"root": "a", "unit": 1}),
        device("b2", {"root": "b", "unit": 2}),
        device("a2", {"root": "a", "unit": 2}),
    )
    both: dict[str, Any] = {"constraints": [{"distinctAttribute": UNIT}, {"matchAttribute": ROOT}]}
    for gates in (Gates(), Gates(faults=True)):
        fit = allocator(three, gates=gates).allocate(NODE, [claim(exactly("x"), exactly("y"), **both)])
        assert devices(fit) == ["a1", "a2"]


def test_a_constraint_that_all_devices_cannot_satisfy_is_an_error() -> None:
    with pytest.raises(
        AllocationError, match=r"cannot add device gpu\.example\.com/node0/b0 because a claim constraint"
    ):
        allocator(ROOTS).allocate(NODE, [claim(exactly(**ALL), constraints=[{"matchAttribute": ROOT}])])


def test_a_constraint_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(AllocationError, match="constraint #0: empty constraint"):
        allocator(ROOTS).allocate(NODE, [claim(exactly(), constraints=[{"requests": ["gpu"]}])])


# -- administrators ------------------------------------------------------------------------------------------
