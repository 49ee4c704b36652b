"""The proof that what a change wakes is enough: a pass over the whole fleet, after any group, finds nothing left to do.

A pass looks at every claim, device and node. What it emits was left undone by the group before it, because the change of a table
woke too little. `ALLOWED` is all that may be left to the next level pass, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, NamedTuple
from unittest import mock

from dds_core.engine import Step
from dds_core.events import Event
from dds_core.log import Envelope
from dds_core.replay import groups
from dds_core.scaler import events as e
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.deciding import decide
from dds_core.scaler.state import State
from tests.property.actors import ACTORS
from tests.property.cluster import Move
from tests.property.run import ENGINE, POLICIES, WRITTEN, Run
from tests.property.streams import OFTEN, OPENINGS, OURS
from tests.property.verbs import VERBS


class Allowed(NamedTuple):
    """What may be left to the next level pass, and why. `follows`: what the same pass emits because of it."""

    why: str
    is_it: Callable[[State, Event], bool]
    follows: tuple[type[Event], ...] = ()


def _is(event: Event, kind: type[Event], reason: str = "") -> bool:
    return isinstance(event, kind) and (not reason or getattr(event, "reason", "") == reason)


ALLOWED = (
    Allowed(
        "nobody waits for what is ordered ahead of demand: that room was freed elsewhere is seen in the next pass",
        lambda state, event: _is(event, e.AttachOrdered, "prewarm"),
        (e.NodeLabelled,),
    ),
    Allowed(
        "a device left by itself before the detach of another was ordered: words only, and none are urgent",
        lambda state, event: _is(event, e.Alerted, "WrongVictim"),
    ),
    Allowed(
        "two words on one reservation take turns in mode observe, which takes none away; left over from a live mode",
        lambda state, event: not state.live and _is(event, e.ReservationDropped),
    ),
)


def left_undone(engine: Engine) -> list[Event]:
    """What a pass would emit now and may not. Nothing before the state is synced. While a watch is stale deadlines wait, and what
    is due at this very instant comes with its own deadline. The state stays as it is."""
    state = engine.state
    if not state.process.synced or state.process.stale or engine.due(state.process.now) is not None:
        return []
    state.touch_everything()
    with mock.patch.object(
        State, "something_may_go", lambda state, node: True
    ):  # its precondition is to be proven, too
        left = [event for event, _ in decide(state, state.process.now).emitted]
    state.dirty.clear()
    allowed = [one for one in ALLOWED if any(one.is_it(state, event) for event in left)]
    return [
        event for event in left if not any(one.is_it(state, event) or isinstance(event, one.follows) for one in allowed)
    ]


class Passed(Run):
    """A random stream with a pass after each group."""

    def _step(self, fact: e.Event, at: int) -> None:
        step = self.engine.feed(fact, at)
        self.steps.append(step)
        self.outbox += [
            one for one in step.decisions if isinstance(one, WRITTEN) and getattr(one, "mode", "") != "observe"
        ]
        nothing_left(self.engine, step)


def nothing_left(engine: Engine, step: Step) -> None:
    left = left_undone(engine)
    assert left == [], f"a pass finds {left} after {step.fact} at {step.at}"


def stream(seed: int) -> tuple[str, int, list[Move]]:
    """Mode, policy and moves of a stream: anything at all, or a cluster in which mostly everybody does their work."""
    random = Random(seed)
    mode, policy = random.choice(("observe", "attach", "detach", "detach")), random.randrange(len(POLICIES))
    opening, verbs, most = list[Move](), [*VERBS, *ENGINE, *OFTEN], 60
    if random.randrange(2):
        opening, verbs, most = random.choice(OPENINGS), [*OURS, *ACTORS, *ENGINE, *VERBS], 40
    count = random.randint(most // 3, most)
    return mode, policy, [*opening, *(Move(random.choice(verbs), *random.choices(range(8), k=3)) for _ in range(count))]


def play_stream(seed: int) -> None:
    mode, policy, moves = stream(seed)
    Passed(mode, policy).play(moves)


def stepped(rows: Iterable[Envelope]) -> Iterator[tuple[Engine, Step]]:
    """Feed the facts of a scaler's log to an engine."""
    engine = Engine()
    for group in groups(rows, SCALER):
        fact: Any = group.events[0]
        if fact is not None and not isinstance(fact, e.Checkpoint):
            yield engine, engine.feed(fact, group.at)
