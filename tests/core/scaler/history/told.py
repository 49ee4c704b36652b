"""Recordings and kept logs as moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dds_adapters.jsonl import JsonlLog
from dds_adapters.kubernetes.recording import replay_recording
from dds_core.engine import Step
from dds_core.events import Checkpoint
from dds_core.lifecycle import WAITING
from dds_core.log import LeanEvent
from dds_core.replay import moments, of_steps
from dds_core.scaler.blame import POOL
from dds_core.scaler.component import SCALER
from dds_core.scaler.folds import apply
from dds_core.scaler.history import History
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import PROJECTION, State, dump, load
from dds_core.scaler.waiting import is_without_node, waiting_rows
from dds_core.timeline import Moment
from tests.core.golden.replays import log_of

DATA = Path(__file__).parents[3] / "data"
RECORDINGS = tuple(sorted(path.name.split(".")[0] for path in (DATA / "recordings").glob("*.jsonl.gz")))
LOGS = tuple(
    sorted(
        path.name.split(".")[0]
        for path in (DATA / "logs").glob("*.log.jsonl.gz")
        if "-scaler" in path.name or path.name == "archived.log.jsonl.gz"
    )
)


def told(name: str) -> Iterator[Moment]:
    """The moments of a recording, decided in mode observe, or of a kept log."""
    if name in RECORDINGS:
        return of_steps(_replayed(name))
    return moments(rows(name), SCALER)


def rows(name: str) -> Iterator[LeanEvent]:
    """The rows of a kept log, or those that a recording would have made one."""
    if name in RECORDINGS:
        return log_of(_replayed(name)).read_lean()
    log = JsonlLog(str(DATA / "logs" / f"{name}.log.jsonl.gz"))
    return log.read_lean(log.span()[0] - 1)


def _replayed(name: str) -> Iterator[Step]:
    return replay_recording(DATA / "recordings" / f"{name}.jsonl.gz", Policy())


def begins_anew(state: State, moment: Moment, *, first: bool) -> State:
    """The state of a checkpoint that a log begins with, else the same."""
    return load(moment.fact.picture) if first and isinstance(moment.fact, Checkpoint) else state


def beginning_later(name: str, where: Callable[[State], bool]) -> Iterator[list[Moment]]:
    """The moments from each one on before which the state is so, after a checkpoint."""
    moments, state = list(told(name)), State()
    for place, moment in enumerate(moments):
        state = begins_anew(state, moment, first=not place)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
                state.dirty.clear()
        if where(state):
            checkpoint = Checkpoint(projection=PROJECTION, picture=dump(state))
            yield [Moment(moment.position, moment.at, checkpoint, []), *moments[place + 1 :]]


def new_states() -> Callable[[State], bool]:
    """True where a claim is in a state in which none was before."""
    seen: set[str] = set()

    def new(state: State) -> bool:
        states = {life.state for uid, life in state.lifecycle.lives.rows.items() if uid in state.demand.claims}
        found = not states <= seen
        seen.update(states)
        return found

    return new


def side_by_side(moments: Iterable[Moment]) -> Iterator[tuple[State, History]]:
    """State and history of a log after each of its moments."""
    state, history = State(), History()
    for moment in moments:
        state = begins_anew(state, moment, first=not history.first)
        history.take(moment)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
                state.dirty.clear()
        yield state, history


def differences(moments: Iterable[Moment]) -> Counter[tuple[str, str]]:
    """How often (stage that `dds status` says, stage of the history) differ, over all waiting claims and moments."""
    found = Counter[tuple[str, str]]()
    for state, history in side_by_side(moments):
        lives = state.lifecycle.lives.rows.items()
        shown = [(row.uid, row.stage) for row in waiting_rows(state)]
        shown += [(uid, POOL) for uid, life in lives if life.state in WAITING and is_without_node(state, uid)]
        stages = ((stage, history.claims[uid].stage) for uid, stage in shown)
        found.update(pair for pair in stages if pair[0] != pair[1])
    return found
