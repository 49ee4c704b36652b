"""Verdicts on a model beside reality, and on policies beside the first one."""

from __future__ import annotations

import pytest

from dds_whatif.compare import SLACK, differences, failing, fits, half_width
from dds_whatif.outcome import Outcome

REAL = {
    "wait mean": 10.0,
    "wait p50": 8.0,
    "wait p95": 40.0,
    "never bound": 0.0,
    "attaches": 100.0,
    "used hours": 5.0,
    "idle hours": 20.0,
}


def run(**changed: float) -> dict[str, float]:
    return {**REAL, **{name.replace("_", " "): value for name, value in changed.items()}}


def verdicts(*runs: dict[str, float], interval: tuple[float, float] = (40.0, 40.0)) -> dict[str, str]:
    return {one.measure: one.verdict for one in fits(REAL, runs, 0.15, {"wait p95": interval})}


def test_what_is_within_the_bound_fits_and_what_is_beyond_is_off() -> None:
    found = verdicts(
        run(wait_mean=11.4, attaches=116.0), run(wait_mean=11.5, attaches=118.0)
    )  # two tell nothing of chance
    assert found["wait mean"] == "fits" and found["attaches"] == "off"


def test_reality_may_be_one_of_the_runs_that_chance_gives() -> None:
    wide, narrow = (20.0, 25.0, 44.0, 22.0, 38.0), (20.0, 21.0, 22.0, 20.0, 21.0)
    assert verdicts(*(run(wait_p95=value) for value in wide))["wait p95"] == "within the spread"
    assert verdicts(*(run(wait_p95=value) for value in narrow))["wait p95"] == "off"


def test_more_runs_do_not_make_a_wrong_model_right() -> None:
    """Of enough runs some one is like anything."""
    values = [20.0 + (number % 7) - 3 for number in range(700)] + [41.0]
    assert verdicts(*(run(wait_p95=value) for value in values))["wait p95"] == "off"


def test_a_quantile_of_few_waits_leaves_an_interval() -> None:
    assert verdicts(run(wait_p95=20.0), run(wait_p95=25.0), interval=(15.0, 70.0))["wait p95"] == "within the spread"


def test_what_nobody_would_act_on_is_no_difference() -> None:
    real = {name: 0.001 if slack else 0.0 for name, slack in SLACK.items()}
    assert {one.verdict for one in fits(real, [dict(SLACK)], 0.15, {})} == {"fits"}
    assert [one.verdict for one in fits(real, [{**SLACK, "never bound": 1.0}], 0.15, {}) if one.verdict != "fits"] == [
        "off"
    ]


def test_the_interval_of_a_mean_is_students() -> None:
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert half_width([1.0]) is None
    assert half_width([0.0, 1.0] * 50) == pytest.approx(1.96 * 0.5025 / 10, rel=1e-3)


def test_policies_are_compared_seed_by_seed() -> None:
    first = [{"wait mean": 10.0 + seed, "attaches": 5.0, "idle hours": 1.0, "used hours": 1.0} for seed in range(6)]
    other = [
        {
            "wait mean": 9.0 + seed + seed / 100,
            "attaches": 5.000001,
            "idle hours": 1.5 if seed % 2 else 0.7,
            "used hours": 2.0,
        }
        for seed in range(6)
    ]
    first, other = [{**one, "attaches a day": 9.0} for one in first], [{**one, "attaches a day": 8.0} for one in other]
    words = {one.measure: one.word for one in differences(first, other)}
    assert words == {"wait mean": "better", "attaches": "the same", "idle hours": "cannot tell", "used hours": "other"}


def test_quantiles_are_nearest_ranks_and_their_intervals_those_of_ranks() -> None:
    found = Outcome(tuple(float(each) for each in range(1, 41)), 40, 0, 0, 0, 0, 0, 0, {}, 60.0, {})
    assert (found.wait(0.5), found.wait(0.95), found.wait(1.0)) == (20.0, 38.0, 40.0)
    assert found.between(0.95) == (35.0, 40.0) and found.between(0.5) == (13.0, 27.0)
    assert Outcome(found.waits[:10], 10, 0, 0, 0, 0, 0, 0, {}, 60.0, {}).between(0.5) is None
    assert Outcome((), 0, 0, 0, 0, 0, 0, 0, {}, 0.0, {}).measures()["wait p95"] == 0.0


def test_what_fails_most_is_named_with_its_size() -> None:
    """A device idles before it is marked to leave, and after."""
    hour = 3_600_000_000
    real, model = (
        Outcome((1.0,), 1, 0, 0, 10, 10, 1, 0, {"A": {"idle": hour // 10 + round(marked * 1e6)}}, 60.0, {}, {}, marked)
        for marked in (300.0, 5.0)
    )
    assert real.aspects()["idle seconds of a device"] == model.aspects()["idle seconds of a device"] == 36.0
    assert failing("idle hours", real.aspects(), [model.aspects()]) == (
        "marked seconds of a device: 30, in the model 0.5"
    )


def test_a_part_of_almost_nothing_is_not_what_fails() -> None:
    for marked, words in (
        (0.01, "idle seconds of a device: 30, in the model 35"),
        (9.0, "marked seconds of a device: 0, in"),
    ):
        real = {"idle seconds of a device": 30.0, "marked seconds of a device": 0.0}
        model = {"idle seconds of a device": 35.0, "marked seconds of a device": marked}
        assert failing("idle hours", real, [model]).startswith(words)
