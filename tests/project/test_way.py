"""What a newcomer has to open to follow one arrival to its order."""

from tests.project.way import way_of_a_claim

MODULES = 37
"""An arrival's way went through 51 before the core and its adapters got rooms by topic. One of these is the invariants, which
every decision passes; one is the table of what wakes what, which hooks of the indexes had inside them."""


def test_one_arrival_goes_through_few_modules() -> None:
    way, task = way_of_a_claim()
    assert task.action == "AttachOrdered"
    assert len(way.modules) <= MODULES, sorted(way.modules)
