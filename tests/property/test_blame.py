"""Whose time a waiting claim spends, by our log, is whose time it is by what the lab's actors do: in 99 of 100 sampled instants
of random runs."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.policy import Policy
from dds_lab.check.subjects import policy_of
from dds_lab.scenario import Scenario
from tests.property.blamed import Watcher, told_owner
from tests.support.ours import running

SEEDS = range(12)
UNSEEN = range(400, 460)
"""Looked at only when the rules were made. In all they have 99.4 %; of those that were looked at before, 12 to 60 have 99.3, 100
to 160 have 99.6 and 200 to 260 have 98.9 %. Most of the rest: several claims of a node are robbed of devices or get those of each
other, and whose wait is for which device is told otherwise than it turns out."""
ENOUGH = 0.99
_MODELS: tuple[dict[str, Any], ...] = (
    {"model": "A100 40G", "device": "nvidia-a100-40", "product": "NVIDIA A100 40GB PCIe"},
    {"model": "H100 80G", "device": "nvidia-h100-80", "product": "NVIDIA H100 80GB PCIe", "memory": "80Gi"},
)


def drawn(seed: int) -> tuple[Scenario, Policy]:
    """A small cluster with a short supply of devices, and how dds is to work there."""
    draw = Random(seed)
    models = _MODELS[: draw.choice((1, 2))]
    asks = [{one["device"]: 1} for one in models] * 3 + [{models[0]["device"]: 2}, {one["device"]: 1 for one in models}]
    pods, last = draw.randint(5, 14), draw.choice((60.0, 240.0))
    steps: list[dict[str, Any]] = [
        {
            "at": 12 + draw.uniform(0, last),
            "run": {"name": f"pod-{number}", "devices": draw.choice(asks), "delete_after": draw.uniform(5, 90)},
        }
        for number in range(pods)
    ]
    written = {
        "name": f"blame-{seed}",
        "seed": seed,
        "duration": last + 240,
        "cluster": {
            "models": list(models),
            "fabrics": [{"id": 1, "devices": {one["model"]: draw.choice((1, 2, 8)) for one in models}}],
            "nodes": [{"count": draw.randint(1, 4), "fabric": 1}],
        },
        "parts": {
            "fabric": {"attach": {"between": draw.choice(([0.5, 3], [1, 12], [10, 40]))}},
            "operator": {"kind": draw.choice(("real", "real", "ideal")), "api": "fm"},
            "vendor": {"start": {"between": [0.5, 4]}},
            "scaler": False,
        },
        "steps": sorted(steps, key=lambda step: step["at"]),
    }
    scenario = Scenario.model_validate_json(json.dumps(written))
    more = {
        "hand_over": draw.choice(("exchange", "exchange", "clear")),
        "device_ready": draw.choice(("listed", "listed", "online")),
        "operator_nudge": draw.choice(("auto", "off")),
        "mode": draw.choice(("detach", "detach", "detach", "detach", "detach", "observe")),
    }
    return scenario, policy_of(scenario, scan_interval_seconds=60, **more)


def compared(seed: int) -> Counter[tuple[str, str]]:
    """How often (owner by the lab, owner by our log) came, over all samples of all waiting claims of a run."""
    scenario, policy = drawn(seed)
    with running(scenario, policy=policy) as run:
        watcher = Watcher(
            run.lab,
            online=policy.device_ready == "online",
            observes=policy.mode == "observe",
            exchanges=policy.hand_over == "exchange",
        )
        run.lab.run()
        history = History().read(moments(run.log.read(), SCALER))
        return Counter((truth, told_owner(history, uid, at)) for at, uid, truth in watcher.truths())


@pytest.mark.parametrize("seeds", [SEEDS[:6], SEEDS[6:]])
def test_each_waiting_second_has_the_owner_that_it_had_in_the_lab(seeds: range) -> None:
    judge(seeds)


@pytest.mark.full
@pytest.mark.parametrize("seeds", [UNSEEN[:20], UNSEEN[20:40], UNSEEN[40:]])
def test_so_it_is_on_seeds_that_no_rule_was_made_with(seeds: range) -> None:
    judge(seeds)


def judge(seeds: range) -> None:
    found = sum(map(compared, seeds), Counter[tuple[str, str]]())
    wrong = Counter({kinds: number for kinds, number in found.items() if kinds[0] != kinds[1]})
    assert found.total() > 5_000 and len({truth for truth, _ in found}) > 5
    assert wrong.total() <= (1 - ENOUGH) * found.total(), (found.total(), wrong.most_common())
