"""The importer's numbers, against those of shared/traces and against counting second by second."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dds_whatif.traces.demand import Held, Trace
from dds_whatif.traces.facts import Arrivals, Spread, Use, facts, use
from dds_whatif.traces.formats import read_trace
from tests.lab.whatif.traces.samples import shared

FILES = {
    "dlrm": ("alibaba-gpu-v2025", ["disaggregated_DLRM_trace"]),
    "openb_default": ("openb-v2023", ["openb_pod_list_default", "openb_node_list_all_node"]),
    "openb_gpuspec33": ("openb-v2023", ["openb_pod_list_gpuspec33", "openb_node_list_all_node"]),
    "philly": ("philly", ["philly"]),
}


@cache
def real(name: str) -> Trace:
    kind, files = FILES[name]
    return read_trace(kind, [shared(f"{one}.csv.gz") for one in files])


@cache
def numbers(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shared("numbers.json").read_text(encoding="utf-8"))[name]
    return found


def told(of: Use, digits: int) -> dict[str, float]:
    """As numbers.json has it."""
    return {
        "min": of.min,
        "median": of.median,
        "p95": of.p95,
        "peak": of.peak,
        "mean": round(of.mean, digits),
        "gpu_hours": of.device_hours,
    }


def spread(of: Spread | None) -> dict[str, float]:
    assert of is not None
    return {"n": of.n, "p50": of.p50, "p90": of.p90, "p99": of.p99, "max": of.max}


def arrivals(of: Arrivals | None) -> dict[str, float]:
    assert of is not None
    return {"hours": of.hours, "total": of.total, "median": of.median, "p95": of.p95, "peak": of.peak}


def test_the_whole_dlrm_trace_has_the_known_numbers() -> None:
    known, trace = numbers("dlrm"), real("dlrm")
    found = facts(trace)
    assert list(found.window) == known["window"]
    assert (trace.rows, found.rows, trace.left_out.total()) == (known["rows"], known["gpu_instances"], known["cn_rows"])
    assert told(found.use, 2) == known["use"]
    assert (found.use.at_begin, found.use.at_end) == (known["in_use_at_0"], known["in_use_at_end"])
    assert arrivals(found.arrivals) == known["arrivals_per_hour"]
    assert found.arrivals is not None and found.arrivals.minute_peak == 79
    assert spread(found.lifetimes) == known["life_complete"]
    assert found.lifetimes is not None and found.lifetimes.zero == known["zero_length"]
    assert spread(found.clipped) == known["life_clipped"]
    assert spread(found.waits) == known["wait"]
    assert found.waits is not None and round(found.waits.zero / found.waits.n, 4) == known["wait_zero_fraction"]
    assert found.owner_peaks == known["sum_app_peaks"]
    assert found.endless == known["gpu_instances"] - known["ends"]
    assert (found.shared_use, found.never_ran, found.sharing) == (None, None, 0)


@pytest.mark.parametrize("name", ["openb_default", "openb_gpuspec33"])
def test_the_whole_openb_trace_has_the_known_numbers(name: str) -> None:
    known, trace = numbers(name), real(name)
    found = facts(trace)
    assert list(found.window) == known["window"]
    assert (trace.rows, found.rows) == (known["rows"], known["gpu_pods"])
    assert told(found.use, 2) == known["use_whole"]
    assert found.shared_use is not None and told(found.shared_use, 3) == known["use_milli"]
    assert arrivals(found.arrivals) == known["arrivals_per_hour"]
    assert found.arrivals is not None and found.arrivals.minute_peak == 6
    assert (found.before, found.alive) == (known["created_before_A"], known["censored_at_B"])
    assert spread(found.lifetimes) == known["life"]
    assert spread(found.waits) == known["wait"]
    assert found.waits is not None and round(found.waits.zero / found.waits.n, 4) == known["wait_zero_fraction"]
    assert spread(found.never_ran) == known["pending_life"]
    assert [found.sharing, found.rows] == known["fractional_of_gpu_pods"]
    assert {str(devices): rows for devices, rows in found.by_devices.items()} == known["by_num_gpu"]
    ran = [one for one in trace.held if one.start is not None]
    assert [sum(one.thousandths < 1000 for one in ran), len(ran)] == known["fractional_of_run"]


def test_the_whole_philly_trace_has_the_known_numbers() -> None:
    known, trace = numbers("philly"), real("philly")
    core = facts(trace)
    assert list(core.window) == known["core_window"]
    assert (trace.rows, core.rows) == (known["rows"], known["jobs_core"])
    assert told(core.use, 2) == known["core"]
    assert core.use.at_begin == 534
    assert arrivals(core.arrivals) == known["arrivals_per_hour_core"]
    assert core.arrivals is not None and core.arrivals.minute_peak == 96
    assert core.owner_peaks == known["sum_vc_peaks"]
    assert core.waits is None
    begins, ends = known["full_window"]
    full = facts(trace, (begins, ends))
    assert (min(one.start or 0 for one in trace.held), max(one.end or 0 for one in trace.held)) == (begins, ends)
    assert told(full.use, 2) == known["full"]
    assert spread(full.lifetimes) == known["life"]
    assert {str(devices): rows for devices, rows in full.by_devices.items()} == known["by_gpus"]


def held(name: str, start: float | None, end: float | None, devices: int = 1, created: float | None = None) -> Held:
    created = start if created is None else created
    return Held(name, "", created, start, end, devices, "GPU", devices * 1000)


@pytest.mark.parametrize("seed", range(20))
def test_use_is_what_counting_second_by_second_finds(seed: int) -> None:
    draw = Random(seed)
    rows = []
    for number in range(draw.randint(0, 12)):
        start = draw.randint(0, 60)
        end = None if draw.random() < 0.2 else start + draw.choice([0, draw.randint(0, 60)])
        rows.append(held(f"r{number}", start, end, draw.randint(1, 4)))
    begins = draw.randint(0, 30)
    window = (float(begins), float(begins + draw.randint(1, 60)))
    levels = sorted(
        sum(one.devices for one in rows if (one.start or 0) <= second and (one.end is None or second < one.end))
        for second in range(begins, int(window[1]))
    )
    found = use(rows, window)
    assert (found.min, found.peak) == (levels[0], levels[-1])
    assert found.mean == pytest.approx(sum(levels) / len(levels))
    assert found.median == levels[-(-50 * len(levels) // 100) - 1]
    assert found.p95 == levels[-(-95 * len(levels) // 100) - 1]
    assert found.device_hours == round(sum(levels) / 3600, 1)


def test_hours_without_anybody_count_and_the_last_part_of_one_does_not() -> None:
    rows = [held("a", 10, 20), held("b", 7190, 7300), held("c", 7199, 7300), held("d", 10_801, 10_900)]
    found = facts(Trace("philly", rows, (0.0, 10_900.0)))
    assert found.arrivals == Arrivals(hours=3, total=3, median=1, p95=2, peak=2, minute_peak=2)


def test_a_window_without_a_full_hour_has_no_arrivals_an_hour(tmp_path: Path) -> None:
    assert facts(Trace("philly", [held("a", 1, 2)], (0.0, 60.0))).arrivals is None
