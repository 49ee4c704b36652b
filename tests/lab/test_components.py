"""Components of dds keep the contract: scaler and publisher with the facts of a log that an earlier version wrote, the autoscaler
with those of a small cluster."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_core import AUTOSCALER, PUBLISHER, SCALER
from dds_core.component import Component
from dds_core.events import Checkpoint, DeadlinePassed
from dds_core.replay import moments
from dds_lab.contracts.components import ComponentContract, Facts
from tests.core.autoscaler.yard import Yard
from tests.support.commands import REPOSITORY

LOGS = {"scaler": "fleet-8-scaler", "publisher": "fleet-6-publisher"}


class TestComponents(ComponentContract):
    @pytest.fixture(params=[SCALER, PUBLISHER, AUTOSCALER], ids=lambda one: str(one.name))
    def component(self, request: pytest.FixtureRequest) -> Component[Any]:
        found: Component[Any] = request.param
        return found

    @pytest.fixture
    def facts(self, component: Component[Any]) -> Facts:
        if component is AUTOSCALER:
            yard = Yard()
            yard.refresh()
            yard.grow()
            yard.on("node2", yard.order())
            yard.remove("node0")
            return [(step.at, step.fact) for step in yard.steps if not isinstance(step.fact, DeadlinePassed)]
        path = REPOSITORY / "tests" / "data" / "logs" / f"{LOGS[component.name]}.log.jsonl.gz"
        told = moments(JsonlLog(str(path)).read_lean(0), component)
        made = (DeadlinePassed, Checkpoint)  # the engine makes the first itself
        return [(one.at, one.fact) for one in told if one.fact is not None and not isinstance(one.fact, made)]
