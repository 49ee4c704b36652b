"""What a change wakes is enough in whole fleets, too: a pass over everything finds nothing (`tests/support/passes.py`)."""

import pytest

from dds_lab.check.fleets import fleet_of
from dds_lab.check.playing import fleet_run
from tests.support.passes import nothing_left, stepped


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.full),
        pytest.param(2, marks=pytest.mark.full),
        *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 60)),
    ],
)
def test_a_pass_finds_nothing_in_a_fleet(seed: int) -> None:
    with fleet_run(fleet_of(seed)) as run:
        run.play()
        rows = list(run.logs["scaler"].read())
    for engine, step in stepped(rows):
        nothing_left(engine, step)
