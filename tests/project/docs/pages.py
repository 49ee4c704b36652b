"""Which parts of the documentation are generated, and how they get into their pages.

A page is written by hand but for its marked parts: between `<!-- generated: NAME -->` and `<!-- end: NAME -->` stands what
the function of that name gives. Nothing outside the marks is ever touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.project.docs import events, lifecycle, metrics, policy, scenario, tested, wakes

ROOT = Path(__file__).resolve().parents[3]

PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/lifecycle.md": {
        "claim chart": lifecycle.claim_chart,
        "claim table": lifecycle.claim_table,
        "device chart": lifecycle.device_chart,
        "device table": lifecycle.device_table,
        **lifecycle.protocols(),
    },
    "docs/rules.md": {"wakes": wakes.wakes_table},
    "docs/policy.md": {
        "policy": policy.policy_table,
        "schedulers": policy.scheduler_table,
        "limits": policy.limit_table,
        "drivers": policy.driver_table,
        "publish policy": policy.publish_policy_table,
        "autoscale policy": policy.autoscale_policy_table,
        "server groups": policy.group_table,
        "server templates": policy.template_table,
    },
    "docs/lab.md": {
        "scenarios": scenario.scenarios,
        "scenario": scenario.scenario_fields,
        "cluster": scenario.cluster_fields,
        "parts": scenario.part_fields,
        "steps": scenario.step_fields,
        "mix": scenario.mix_fields,
        "faults": scenario.fault_fields,
        "differences": scenario.known_differences,
        "scheduler differences": scenario.scheduler_differences,
        "left out of runs": scenario.left_out_of_runs,
        "recorded metadata": scenario.recorded_metadata,
    },
    "docs/events.md": {
        "facts about objects": events.object_facts,
        "facts about ourselves": events.own_facts,
        "facts about the fabric": events.fabric_facts,
        "what Cluster Autoscaler asks": events.asks,
        "decisions": events.decisions,
        "transitions": events.transitions,
        "objects": events.objects,
        "parts": events.parts,
    },
    "docs/metrics.md": {
        "metrics": metrics.metrics_table,
        "metrics of every component": metrics.shared_metrics_table,
        "publisher metrics": metrics.pool_metrics_table,
        "autoscaler metrics": metrics.group_metrics_table,
    },
    "docs/tested-against.md": {"server": tested.server, "ran": tested.ran, "not run": tested.not_run},
}

_PART = re.compile(r"(<!-- generated: (?P<name>[^>]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)


def filled(page: str, text: str) -> str:
    """The text of `page` with its generated parts made anew.

    Raises LookupError when the page lacks a part that belongs there, or has one that nobody makes.
    """
    parts = PARTS[page]
    marked = [found["name"] for found in _PART.finditer(text)]
    if sorted(marked) != sorted(parts):
        raise LookupError(f"{page} has the generated parts {sorted(marked)}, and should have {sorted(parts)}")
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found['name']]().strip()}\n\n{found[3]}", text)
