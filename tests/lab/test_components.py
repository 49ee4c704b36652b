"""Components of ours keep the contract, each with the facts of a log that an earlier version wrote."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_core import PUBLISHER, SCALER
from dds_core.component import Component
from dds_core.events import Checkpoint, DeadlinePassed
from dds_core.replay import moments
from dds_lab.contracts.components import ComponentContract, Facts
from tests.support.commands import REPOSITORY

LOGS = {"scaler": "attach-failure", "publisher": "publisher-live"}


class TestComponents(ComponentContract):
    @pytest.fixture(params=[SCALER, PUBLISHER], ids=lambda one: str(one.name))
    def component(self, request: pytest.FixtureRequest) -> Component[Any]:
        found: Component[Any] = request.param
        return found

    @pytest.fixture
    def facts(self, component: Component[Any]) -> Facts:
        path = REPOSITORY / "tests" / "data" / "logs" / f"{LOGS[component.name]}.log.jsonl.gz"
        told = moments(JsonlLog(str(path)).read_lean(0), component)
        made = (DeadlinePassed, Checkpoint)  # the engine makes the first itself
        return [(one.at, one.fact) for one in told if one.fact is not None and not isinstance(one.fact, made)]
