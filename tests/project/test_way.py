"""What a newcomer has to open to follow one arrival to its order."""

from tests.project.way import way_of_a_claim

MODULES = 36
"""An arrival's way went through 51 before the core and its adapters got rooms by topic; two of these are the invariants, which
every decision passes."""


def test_one_arrival_goes_through_few_modules() -> None:
    way, task = way_of_a_claim()
    assert task.action == "AttachOrdered"
    assert len(way.modules) <= MODULES, sorted(way.modules)
