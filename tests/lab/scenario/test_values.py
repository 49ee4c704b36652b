"""The forms of single values: what is taken, what it means, and what is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dds_lab.scenario.values import Amount, Delay, Duration, Instant, Offset, Period

DURATION, PERIOD, OFFSET, INSTANT, AMOUNT = (TypeAdapter[Any](f) for f in (Duration, Period, Offset, Instant, Amount))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (1.5, 1.5),
        ("250ms", 0.25),
        ("5s", 5.0),
        ("1h30m", 5400.0),
        ("1d", 86_400.0),
        ("0s", 0.0),
        ("10us", 1e-5),
    ],
)
def test_a_duration_is_seconds_or_a_number_with_units(written: Any, seconds: float) -> None:
    assert DURATION.validate_python(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", [True, "5", "", "s", "-1s", -1, "1 s", "1w", "400d", 1e9, None, [1], float("nan")])
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)


def test_a_period_is_more_than_nothing() -> None:
    assert PERIOD.validate_python("1ms") == 0.001
    with pytest.raises(ValidationError, match="more than nothing"):
        PERIOD.validate_python(0)


@pytest.mark.parametrize(("written", "seconds"), [("+10m", 600), ("-10m", -600), ("5s", 5), (-3, -3), (2, 2)])
def test_an_offset_has_a_sign(written: Any, seconds: float) -> None:
    assert OFFSET.validate_python(written) == seconds


@pytest.mark.parametrize("written", ["+-1s", "--1s", "+", -1e12])
def test_what_is_no_offset_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        OFFSET.validate_python(written)


def test_an_instant_is_in_microseconds() -> None:
    assert INSTANT.validate_python("2026-11-21T02:11:04.5Z") == 1_795_227_064_500_000
    assert INSTANT.validate_python("2026-11-21T03:11:04+01:00") == 1_795_227_064_000_000


@pytest.mark.parametrize("written", ["2026-11-21", "2026-11-21T02:11:04", "now", 3, "1950-01-01T00:00:00Z"])
def test_what_is_no_instant_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        INSTANT.validate_python(written)


@pytest.mark.parametrize(("written", "text"), [(4, "4"), (1.5, "1.5"), ("500m", "500m"), ("16Gi", "16Gi")])
def test_an_amount_stays_as_it_is_written(written: Any, text: str) -> None:
    assert AMOUNT.validate_python(written) == text


@pytest.mark.parametrize("written", ["16GB", "-1", "", True, None, "1 Gi"])
def test_what_is_no_amount_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        AMOUNT.validate_python(written)


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("5s", 5, 5),
        (0, 0, 0),
        ({"fixed": "2s"}, 2, 2),
        ({"between": ["1s", "3s"]}, 1, 3),
        ({"median": "1s", "spread": 0.3, "most": "4s"}, 0, 4),
        ({"measured": ["3s", "1s", "2s"]}, 1, 3),
    ],
)
def test_a_delay_is_a_distribution(written: Any, low: float, high: float) -> None:
    latency = Delay.model_validate(written).latency()
    random = Random(1)
    drawn = [latency.draw(random) for _ in range(200)]
    assert low <= min(drawn) <= max(drawn) <= high


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"fixed": 1, "median": 2},
        {"between": ["3s", "1s"]},
        {"measured": []},
        {"spread": 1.0},
        {"median": 0},
        "x",
        None,
    ],
)
def test_what_is_no_delay_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        Delay.model_validate(written)
