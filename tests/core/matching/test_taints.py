"""Taints keep requests away that do not tolerate them (KEP-5055); rules put them on devices of others."""

from typing import Any

import pytest

from dds_core.matching.allocator import Gates
from dds_core.matching.from_api import read_rule
from dds_core.model import Taint, TaintRule, Toleration
from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    claim,
    device,
    devices,
    exactly,
    slice_of,
    written_claim,
    written_class,
)

OBEYED = Gates(device_taint_rules=True)


def tainted(effect: str, key: str = "down", value: str = "yes") -> dict[str, Any]:
    return device("bad", taints=[{"key": key, "value": value, "effect": effect}])


@pytest.mark.parametrize(
    ("effect", "first"), [("NoSchedule", "good"), ("NoExecute", "good"), ("None", "bad"), ("Newer", "bad")]
)
def test_which_effects_stop_an_allocation(effect: str, first: str) -> None:
    assert devices(allocator(slice_of(tainted(effect), "good")).allocate(NODE, [claim()])) == [first]


@pytest.mark.parametrize(
    ("toleration", "accepted"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "down", "operator": "Exists"}, True),
        ({"key": "down", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "down", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "down", "value": "yes"}, True),
        ({"key": "down", "operator": "Equal", "value": "no"}, False),
        ({"key": "down"}, False),
    ],
)
def test_which_tolerations_accept_a_taint(toleration: dict[str, Any], accepted: bool) -> None:
    asks = exactly(tolerations=[toleration])
    fit = allocator(slice_of(tainted("NoSchedule"))).allocate(NODE, [claim(asks)])
    assert bool(fit) is accepted
    if fit:
        made = fit.allocations[0].to_object(written_claim(asks), {"gpu": written_class()})
        assert made["devices"]["results"][0]["tolerations"] == [toleration]


def test_an_unknown_operator_accepts_nothing() -> None:
    """Kubernetes, core/v1 and resource/v1 ToleratesTaint: the default of the switch over operators is false."""
    assert not Toleration("down", "Newer", "yes").tolerates(Taint("down", "yes", "NoSchedule"))


def rule(effect: str = "NoSchedule", **selector: str) -> TaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "drain", "effect": effect}}
    return read_rule({"metadata": {"name": "drain"}, "spec": spec})


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ({}, []),
        ({"driver": GPU}, []),
        ({"driver": GPU, "pool": "node0", "device": "d0"}, ["d1"]),
        ({"device": "d1"}, ["d0"]),
        ({"driver": "other.example.com", "device": "d0"}, ["d0", "d1"]),
        ({"pool": "node1"}, ["d0", "d1"]),
    ],
)
def test_what_a_rule_covers(selector: dict[str, str], left: list[str]) -> None:
    chosen = allocator(slice_of("d0", "d1"), rules=[rule(**selector)], gates=OBEYED)
    for count in (2, 1):
        fit = chosen.allocate(NODE, [claim(exactly(count=count))])
        if fit:
            assert devices(fit) == left
            return
    assert left == []


@pytest.mark.parametrize("bug", [True, False])
def test_a_rule_without_a_selector_covers_all_up_to_1_37_0_and_then_nothing(bug: bool) -> None:
    """Kubernetes issue 141620, mended by pull 141648 (1.38) and 141998 (1.37.1)."""
    bare = read_rule({"metadata": {"name": "bare"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}})
    gates = Gates(device_taint_rules=True, taint_without_selector=bug)
    assert bool(allocator(slice_of("d0"), rules=[bare], gates=gates).allocate(NODE, [claim()])) is not bug


def test_rules_come_and_go_and_are_tolerated() -> None:
    chosen = allocator(slice_of("d0"), gates=OBEYED)
    chosen.put_rule(rule())
    assert not chosen.allocate(NODE, [claim()])
    assert chosen.allocate(NODE, [claim(exactly(tolerations=[{"key": "drain", "operator": "Exists"}]))])
    chosen.put_rule(rule("None"))
    assert chosen.allocate(NODE, [claim()])
    chosen.put_rule(rule())
    chosen.remove_rule("drain")
    chosen.remove_rule("drain")
    assert chosen.allocate(NODE, [claim()])


@pytest.mark.parametrize("gates", [Gates(), Gates(device_taints=False, device_taint_rules=True)])
def test_rules_that_are_served_need_not_be_obeyed(gates: Gates) -> None:
    assert allocator(slice_of("d0"), rules=[rule()], gates=gates).allocate(NODE, [claim()])
