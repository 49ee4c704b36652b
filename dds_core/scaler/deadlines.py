"""The deadlines of the scaler, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline, DeadlineKind, Name
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.lifecycle import ATTACHING, IDLE, PENDING
from dds_core.scaler import exchange, fence, hold
from dds_core.scaler.operator import TWO_CHECKS
from dds_core.scaler.rooms import Dirty
from dds_core.scaler.rules.claims import slow_due
from dds_core.scaler.rules.detach import call_off_due
from dds_core.scaler.rules.devices import progress_due
from dds_core.scaler.rules.failures import budget_due, cools_with_fabric, definite_due, read_back_due, signal_due
from dds_core.scaler.rules.nudges import nudge_due
from dds_core.scaler.rules.orders import PREWARM_INTERVAL
from dds_core.scaler.rules.reservations import reservation_due
from dds_core.scaler.rules.victims import idle_due
from dds_core.scaler.state import State

KINDS = kit.KINDS | {
    DeadlineKind.BUDGET: "the time for the attach is used up",
    DeadlineKind.RESERVATION: "the device that was handed over was not taken in time",
    DeadlineKind.GUARD: "the guard of its devices is over",
    DeadlineKind.SETTLE: "every API server is taken to know of the guard",
    DeadlineKind.IDLE: "it has idled long enough to go back",
    DeadlineKind.FENCE: "the fence around it has settled",
    DeadlineKind.STUCK: "it was to go and could not for long",
    DeadlineKind.UNLISTED: "its node's driver has not listed it for too long",
    DeadlineKind.SICK: "its error was not gone after two of the operator's checks",
    DeadlineKind.NUDGE: "the operator is to look at it",
    DeadlineKind.CALL_OFF: "no order for it can be under way",
    DeadlineKind.PROGRESS: "it has been on its way for long",
    DeadlineKind.SLOW: "what was ordered for it has been on its way for long",
    DeadlineKind.HOLD: "the guard under which it was to be held is over",
    DeadlineKind.GRACE: "its attach error has stood long enough to be definite",
    DeadlineKind.COOLING: "the cool-down is over",
    DeadlineKind.PUBLISHER: "the failure waits no longer for the publisher to close the pool",
    DeadlineKind.TELL: "the failure, which is the same on every node, is signalled again",
    DeadlineKind.DETACHES: "the hourly number of detaches has room again",
    DeadlineKind.PREWARM: "another device may be ordered ahead of demand",
}
_OF_CLAIM = (
    DeadlineKind.BUDGET,
    DeadlineKind.RESERVATION,
    DeadlineKind.GUARD,
    DeadlineKind.SETTLE,
    DeadlineKind.TELL,
    DeadlineKind.SLOW,
)
_OF_DEVICE = (
    DeadlineKind.IDLE,
    DeadlineKind.FENCE,
    DeadlineKind.STUCK,
    DeadlineKind.GRACE,
    DeadlineKind.HOLD,
    DeadlineKind.SETTLE,
    DeadlineKind.UNLISTED,
    DeadlineKind.PROGRESS,
    DeadlineKind.SICK,
    DeadlineKind.NUDGE,
    DeadlineKind.CALL_OFF,
)
_OF_FLEET = (DeadlineKind.DETACHES, DeadlineKind.PREWARM)

UNLISTED_GRACE = 300 * MICROSECONDS
"""An attached device that is missing from its node's whole pools for so long is given up. A driver that starts again, or has to
notice a new device, takes a minute or two; the claim that waits has a budget of nine."""


def of_claim(state: State, uid: str) -> Iterator[Deadline]:
    claim, life = state.demand.claims.get(uid), state.lifecycle.lives.get(uid)
    waits = life is not None and life.state in (PENDING, ATTACHING) and uid not in state.failing.failures
    if waits and claim is not None and life is not None and state.inventory.wanted_models(life.allocation):
        yield Deadline(budget_due(state, claim, life), DeadlineKind.BUDGET, uid)
    slow = slow_due(life) if waits and life is not None else None
    if slow is not None:
        yield Deadline(slow, DeadlineKind.SLOW, uid)
    if uid in state.hand_over.exchanges or uid in state.hand_over.guarded_for:
        yield from exchange.due(state, uid)
    failure = state.failing.failures.get(uid)
    if failure is not None and life is not None and not failure.model and not failure.signalled:
        yield Deadline(signal_due(state, failure, life), DeadlineKind.TELL, uid)
    if uid in state.hand_over.reservations_for:
        kept = state.hand_over.reservations_for[uid]
        yield Deadline(min(reservation_due(state, key) for key in kept), DeadlineKind.RESERVATION, uid)


def of_device(state: State, uid: str) -> Iterator[Deadline]:
    if uid not in state.fleet.resources:
        return
    life = state.lifecycle.devices.get(uid)
    if (
        life is not None
        and life.state == IDLE
        and uid not in state.give_back.fences
        and uid not in state.give_back.holds
    ):
        yield Deadline(idle_due(state, uid), DeadlineKind.IDLE, uid)
    if uid in state.give_back.fences:
        yield from fence.due(state, uid)
    if uid in state.give_back.holds:
        yield from hold.due(state, uid)
    unlisted, moving = state.health.unlisted.get(uid), progress_due(state, uid)
    if unlisted is not None:
        yield Deadline(unlisted + UNLISTED_GRACE, DeadlineKind.UNLISTED, uid)
    if moving is not None:
        yield Deadline(moving, DeadlineKind.PROGRESS, uid)
    definite, nudged, called_off = definite_due(state, uid), nudge_due(state, uid), call_off_due(state, uid)
    if definite is not None:
        yield Deadline(definite, DeadlineKind.GRACE, uid)
    if called_off is not None:
        yield Deadline(called_off, DeadlineKind.CALL_OFF, uid)
    if nudged is not None:
        yield Deadline(nudged, DeadlineKind.NUDGE, uid)
    if uid in state.health.sick:
        yield Deadline(state.health.sick.rows[uid] + TWO_CHECKS, DeadlineKind.SICK, uid)


def of_node(state: State, node: str) -> Iterator[Deadline]:
    for cell in state.failing.cooling_at[node]:
        yield Deadline(state.failing.cooling.rows[cell].until, DeadlineKind.COOLING, "/".join(cell))
    for claim in state.failing.failed_at[node]:
        failure = state.failing.failures.rows[claim]
        if not failure.signalled and cools_with_fabric(state, node, failure.model):
            yield Deadline(read_back_due(failure), DeadlineKind.PUBLISHER, claim)


def of_fleet(state: State) -> Iterator[Deadline]:
    policy = state.policy
    if len(state.give_back.marks) >= policy.detaches_per_hour and state.give_back.marks.rows:
        yield Deadline(min(state.give_back.marks.rows.values()) + HOUR, DeadlineKind.DETACHES, "fleet")
    if policy.prewarm:
        last = state.notes.fired_deadlines.get((DeadlineKind.PREWARM, "")) or state.process.synced_at
        yield Deadline(last + PREWARM_INTERVAL, DeadlineKind.PREWARM, "fleet")


class DeadlineQueue(kit.DeadlineQueue[State]):
    def rebuild(self) -> None:
        super().rebuild()
        self._of_nodes: dict[str, list[Name]] = {}
        for node in self._state.failing.cooling_at:
            self._of_nodes[node] = [(one.kind, one.of) for one in of_node(self._state, node)]

    @classmethod
    def found(cls, state: State) -> Iterator[Deadline]:
        yield from of_fleet(state)
        for uid in {
            *state.lifecycle.lives,
            *(row.claim for row in state.hand_over.reservations.rows.values()),
            *state.hand_over.guarded_for,
        }:
            yield from of_claim(state, uid)
        for uid in state.fleet.resources:
            yield from of_device(state, uid)
        for node in state.failing.cooling_at:
            yield from of_node(state, node)

    def look(self, touched: Dirty) -> None:
        state = self._state
        for uid in touched.claims:
            self._replace_of(uid, _OF_CLAIM, of_claim(state, uid))
        for uid in touched.devices:
            self._replace_of(uid, _OF_DEVICE, of_device(state, uid))
        for node in touched.nodes:
            if node in state.failing.cooling_at or node in state.failing.failed_at or node in self._of_nodes:
                now = list(of_node(state, node))
                known = self._of_nodes.pop(node, ())
                if now:
                    self._of_nodes[node] = [(one.kind, one.of) for one in now]
                self._replace(known, now)
        self._replace_of("fleet", _OF_FLEET, of_fleet(state))


deadlines = DeadlineQueue.deadlines
