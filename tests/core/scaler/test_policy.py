"""Every knob within its bounds, one line for what is wrong, and the reference's variables by their meaning."""

import re
from typing import Any

import pytest

from dds_core.errors import DdsError, PolicyError
from dds_core.kit.policy import lower
from dds_core.scaler.policy import LimitPolicy, Policy, from_reference, read_policy

SECONDS = (0, 86_400)
POSITIVE = (1, 86_400)
COUNT = (0, 10_000)
BOUNDS: dict[str, tuple[int, int]] = {
    "scan_interval_seconds": SECONDS,
    "no_removal_seconds": SECONDS,
    "no_allocation_seconds": SECONDS,
    "cool_down_seconds": POSITIVE,
    "detaches_per_hour": COUNT,
    "guard_seconds": POSITIVE,
    "scheduler.binding_timeout_seconds": POSITIVE,
    "scheduler.attach_budget_seconds": (1, 599),
    "limit.max": COUNT,
    "limit.min": (0, 50),
    "limit.fixed": COUNT,
}
CHOICES = {
    "mode": ("observe", "attach", "detach"),
    "detach_without_fence": ("best_effort", "never"),
    "hand_over": ("exchange", "clear"),
    "device_ready": ("listed", "online"),
    "operator_nudge": ("auto", "off"),
    "adoption": ("none", "reference", "all"),
    "driver.request_type": ("gpu", "cxlmemory"),
    "driver.force_detach": (True, False),
    "rebalance": (True, False),
    "prewarm": (True, False),
    "idle": ("fixed", "adaptive"),
}
OTHERS = {
    "attach_cost",
    "idle_hour_cost",
    "scheduler.hand_over",
    "schedulers",
    "limits",
    "drivers",
    "driver.uuid_attribute",
} | {f"driver.{name}" for name in ("parent_attributes", "hardware_attributes", "partition_types")}


def knobs() -> set[str]:
    """Every field of the policy, those of its parts by dotted name."""
    parts = ("scheduler", "limit", "driver")
    inner = {f"{part}.{name}" for part in parts for name in type(getattr(Policy(), part)).model_fields}
    return inner | (Policy.model_fields.keys() - set(parts))


def written(name: str, value: Any) -> dict[str, Any]:
    part, _, field = name.rpartition(".")
    return {part: {field: value}} if part else {field: value}


def one_line(error: DdsError) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_every_knob_is_tested_here() -> None:
    assert knobs() == BOUNDS.keys() | CHOICES.keys() | OTHERS


def test_every_knob_says_what_it_is_for() -> None:
    for model in (Policy, LimitPolicy, type(Policy().scheduler), type(Policy().driver)):
        for name, field in model.model_fields.items():
            assert field.description, name


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_is_taken_at_its_bounds_and_refused_beyond(name: str) -> None:
    low, high = BOUNDS[name]
    for good in (low, high):
        read_policy(written(name, good))
    for bad in (low - 1, high + 1, str(low), low + 0.5, True, [low]):
        with pytest.raises(PolicyError, match=re.escape(name.rpartition(".")[0] or name)) as error:
            read_policy(written(name, bad))
        one_line(error.value)


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_takes_its_words_and_no_other(name: str) -> None:
    for good in CHOICES[name]:
        read_policy(written(name, good))
    for bad in ("", "Detach", 1, None):
        with pytest.raises(PolicyError, match=re.escape(name)) as error:
            read_policy(written(name, bad))
        one_line(error.value)


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ({"no_such_knob": 1}, "no_such_knob: is no field here;"),
        ({"scan_interval_second": 1}, "scan_interval_second: is no field here: did you mean scan_interval_seconds?"),
        ({"limits": {"A100 40G": {"mxa": 1}}}, "limits.A100 40G.mxa: is no field here: did you mean max?"),
        ({"limit": {"most": 1}}, "limit.most: is no field here; known: "),
        ({"drivers": {"gpu": {"uuid_atribute": "x"}}}, "did you mean uuid_attribute?"),
        ({"limit": {"max": 1, "min": 2}}, "min must not be above max"),
        ({"limits": {"A100": {"max": 1, "min": 2}}}, "limits.A100"),
        (
            {"scheduler": {"binding_timeout_seconds": 100, "attach_budget_seconds": 100}},
            "below binding_timeout_seconds",
        ),
        ({"schedulers": {"own": {"binding_timeout_seconds": 0}}}, "schedulers.own"),
        ({"driver": {"uuid_attribute": ""}}, "driver.uuid_attribute"),
        ({"drivers": {"gpu.example.com": {"partition_types": [1]}}}, "drivers.gpu.example.com"),
        ({"mode": {1, 2}}, "policy"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(policy: dict[str, Any], word: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(word)) as error:
        read_policy(policy)
    one_line(error.value)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(PolicyError) as error:
        read_policy({"mode": "on", "no_removal_seconds": -1, "limit": {"max": 10_001}})
    assert all(name in one_line(error.value) for name in ("mode", "no_removal_seconds", "limit.max"))


def test_the_defaults_are_safe() -> None:
    policy = Policy()
    assert (policy.mode, policy.prewarm, policy.adoption) == ("observe", False, "reference")
    assert (policy.scan_interval_seconds, policy.no_removal_seconds, policy.no_allocation_seconds) == (60, 600, 60)
    assert (policy.limit.min, policy.limit.max) == (0, 50)
    assert policy.attach_budget("") == 540_000_000


def test_a_policy_survives_its_json_form() -> None:
    policy = read_policy(
        {"mode": "detach", "limits": {"node0/A100": {"max": 3}}, "drivers": {"d": {"partition_types": ["m"]}}}
    )
    assert read_policy(policy.model_dump(mode="json")) == policy


@pytest.mark.parametrize("learned", [None, 700_000_000, 120_000_000, 1_000_000])
def test_the_budget_lies_below_the_time_out(learned: int | None) -> None:
    policy = read_policy({"scheduler": {"binding_timeout_seconds": 300, "attach_budget_seconds": 200}})
    budget = policy.attach_budget("default-scheduler", learned)
    assert 0 < budget < min(300_000_000, learned or 300_000_000)


@pytest.mark.parametrize(
    ("one", "other", "lower_one"),
    [
        ("detach", "attach", "attach"),
        ("observe", "detach", "observe"),
        ("attach", "", "attach"),
        ("detach", "detach", "detach"),
    ],
)
def test_the_lower_of_two_modes(one: str, other: str, lower_one: str) -> None:
    assert lower(one, other) == lower_one


def test_the_references_variables_keep_their_meaning() -> None:
    variables = {
        "SCAN_INTERVAL": "30",
        "DEVICE_NO_REMOVAL_DURATION": "0",
        "DEVICE_NO_ALLOCATION_DURATION": "86400",
        "PATH": "/",
    }
    assert from_reference(variables) == {
        "scan_interval_seconds": 30,
        "no_removal_seconds": 0,
        "no_allocation_seconds": 86_400,
    }
    assert from_reference({}) == {}
    read_policy(from_reference(variables))


@pytest.mark.parametrize("text", ["", "-1", "86401", "1.5", "sixty", " 60", "٦٠"])
def test_a_variable_out_of_bounds_is_refused_as_the_reference_does(text: str) -> None:
    with pytest.raises(PolicyError, match="SCAN_INTERVAL") as error:
        from_reference({"SCAN_INTERVAL": text})
    one_line(error.value)
