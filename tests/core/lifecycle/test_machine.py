"""The machine for custom controllers and the diagram are the table, nothing more."""

import re
from typing import Any

import pytest

from dds_core.lifecycle import (
    CLAIM_STATES,
    CLAIM_TABLE,
    DEVICE_TABLE,
    Edge,
    claim_machine,
    claim_target,
    machine_of,
    mermaid,
)
from dds_core.scaler.protocols import PROTOCOLS

TABLES = {"claim": CLAIM_TABLE, "device": DEVICE_TABLE, **{one.name: one.table for one in PROTOCOLS}}
TRIGGERS = list(dict.fromkeys(edge.trigger for edge in CLAIM_TABLE))


class Life:
    """A claim of somebody's own controller."""

    state: str

    def __init__(self, something: bool = True) -> None:
        self.something = something
        self.seen: list[str] = []

    def nothing_ordered(self, event: Any) -> bool:
        return not self.something

    def something_ordered(self, event: Any) -> bool:
        return self.something

    def note(self, event: Any) -> None:
        self.seen.append(f"{event.event.name}: {event.transition.source} to {event.transition.dest}")


@pytest.mark.parametrize("edge", CLAIM_TABLE, ids=lambda edge: f"{edge.trigger}-{edge.source or 'New'}-{edge.target}")
def test_the_machine_has_every_row(edge: Edge) -> None:
    life = Life(something=edge.guard != "nothing_ordered")
    machine = claim_machine(life)
    machine.set_state(edge.source or "New", life)
    assert getattr(life, edge.trigger)()
    assert life.state == edge.target


def test_the_machine_ignores_every_trigger_that_a_state_does_not_name() -> None:
    life = Life()
    machine = claim_machine(life)
    ignored = 0
    for state in ("New", *CLAIM_STATES):
        for trigger in TRIGGERS:
            if claim_target(trigger, "" if state == "New" else state) is None:
                machine.set_state(state, life)
                assert not getattr(life, trigger)()
                assert life.state == state
                ignored += 1
    assert ignored == len(TRIGGERS) * 8 - len({(edge.trigger, edge.source) for edge in CLAIM_TABLE})


def test_callbacks_run_by_trigger_and_by_state() -> None:
    life = Life()
    claim_machine(
        life,
        callbacks={"ordered": [life.note], "on_enter_Failed": [life.note], "on_exit_Pending": [life.note]},
    )
    for trigger in ("allocated_pool", "ordered", "reserved", "failed"):
        assert getattr(life, trigger)()
    assert life.seen == [
        "ordered: Pending to Attaching",
        "ordered: Pending to Attaching",
        "failed: Attaching to Failed",
    ]


def test_callbacks_do_not_run_for_an_ignored_trigger() -> None:
    life = Life()
    claim_machine(life, callbacks={"ordered": [life.note]})
    assert not life.settled()  # type: ignore[attr-defined]
    assert life.seen == []


def test_a_machine_without_a_model_is_its_own() -> None:
    machine = claim_machine()
    machine.allocated_pool()
    machine.ordered()
    assert machine.state == "Attaching"
    machine.released()
    assert machine.state == "Detaching", "without guards something counts as ordered"


def test_a_guard_can_hold_a_trigger_back() -> None:
    life = Life()
    asked: list[str] = []

    def never(event: Any) -> bool:
        asked.append(event.event.name)
        return False

    claim_machine(life, guards={"pod_bound": [never]}).set_state("Attached", life)
    assert not life.pod_bound()  # type: ignore[attr-defined]
    assert (life.state, asked) == ("Attached", ["pod_bound"])


@pytest.mark.parametrize(
    ("hooks", "named"),
    [
        ({"callbacks": {"orderd": []}}, "callbacks .* orderd"),
        ({"callbacks": {"on_enter_failed": []}}, "callbacks .* on_enter_failed"),
        ({"guards": {"on_exit_Failed": []}}, "guards .* on_exit_Failed"),
    ],
)
def test_a_misspelt_hook_is_an_error(hooks: dict[str, Any], named: str) -> None:
    """The names are those of the table; a hook that nothing calls would be missed in production only."""
    with pytest.raises(ValueError, match=named):
        claim_machine(**hooks)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_diagram_has_every_edge_once(table: tuple[Edge, ...]) -> None:
    first, *lines = mermaid(table).splitlines()
    assert first == "stateDiagram-v2"
    drawn: list[tuple[str, str, str]] = []
    for line in lines:
        found = re.fullmatch(r" {4}(\S+) --> (\S+): (.+)", line)
        assert found is not None, line
        drawn += [(trigger, found[1], found[2]) for trigger in found[3].split(", ")]
    assert sorted(drawn) == sorted((edge.trigger, edge.source or "[*]", edge.target or "[*]") for edge in table)


@pytest.mark.parametrize("table", [*TABLES.values()][1:], ids=[*TABLES][1:])
def test_a_machine_of_any_table_takes_its_edges_and_no_other(table: tuple[Edge, ...]) -> None:
    rows = {(edge.trigger, edge.source or "New"): edge.target or "New" for edge in table}
    states = {state for edge in table for state in (edge.source or "New", edge.target or "New")}
    for trigger in {edge.trigger for edge in table}:
        for state in states:
            machine = machine_of(table)
            machine.set_state(state)
            machine.trigger(trigger)
            assert machine.state == rows.get((trigger, state), state)
