"""The contract of every component: the same facts give the same decisions, and its log holds all that it needs.

A package that adds a component derives its tests from `ComponentContract` and provides the fixtures `component` and `facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Raw

from dds_adapters.plugins import component_of
from dds_core.component import Component
from dds_core.engine import EngineOf, Step
from dds_core.errors import InputError
from dds_core.events import Event, decode, encode
from dds_core.log import MemoryLog
from dds_core.replay import fold_log, moments, verify

Facts = Sequence[tuple[int, Event]]
"""Facts with their instants (microseconds since 1970-01-01 UTC). They include Started, PolicyChanged and Synced, and at least one
fact that leads to decisions."""


def steps_of(component: Component[Any], facts: Facts) -> list[Step]:
    return list(EngineOf(component).run(facts))


def logged(component: Component[Any], facts: Facts) -> MemoryLog:
    log = MemoryLog(f"contract/{component.name}", cluster="contract", recorded_at=facts[0][0])
    epoch = log.take_epoch(facts[0][0])
    for ordinal, step in enumerate(steps_of(component, facts)):
        log.append([step.group(ordinal)], epoch=epoch, recorded_at=step.at)
    return log


class ComponentContract:
    """Derive from it and provide the pytest fixtures `component` and `facts`."""

    def test_a_log_tells_by_its_name_whose_it_is(self, component: Component[Any]) -> None:
        assert component_of(f"any-cluster/{component.name}") is component

    def test_decisions_follow_and_every_event_can_be_written_and_read(
        self, component: Component[Any], facts: Facts
    ) -> None:
        steps = steps_of(component, facts)
        assert any(step.decisions for step in steps), "give facts of which something follows"
        for event in (one for step in steps for one in (step.fact, *(caused for caused, _ in step.caused))):
            assert type(event) in component.events
            assert decode(type(event).__name__, encode(event)) == event

    def test_the_same_facts_give_the_same_bytes(self, component: Component[Any], facts: Facts) -> None:
        one, other = ([step.group(0) for step in steps_of(component, facts)] for _ in range(2))
        assert one == other

    def test_deciding_leaves_the_picture_as_it_was(self, component: Component[Any], facts: Facts) -> None:
        engine, other = EngineOf(component), component.state()
        for step in engine.run(facts):
            component.apply(other, step.fact, step.at)
            before = component.dump(other)
            work = component.decide(other, step.at)
            assert work.emitted == step.caused
            assert component.dump(other) == before
            for event, _ in step.caused:
                component.apply(other, event, step.at)
            other.dirty.clear()
            assert component.same(other, engine.state)

    def test_the_log_is_all_that_has_to_be_kept(self, component: Component[Any], facts: Facts) -> None:
        engine = EngineOf(component)
        list(engine.run(facts))
        log = logged(component, facts)
        assert component.same(fold_log(log.read_lean(0), component), engine.state)
        report = verify(log.read(), component)
        assert not report.differences and not report.told

    def test_a_picture_survives_a_checkpoint(self, component: Component[Any], facts: Facts) -> None:
        engine = EngineOf(component)
        list(engine.run(facts))
        dumped = component.dump(engine.state)
        again = component.load(dumped)
        assert component.same(again, engine.state) and component.dump(again) == dumped
        assert component.deadline_queue.deadlines(again) == component.deadline_queue.deadlines(engine.state)  # type: ignore[attr-defined]
        with pytest.raises(InputError):
            component.load(Raw(b'{"no such field": 1}'))

    def test_it_is_told(self, component: Component[Any], facts: Facts) -> None:
        assert list(component.telling.timeline(moments(logged(component, facts).read_lean(0), component)))
