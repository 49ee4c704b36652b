"""A value that was changed and is the default again: a checkpoint leaves it out, and is one of the same state all the same."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core import events as e
from dds_core.component import COMPONENTS, Component
from dds_core.engine import EngineOf
from dds_core.log import MemoryLog
from dds_core.model import Config
from dds_core.publisher.model import PoolConfig
from dds_core.replay.verification import verify


def told(component: Component[Any], *configs: Config | PoolConfig) -> MemoryLog:
    """A log in which the ConfigMap was so, one after the other; a checkpoint ends it."""
    log = MemoryLog(f"test/{component.name}", cluster="uid-of-kube-system", recorded_at=1)
    engine: EngineOf[Any] = EngineOf(component)
    epoch, groups = log.take_epoch(1), 0

    def feed(fact: e.Event) -> None:
        nonlocal groups
        for step in engine.run([(10, fact)]):
            log.append([step.group(groups)], epoch=epoch, recorded_at=step.at)
            groups += 1

    feed(e.Started("test", component.fingerprint, component.projection, epoch, "observe"))
    for config in configs:
        fact = e.difference(engine.state.object(type(config), config.uid), config)
        assert fact is not None
        feed(fact)
    feed(e.Checkpoint(projection=component.projection, picture=component.dump(engine.state)))
    return log


@pytest.mark.parametrize(("name", "kind"), [("scaler", Config), ("publisher", PoolConfig)])
def test_a_prefix_that_is_not_given_any_more_makes_no_other_picture(
    name: str, kind: type[Config] | type[PoolConfig]
) -> None:
    component = COMPONENTS[name]
    log = told(component, kind("config", prefix="example.com"), kind("config"))
    assert verify(log.read(), component=component).differences == []


@pytest.mark.parametrize(("name", "kind"), [("scaler", Config), ("publisher", PoolConfig)])
def test_a_checkpoint_with_another_prefix_is_one_of_another_picture(
    name: str, kind: type[Config] | type[PoolConfig]
) -> None:
    component = COMPONENTS[name]
    one = component.state()
    other = component.state()
    for state, prefix in ((one, "example.com"), (other, "example.org")):
        fact = e.difference(None, kind("config", prefix=prefix))
        assert fact is not None
        component.apply(state, fact, 10)
    assert component.same(one, component.load(component.dump(one)))
    assert not component.same(one, other)
