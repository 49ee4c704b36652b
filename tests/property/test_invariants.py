"""Random streams never break the invariants: nothing raises, nothing is promised twice, nothing in use is taken away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.cluster import Move
from tests.property.run import Run
from tests.property.streams import QUICK, SOAK, chaos, cooperation, modes, policies


def play(mode: str, policy: int, moves: list[Move], *, thorough: bool = False) -> None:
    run = Run(mode, policy, thorough=thorough)
    run.play(moves)
    run.wait(4000)


@QUICK
@given(mode=modes, policy=policies, moves=chaos(40))
def test_no_stream_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves)


@QUICK
@given(mode=st.sampled_from(("attach", "detach")), policy=policies, moves=cooperation(30))
def test_no_stream_of_a_cluster_that_obeys_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves)


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, moves=st.one_of(chaos(120), cooperation(80)))
def test_no_long_stream_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves, thorough=True)
