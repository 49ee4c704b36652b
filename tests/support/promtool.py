"""Prometheus' own judgement of rules: `promtool test rules` on series that were scraped.

promtool is in Debian's package `prometheus`; `.ci/run` fetches it. Where there is none, who asks for it is skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest


def promtool() -> str:
    """The program. Skips the test where there is none."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool: install Debian's package prometheus")
    return found


def gives(query: str, minute: float, *labels: Mapping[str, str]) -> dict[str, Any]:
    """That a query gives, in a minute of a run, a 1 for each of these sets of labels and nothing else."""
    told = [{"labels": "{" + ",".join(f'{key}="{one[key]}"' for key in one) + "}", "value": 1} for one in labels]
    return {"expr": query, "eval_time": f"{round(minute * 60)}s", "exp_samples": told}


def firing(minute: float, names: Iterable[str]) -> dict[str, Any]:
    """That each of these alerts fires in that minute."""
    told = [{"alertname": name} for name in sorted(names)]
    among = "|".join(one["alertname"] for one in told)
    return gives(f'max by (alertname) (ALERTS{{alertstate="firing",alertname=~"{among}"}})', minute, *told)


def came(state: Literal["pending", "firing"], minute: float, names: Iterable[str]) -> dict[str, Any]:
    """That these alerts, and no others, were in that state up to that minute, for however short a time."""
    told = ({"alertname": name} for name in sorted(names))
    return gives(f'max by (alertname) (max_over_time(ALERTS{{alertstate="{state}"}}[1d]))', minute, *told)


def judged(
    folder: Path,
    rules: Path,
    every: float,
    series: Mapping[str, str],
    expected: list[dict[str, Any]],
    called: list[dict[str, Any]] | None = None,
) -> str:
    """What is not as expected when these rules see these series, scraped every so many seconds; "" when all is. `called` are
    alerts with their labels and annotations, as promtool's `alert_rule_test` has them."""
    interval = f"{every:g}s"
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    told = {
        "rule_files": [str(rules)],
        "evaluation_interval": interval,
        "tests": [
            {
                "interval": interval,
                "input_series": inputs,
                "promql_expr_test": expected,
                "alert_rule_test": called or [],
            }
        ],
    }
    path = folder / "test.json"  # JSON is YAML
    path.write_text(json.dumps(told), encoding="utf-8")
    done = subprocess.run(
        [promtool(), "test", "rules", str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stderr + done.stdout if done.returncode else ""
