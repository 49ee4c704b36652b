"""What must hold after every step, whatever the stream: the invariants that a running process looks at, over the whole state,
and what is too dear for that."""

from __future__ import annotations

from typing import Any

from dds_core.engine import Step
from dds_core.kit.state import Index, rooms_of
from dds_core.kit.work import FAULTS
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE
from dds_core.model import Config
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.deadlines import DeadlineQueue, deadlines
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.invariants import limits as limits_of
from dds_core.scaler.model import model_of_pool
from dds_core.scaler.state import State, dump, load

INTENTS = (
    *("reservations", "orders", "hand_overs", "failures", "cooling", "cooled", "fences", "labelled", "marks"),
    *("unmarked", "exchanges", "guarded", "holds"),
)
"""The tables that hold what we decided. In mode observe nothing is added to them."""

_CLAIM_ROWS = {(row.trigger, row.source, row.target) for row in CLAIM_TABLE}
_DEVICE_ROWS = {(row.trigger, row.source, row.target) for row in DEVICE_TABLE}

MEMOS = ("limits", "reach", "spoken_for")
"""What was found out once: other rules may ask for more of it, or for less."""

_OF_STATE = ("named", "mode", "live")
_NO_INDEXES = (*MEMOS, "fewer_coming", "fabric_turned")


def intents(state: State) -> dict[str, dict[Any, Any]]:
    return {name: dict(state.tables[name].rows) for name in INTENTS}


def indexes(state: State) -> dict[str, Any]:
    """Every index, as plain data."""
    found = {name: getattr(state, name) for name in _OF_STATE}
    for room in rooms_of(State):
        parts = vars(getattr(state, room)) if room else {}
        found |= {name: one for name, one in parts.items() if _is_index(name, one)}
    return {name: _plain(value) for name, value in found.items()}


def _is_index(name: str, value: Any) -> bool:
    is_one = isinstance(value, dict | set | frozenset | Config) or name in ("prioritized", "units_coming")
    return is_one and not (name.startswith("_") or name in _NO_INDEXES)


def _plain(value: Any) -> Any:
    if isinstance(value, Index):
        return {key: set(members) for key, members in value.items()}
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else value


def trace(state: State) -> tuple[Any, ...]:
    """All that `decide` could leave a trace in."""
    dirty = state.dirty
    marks = (set(dirty.claims), set(dirty.devices), set(dirty.nodes), dirty.everything, set(dirty.freed))
    return dump(state), indexes(state), marks


def check(engine: Engine, step: Step, before: dict[str, dict[Any, Any]], streams: set[str]) -> None:
    state = engine.state
    _legal_edges(step)
    _known_streams(step, streams)
    _nothing_folded_in_observe(state, step, before)
    assert not step.broken, step.decisions
    if state.process.synced:
        assert not [*INVARIANTS.everywhere(state)]
    assert not state.dirty, "something is left to look at"
    assert not [d for d in step.decisions if isinstance(d, e.Alerted) and d.reason in FAULTS], step.decisions


def check_rebuilt(engine: Engine) -> None:
    """The state survives a checkpoint, with all that is derived from it, and the deadline queue is that of the state."""
    state = engine.state
    plain = dump(state)
    again = load(plain)
    assert dump(again) == plain
    kept, built = indexes(state), indexes(again)
    different = {name: (kept[name], built[name]) for name in kept if kept[name] != built[name]}
    assert not different, f"kept and rebuilt indexes differ: {different}"
    for cell, limits in state.fleet.limits.items():
        assert limits == limits_of(state, *cell), f"the limits kept of {cell} are old"
    for key, model in state.inventory._pool_models.items():
        assert model == model_of_pool(state.settings.config, *key), f"the model kept of pool {key} is old"
    due = {(one.of, one.kind, one.due) for one in deadlines(state)}
    assert isinstance(engine.deadline_queue, DeadlineQueue)
    kept_due = {(of, *one) for of, kinds in engine.deadline_queue._due.items() for one in kinds.items()}
    assert kept_due == due, f"the queue has {kept_due - due} and should {due - kept_due}"


def _legal_edges(step: Step) -> None:
    for move in step.transitions:
        if isinstance(move, e.ClaimMoved):
            assert (move.trigger, move.source, move.target) in _CLAIM_ROWS
        elif isinstance(move, e.DeviceMoved):
            assert (move.trigger, move.source, move.target) in _DEVICE_ROWS


def _known_streams(step: Step, streams: set[str]) -> None:
    unknown = [event for event, _ in step.caused if event.subject not in streams]
    assert not unknown, f"no fact was ever about the stream of {unknown}"
    causes = [cause for _, cause in step.caused]
    assert all(0 <= cause <= place for place, cause in enumerate(causes)), "something is caused by what comes after it"


def _nothing_folded_in_observe(state: State, step: Step, before: dict[str, dict[Any, Any]]) -> None:
    """What a decision of mode observe would put is not there; facts and transitions may only take away."""
    if state.mode == "observe":
        for name in INTENTS:
            added = state.tables[name].rows.keys() - before[name].keys()
            assert not added, f"{name} of {added} in mode observe, after {step.fact}"
    for decision in step.decisions:
        undoes = isinstance(decision, e.HoldEnded | e.GuardLifted | e.ExchangeEnded)
        assert getattr(decision, "mode", state.mode) == (state.settings.undoing_mode if undoes else state.mode)
