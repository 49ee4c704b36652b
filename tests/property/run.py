"""A run: moves become facts, facts go to a real engine, and after every step the invariants are looked at.

Beside the engine a twin folds what the engine emitted, as a replay of the log would, and decides without keeping it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dds_core.engine import Step
from dds_core.model import AttachRequest, FabricResource, Observed
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.deciding import decide
from dds_core.scaler.folds import apply
from dds_core.scaler.state import State, dump
from tests.property import invariants
from tests.property.actors import ACTORS, JOBS, act, carry_out
from tests.property.cluster import SECOND, START, Kind, Move
from tests.property.places import furnished
from tests.property.verbs import VERBS, do

TICKS = (0.1, 1.0, 5.0, 31.0, 61.0, 130.0, 601.0, 3601.0)

POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"hand_over": "clear", "adoption": "all"},
    {"hand_over": "clear", "adoption": "none", "detach_without_fence": "never"},
    {"limit": {"max": 2, "min": 1}, "prewarm": True},
    {"detaches_per_hour": 1, "no_removal_seconds": 5},
    {"scan_interval_seconds": 0},
    {"scheduler": {"binding_timeout_seconds": 20}, "cool_down_seconds": 1, "no_allocation_seconds": 0},
    {"rebalance": False, "limits": {"node0/A100 40G": {"max": 1, "min": 1}}},
)

WRITTEN: tuple[type[e.Decision], ...] = (
    e.ClaimsListWanted,
    *(kind for kind in e.EVENTS if issubclass(kind, e.Decision) and kind.written),
)
"""The decisions that the writer carries out; the others are of the log alone."""


class Run:
    """One cluster, one engine, one twin. `thorough` rebuilds the state from its dump after each step and not only now
    and then. `outbox` holds the decisions of live modes that nobody has carried out yet."""

    def __init__(self, mode: str = "observe", policy: int = 0, *, synced: bool = True, thorough: bool = False) -> None:
        self.cluster = furnished()
        self.engine = Engine()
        self.twin = State()
        self.steps: list[Step] = []
        self.streams = {e.SCALER, "fleet"}
        self.outbox: list[e.Decision] = []
        self._told: dict[tuple[Kind, str], Observed] = {}
        self._thorough = thorough
        self.now = START
        self.epoch = 0
        self.restart(mode)
        self.feed(e.PolicyChanged(policy={"mode": mode, **POLICIES[policy % len(POLICIES)]}))
        self.feed(capabilities(policy))
        self.tell()
        if synced:
            self.feed(e.Synced())

    @property
    def state(self) -> State:
        return self.engine.state

    def play(self, moves: Iterable[Move]) -> None:
        for move in moves:
            self.move(move)

    def move(self, move: Move) -> None:
        self.now += SECOND // 10
        self.cluster.now = self.now
        if move.verb in VERBS:
            do(self.cluster, move)
        elif move.verb in ACTORS:
            act(self.cluster, move)
        else:
            ENGINE[move.verb](self, move.a, move.b, move.c)
        self.tell()

    def tell(self) -> None:
        """Facts for all that has changed in the cluster, gone objects first."""
        for fact in differences(self._told, self.cluster.objects):
            self.feed(fact)
        self._told = dict(self.cluster.objects)

    def feed(self, fact: e.Event) -> None:
        """The deadlines that are due, then the fact."""
        while (deadline := self.engine.due(self.now)) is not None:
            self._step(deadline, deadline.due)
        self._step(fact, self.now)

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
        while (deadline := self.engine.due(self.now)) is not None:
            self._step(deadline, deadline.due)

    def restart(self, mode: str = "observe") -> None:
        self.epoch += 1
        self.feed(e.Started(code="test", fingerprint="test", projection=1, epoch=self.epoch, mode=mode))

    def _step(self, fact: e.Event, at: int) -> None:
        before = invariants.intents(self.state)
        step = self.engine.feed(fact, at)
        self.steps.append(step)
        self.streams.add(fact.subject)
        self.streams.update(node.name for node in self.state.fleet.nodes.rows.values())
        self.streams.update(self.state.inventory.keys_of)  # a fact about a slice is about its devices
        self._follow(step)
        self.outbox += [
            one for one in step.decisions if isinstance(one, WRITTEN) and getattr(one, "mode", "") != "observe"
        ]
        invariants.check(self.engine, step, before, self.streams)
        if self._thorough or len(self.steps) % 8 == 0:
            invariants.check_rebuilt(self.engine)

    def _follow(self, step: Step) -> None:
        """The twin decides, which leaves no trace, and then folds what was recorded: the same in both."""
        twin = self.twin
        apply(twin, step.fact, step.at)
        trace = invariants.trace(twin)
        assert decide(twin, step.at).emitted == step.caused
        assert invariants.trace(twin) == trace, "decide left a trace"
        for event, _ in step.caused:
            apply(twin, event, step.at)
        twin.dirty.clear()
        assert dump(twin) == dump(self.state), "the fold of what was recorded is another state"


def differences(old: dict[tuple[Kind, str], Observed], new: dict[tuple[Kind, str], Observed]) -> list[e.Event]:
    """The facts that turn one set of objects into the other, in a fixed order."""
    facts: list[e.Event] = []
    for (kind, uid), _ in sorted(old.items(), key=_place):
        if (kind, uid) not in new:
            gone: Any = e.OBSERVED[kind][1]
            facts.append(gone(uid=uid))
    for key, thing in sorted(new.items(), key=_place):
        fact = e.difference(old.get(key), thing)
        if fact is not None:
            facts.append(fact)
    return facts


def _place(item: tuple[tuple[Kind, str], Observed]) -> tuple[str, str]:
    return item[0][0].__name__, item[0][1]


# --- what happens to the engine itself ---------------------------------------------------------------------------------


def _policy(run: Run, a: int, b: int, c: int) -> None:
    mode = ("observe", "attach", "detach")[a % 3]
    run.feed(e.PolicyChanged(policy={"mode": mode, **POLICIES[b % len(POLICIES)]}))


def capabilities(number: int) -> e.Capabilities:
    """Devices can be guarded, or not."""
    return e.Capabilities(version="1.36", guards="dds") if number % 2 else e.Capabilities()


def _target(decision: e.Decision) -> str:
    match decision:
        case e.AttachOrdered(request=name) | e.DetachOrdered(request=name):
            return name
        case _:
            return decision.subject


def _write(run: Run, a: int, b: int, c: int) -> None:
    """The writer carries out a decision, the oldest or another; sometimes nobody hears of its success."""
    if run.outbox:
        decision = run.outbox.pop(a % len(run.outbox) if a > 3 else 0)
        carry_out(run.cluster, decision)
        if isinstance(decision, e.ClaimsListWanted):
            run.feed(e.ClaimsListed(resource=decision.resource, started=run.now))
        elif b % 4:
            version = "1" if isinstance(decision, e.AllocationCleared) else ""
            run.feed(
                e.WriteDone(decision="", action=type(decision).__name__, target=_target(decision), version=version)
            )


def _refuse(run: Run, a: int, b: int, c: int) -> None:
    if run.outbox:
        decision = run.outbox.pop(a % len(run.outbox))
        action, target = type(decision).__name__, _target(decision)
        run.feed(e.WriteRefused(decision="", action=action, target=target, code=422, reason="Invalid"))


def _work(run: Run, a: int, b: int, c: int) -> None:
    """Everybody does all that they have to do, once or a few times over: so deep states are reached in few moves."""
    for _ in range(1 + a % 4):
        for verb, times in (("write", len(run.outbox)), ("operate", len(run.cluster.all(AttachRequest)))):
            for turn in range(times):
                run.move(Move(verb, turn if verb == "operate" else 0, 1))
        for verb, times in (("attach", 2 * len(run.cluster.all(FabricResource))), ("schedule", JOBS)):
            for turn in range(times):
                run.move(Move(verb, turn, b))


def _lose(run: Run, a: int, b: int, c: int) -> None:
    """A decision is never carried out, as when the process ends."""
    if run.outbox:
        run.outbox.pop(a % len(run.outbox))


def _listed(run: Run, a: int, b: int, c: int) -> None:
    resources = run.cluster.all(FabricResource)
    if resources:
        uid = resources[a % len(resources)].uid
        run.feed(e.ClaimsListed(resource=uid, started=run.now - b * SECOND))


def _rejected(run: Run, a: int, b: int, c: int) -> None:
    keys = sorted(run.cluster.objects, key=lambda key: (key[0].__name__, key[1]))
    if keys:
        kind, uid = keys[a % len(keys)]
        run.feed(e.Rejected(kind=kind.__name__, uid=uid, name=uid, field="spec", reason=f"odd {b}"))


ENGINE: dict[str, Callable[[Run, int, int, int], None]] = {
    "wait": lambda run, a, b, c: run.wait(TICKS[a % len(TICKS)]),
    "write": _write,
    "work": _work,
    "refuse": _refuse,
    "lose": _lose,
    "policy": _policy,
    "listed": _listed,
    "stale": lambda run, a, b, c: run.feed(e.Stale(resource="pods", age=60)),
    "synced": lambda run, a, b, c: run.feed(e.Synced()),
    "restart": lambda run, a, b, c: run.restart(),
    "capabilities": lambda run, a, b, c: run.feed(capabilities(a)),
    "rejected": _rejected,
}
