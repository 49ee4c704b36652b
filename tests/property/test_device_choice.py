"""Device choice against a search without any cleverness: every way to give devices to requests, in the order of first fit, each
judged on its own. The first that is allowed must be what the allocator finds; when none is, it must find nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dds_core.matching.allocator import AllocationError, InUse
from dds_core.matching.devices import lookup
from dds_core.matching.quantities import parse
from dds_core.matching.search import prevented
from dds_core.model import Alternative, Claim, Device, Slice
from tests.core.matching.given import GPU, NODE, allocator, asked, claim, device, first_of, slice_of
from tests.support.drawn import examples

Object = dict[str, Any]
Named = tuple[str, Device]
Choice = list[tuple[int, str, Alternative, tuple[Named, ...]]]
"""By request: index of the claim, the name of its results, the alternative, its devices with their names."""

MODEL = f"device.attributes['{GPU}'].model == "
COUNTERS = [{"name": "set", "counters": {"units": {"value": "3"}}}]


@st.composite
def devices(draw: st.DrawFn, name: str) -> Object:
    attributes: Object = {"model": draw(st.sampled_from("ab"))}
    if draw(st.booleans()):
        attributes["root"] = draw(st.integers(0, 1))
    more: Object = {}
    if draw(st.booleans()):
        more["capacity"] = {
            "memory": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "2"}}}
        }
        more["allowMultipleAllocations"] = True
    elif draw(st.booleans()):
        more["capacity"] = {"memory": draw(st.sampled_from(["2", "4"]))}
    if draw(st.booleans()):
        units = str(draw(st.integers(1, 2)))
        more["consumesCounters"] = [{"counterSet": "set", "counters": {"units": {"value": units}}}]
    if draw(st.integers(0, 4)) == 0:
        more["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    return device(name, attributes, **more)


@st.composite
def alternatives(draw: st.DrawFn) -> Object:
    more: Object = {}
    if draw(st.integers(0, 4)) == 0:
        more["allocationMode"] = "All"
    else:
        more["count"] = draw(st.integers(1, 2))
    if draw(st.integers(0, 2)) == 0:
        more["capacity"] = {"memory": draw(st.sampled_from(["1", "2", "3"]))}
    if draw(st.booleans()):
        more["tolerations"] = [{"operator": "Exists"}]
    selectors = draw(st.sampled_from([(), (f"{MODEL}'a'",), (f"{MODEL}'b'",)]))
    return asked(*selectors, **more)


@st.composite
def requests(draw: st.DrawFn, name: str) -> Object:
    if draw(st.booleans()):
        return first_of(name, x=draw(alternatives()), y=draw(alternatives()))
    exact = draw(alternatives())
    if draw(st.integers(0, 5)) == 0:
        exact["adminAccess"] = True
    return {"name": name, "exactly": exact}


@st.composite
def claims(draw: st.DrawFn, name: str, most: int) -> Claim:
    wanted = [draw(requests(f"r{index}")) for index in range(draw(st.integers(1, most)))]
    kind = draw(st.sampled_from(["", "", "matchAttribute", "distinctAttribute"]))
    more: Object = {}
    if kind:
        named = draw(st.sampled_from([[], ["r0"], ["r0/x"], ["r0", "r1"]]))
        more["constraints"] = [{"requests": named, kind: f"{GPU}/{draw(st.sampled_from(['model', 'root']))}"}]
    return claim(*wanted, name=name, **more)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Slice, list[Claim], InUse]:
    slice_ = slice_of(*(draw(devices(f"d{index}")) for index in range(draw(st.integers(1, 4)))), name="parts", slices=2)
    in_use = InUse()
    for name, each in slice_.devices.items():
        if draw(st.integers(0, 3)) == 0:
            result: Object = {"driver": GPU, "pool": NODE.name, "device": name}
            if each.shared:
                result |= {"shareID": "s", "consumedCapacity": {"memory": draw(st.sampled_from(["1", "3"]))}}
            in_use.add({"devices": {"results": [result]}})
    return slice_, [draw(claims("one", 2)), *draw(st.lists(claims("two", 1), max_size=1))], in_use


# -- the search without cleverness ---------------------------------------------------------------------------


def selected(asked_: Alternative, each: Device) -> bool:
    wanted = [one.removeprefix(MODEL).strip("'") for one in asked_.selectors]
    return all(each.attributes["model"] == model for model in wanted)


def amount(asked_: Alternative, each: Device) -> int | None:
    """What a device gives of its memory, in whole units; None when it cannot."""
    wanted = parse(asked_.capacity["memory"]).integer if "memory" in asked_.capacity else None
    if "memory" not in each.capacity:
        return 0 if wanted is None else None
    full = parse(each.capacity["memory"]).integer
    if not each.shared:
        return 0 if wanted is None or wanted <= full else None
    if wanted is None:
        return 1
    return 1 + -(-(wanted - 1) // 2) * 2


def has_room(asked_: Alternative, name: str, each: Device, in_use: InUse) -> bool:
    need = amount(asked_, each)
    return need is not None and (not each.shared or had(in_use, name) + need <= 4)


def had(in_use: InUse, name: str) -> int:
    amounts = in_use.consumed.get((GPU, NODE.name, name), {})
    return amounts.get("memory", 0) // 10**9


def ways(index: int, claims_: list[Claim], slice_: Slice, in_use: InUse) -> Iterator[Choice]:
    """Every way to give devices to the requests of the claims from `index` on, in the order of first fit."""
    flat = [(number, request) for number, one in enumerate(claims_) for request in one.requests]
    if index == len(flat):
        yield []
        return
    number, request = flat[index]
    for alternative in request.alternatives:
        matching = [one for one in slice_.devices.items() if selected(alternative, one[1])]
        if alternative.all:
            fitting = [one for one in matching if has_room(alternative, *one, in_use)]
            sets = [tuple(fitting)] if fitting else []
        else:
            sets = list(combinations(matching, alternative.count))
        for chosen in sets:
            for rest in ways(index + 1, claims_, slice_, in_use):
                yield [(number, alternative.named(request.name), alternative, chosen), *rest]


def allowed(choice: Choice, claims_: list[Claim], slice_: Slice, in_use: InUse) -> bool:
    """Whether a way breaks no rule."""
    whole: dict[str, set[int]] = {}
    memory: dict[str, int] = {name: had(in_use, name) for name in slice_.devices}
    drawn = {name for name in slice_.devices if in_use.takes((GPU, NODE.name, name))}
    for number, _, alternative, chosen in choice:
        for name, each in chosen:
            need = amount(alternative, each)
            if need is None or prevented(each.taints, alternative.tolerations):
                return False
            holders = whole.setdefault(name, set())
            if alternative.admin:
                if number in holders:
                    return False
            elif holders or (GPU, NODE.name, name) in in_use.devices:
                return False
            if each.shared:
                memory[name] += need
                if memory[name] > 4:
                    return False
            else:
                holders.add(number)
    return counters_hold(choice, slice_, drawn) and constraints_hold(choice, claims_)


def counters_hold(choice: Choice, slice_: Slice, drawn: set[str]) -> bool:
    """A device that is in use is charged already; one that is given whole, once more each time (administrators)."""
    units = units_of(slice_)
    total = sum(units[name] for name in drawn)
    shared = {name for name, each in slice_.devices.items() if each.shared and name in drawn}
    for *_, chosen in choice:
        for name, each in chosen:
            if name not in shared and units[name]:
                total += units[name]
                if total > 3:
                    return False
            if each.shared:
                shared.add(name)
    return True


def units_of(slice_: Slice) -> dict[str, int]:
    """What each device draws on the counter."""
    drawn = {name: each.consumes.get("set", {}).values() for name, each in slice_.devices.items()}
    return {name: sum(parse(text).integer for text in texts) for name, texts in drawn.items()}


def constraints_hold(choice: Choice, claims_: list[Claim]) -> bool:
    for number, one in enumerate(claims_):
        for constraint in one.constraints:
            values = [
                lookup(each, constraint.match or constraint.distinct, GPU)
                for which, result, _, chosen in choice
                if which == number
                if not constraint.requests or {result, result.partition("/")[0]} & set(constraint.requests)
                for _, each in chosen
            ]
            if None in values:
                return False
            if constraint.match and len(set(values)) > 1:
                return False
            if constraint.distinct and len(set(values)) < len(values):
                return False
    return True


@examples(100, 400)
@given(instances())
def test_the_first_way_that_is_allowed_is_found(instance: tuple[Slice, list[Claim], InUse]) -> None:
    slice_, claims_, in_use = instance
    counters = slice_of(name="counters", slices=2, sharedCounters=COUNTERS)
    chosen = allocator(slice_, counters, in_use=in_use)
    try:
        fit = chosen.allocate(NODE, claims_)
    except AllocationError as error:
        assert "because a claim constraint would not be satisfied" in str(error)
        return
    found = [[(result.request, result.device) for result in each.results] for each in fit.allocations]
    for way in ways(0, claims_, slice_, in_use):
        if allowed(way, claims_, slice_, in_use):
            expected = [
                [(result, name) for which, result, _, given_ in way if which == number for name, _ in given_]
                for number in range(len(claims_))
            ]
            assert found == expected
            return
    assert not fit, f"nothing is allowed, and found was {found}"


@examples(30, 100)
@given(instances())
def test_a_stream_of_claims_never_takes_more_than_there_is(instance: tuple[Slice, list[Claim], InUse]) -> None:
    slice_, claims_, _ = instance
    counters = slice_of(name="counters", slices=2, sharedCounters=COUNTERS)
    chosen = allocator(slice_, counters)
    memory: dict[str, int] = {}
    holders: dict[str, int] = {}
    for one in claims_ * 4:
        try:
            fit = chosen.allocate(NODE, [one])
        except AllocationError:
            continue
        for each in fit.allocations:
            chosen.in_use.add(each.to_object())
            for result in each.results:
                name = result.device
                if result.admin:
                    continue
                if result.share:
                    memory[name] = memory.get(name, 0) + sum(
                        parse(amount).integer for amount in result.consumed.values()
                    )
                else:
                    holders[name] = holders.get(name, 0) + 1
    assert all(total <= 4 for total in memory.values())
    assert all(count == 1 for count in holders.values())
    units = units_of(slice_)
    taken = {name for _, _, name in (*chosen.in_use.devices, *chosen.in_use.shares)}
    assert sum(units[name] for name in taken) <= 3
