"""What a running scaler says of itself without being asked."""

from __future__ import annotations

import logging

import pytest

from dds_adapters.runtime.health import Endpoints
from dds_adapters.runtime.operation import ScalerOperation
from dds_adapters.runtime.settings import LiveSettings
from dds_core.events import Event, PolicyChanged, Synced
from dds_core.model import Config
from dds_core.scaler.events import ConfigObserved
from dds_core.scaler.fold import apply
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import Picture


def test_a_kill_switch_that_was_pulled_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    picture = Picture()
    logger = logging.getLogger("dds.test")
    operation = ScalerOperation(Endpoints(LiveSettings(identity="test"), logger), logger)

    def told(*events: Event) -> list[str]:
        caplog.clear()
        for event in events:
            apply(picture, event, 1)
        operation.turned(picture)
        operation.turned(picture)
        return caplog.messages

    with caplog.at_level(logging.INFO):
        assert told(PolicyChanged(Policy(mode="detach").model_dump(mode="json"))) == []
        assert told(Synced()) == ["the whole cluster was seen: 0 claims, 0 nodes, 0 requests; mode detach"]
        assert told(ConfigObserved("c", Config("c", mode="attach"))) == [
            "mode attach is in effect now (policy detach, the ConfigMap says attach)"
        ]
        assert told(ConfigObserved("c", Config("c", mode=""))) == ["mode detach is in effect now (policy detach)"]
        assert told(PolicyChanged(Policy(mode="observe").model_dump(mode="json"))) == [
            "mode observe is in effect now (policy observe)"
        ]
