"""Shipped scenarios with the operator of the recordings: an ideal one, with many workers and without polls.

The recordings in `tests/data/recordings` are of a real cluster whose operator was of that kind. The scenarios
themselves play the real operator.
"""

from __future__ import annotations

from dds_lab import shipped
from dds_lab.scenario import Scenario
from dds_lab.scenario.parts import OperatorPart

KEEPS = {"node_lost"}
"""Recordings whose operator kept its objects of a node that was gone."""


def as_recorded(name: str) -> Scenario:
    """The scenario with an ideal operator, if it has an operator."""
    found = shipped.find(name)
    return with_ideal_operator(found, deletes_with_node=name not in KEEPS) if found.parts.operator else found


def with_ideal_operator(scenario: Scenario, *, deletes_with_node: bool = True) -> Scenario:
    ideal = OperatorPart(kind="ideal", sync=0.0, deletes_with_node=deletes_with_node)
    return scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"operator": ideal})})
