"""What hypothesis draws: streams of moves, modes and policies; and how much of it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from tests.property.actors import ACTORS
from tests.property.cluster import Move
from tests.property.run import ENGINE, POLICIES
from tests.property.verbs import VERBS
from tests.support.drawn import examples

QUICK = examples(20, 100)
SOAK = settings(max_examples=500, derandomize=False, print_blob=True)

_small = st.integers(0, 7)
modes = st.sampled_from(("observe", "attach", "detach"))
policies = st.integers(0, len(POLICIES) - 1)

OFTEN = ["claim", "pod", "allocate from the pool", "allocate from the pool", "request", "resource", "resource state"]
OFTEN += ["resource state", "local device", "local device", "wait", "write", "write", "allocate on the node"]


def _moves(verbs: list[str], most: int) -> st.SearchStrategy[list[Move]]:
    move = st.builds(Move, st.sampled_from(verbs), _small, _small, _small)
    return st.lists(move, min_size=most // 2, max_size=most)


def chaos(most: int) -> st.SearchStrategy[list[Move]]:
    """Anything at all, in any order."""
    return _moves([*VERBS, *ENGINE, *OFTEN], most)


def objects(most: int) -> st.SearchStrategy[list[Move]]:
    """Anything at all that happens to objects."""
    return _moves([*VERBS, *(verb for verb in OFTEN if verb in VERBS)], most)


_RUNNING = [Move("submit"), Move("submit", 1), Move("work", 3, 1), Move("work", 3, 1)]
_IDLE = [*_RUNNING, Move("finish"), Move("finish"), Move("finish")]
_MARKED = [*_IDLE, Move("wait", 6), Move("work")]
_FENCED = [*_MARKED, Move("wait", 3)]
_LOWERED = [*_FENCED, Move("write", 0, 1), Move("write", 0, 1)]
OPENINGS: tuple[list[Move], ...] = ([], _RUNNING, _IDLE, _MARKED, _FENCED, _LOWERED)
"""How a stream may begin: with nothing, jobs that run, devices that idle, are marked, are fenced, are given up."""

_WORK = ["submit", "schedule", "schedule", "schedule", "operate", "operate", "attach", "attach", "attach", "write"]
OURS = [*(["submit", "work", "finish", "wait"] * 15), *(_WORK * 2), *(["write", "wait"] * 3)]
"""What happens most where everybody does their work."""


def cooperation(most: int) -> st.SearchStrategy[list[Move]]:
    """Mostly everybody doing their work, and now and then something else, from any of the openings on."""
    moves = _moves([*OURS, *ACTORS, *ENGINE, *VERBS], most)
    return st.builds(lambda opening, rest: [*opening, *rest], st.sampled_from(OPENINGS), moves)
