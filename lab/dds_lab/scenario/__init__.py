"""Scenarios: YAML files that describe a cluster, the steps that happen in it, and the faults. This package reads and checks them.

A scenario is checked completely before it is run; an error names file, line, column and field. `lab.steps` runs the steps.
"""

from dds_lab.scenario.lines import NotYaml
from dds_lab.scenario.reading import ScenarioError, parse, read_scenario, written
from dds_lab.scenario.scenario import Scenario

__all__ = ["NotYaml", "Scenario", "ScenarioError", "parse", "read_scenario", "written"]
