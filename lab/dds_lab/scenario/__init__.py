"""Scenarios: a cluster, what happens in it and what goes wrong, as YAML that people write.

Everything is checked before anything begins; an error names file, line, column and field. Nothing here runs a scenario.
"""

from dds_lab.scenario.lines import NotYaml
from dds_lab.scenario.reading import ScenarioError, parse, read_scenario, written
from dds_lab.scenario.work import Scenario

__all__ = ["NotYaml", "Scenario", "ScenarioError", "parse", "read_scenario", "written"]
