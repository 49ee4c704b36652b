"""The instants that the scaler's picture waits for, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline, Name
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.lifecycle import ATTACHING, IDLE, PENDING
from dds_core.scaler.fold.decisions import settled_due
from dds_core.scaler.indexes import Dirty
from dds_core.scaler.rules.claims import slow_due
from dds_core.scaler.rules.devices import progress_due
from dds_core.scaler.rules.failures import budget_due, cools_with_fabric, definite_due, read_back_due, told_due
from dds_core.scaler.rules.release import fence_due, idle_due, quiet_due
from dds_core.scaler.rules.reservations import reservation_due
from dds_core.scaler.state import Picture

KINDS = kit.KINDS | {
    "budget": "the time for the attach is used up",
    "reservation": "the device that was handed over was not taken in time",
    "guard": "the guard of its devices is over",
    "settle": "every API server is taken to know of the guard",
    "idle": "it has idled long enough to go back",
    "fence": "the fence around it has settled",
    "unlisted": "its node's driver has not listed it for too long",
    "progress": "it has been on its way for long",
    "slow": "what was ordered for it has been on its way for long",
    "hold": "the guard under which it was to be held is over",
    "rules": "no slice has changed lately, so that an old taint rule may go",
    "grace": "its attach error has stood long enough to be definite",
    "cooling": "the cool-down is over",
    "publisher": "the failure waits no longer for the publisher to close the pool",
    "tell": "the failure, which would come about anywhere, is told again",
    "detaches": "the hourly number of detaches has room again",
    "prewarm": "another device may be ordered ahead of demand",
}
_OF_CLAIM = ("budget", "reservation", "guard", "settle", "tell", "slow")
_OF_DEVICE = ("idle", "fence", "grace", "hold", "settle", "unlisted", "progress")
_OF_FLEET = (("detaches", "fleet"), ("prewarm", "fleet"), ("rules", "fleet"))


def of_claim(picture: Picture, uid: str) -> Iterator[Deadline]:
    claim, life = picture.claims.get(uid), picture.lives.get(uid)
    waits = life is not None and life.state in (PENDING, ATTACHING) and uid not in picture.failures
    if waits and claim is not None and life is not None and picture.pool_results(life.allocation):
        yield Deadline(budget_due(picture, claim, life), "budget", uid)
    slow = slow_due(life) if waits and life is not None else None
    if slow is not None:
        yield Deadline(slow, "slow", uid)
    guarded = [row.until for key in picture.guarded_for[uid] if not (row := picture.guarded.rows[key]).lifting]
    if guarded:
        yield Deadline(min(guarded), "guard", uid)
    exchange = picture.exchanges.get(uid)
    if exchange is not None and exchange.stage == "listing" and exchange.group[0] == uid and not exchange.wanted:
        yield Deadline(settled_due(picture, exchange.since), "settle", uid)
    failure = picture.failures.get(uid)
    if failure is not None and life is not None and not failure.model and not failure.signalled:
        yield Deadline(told_due(picture, failure, life), "tell", uid)
    kept = picture.reservations_for[uid]
    if kept:
        yield Deadline(min(reservation_due(picture, key) for key in kept), "reservation", uid)


def of_device(picture: Picture, uid: str) -> Iterator[Deadline]:
    if uid not in picture.resources:
        return
    life, fence = picture.devices.get(uid), picture.fences.get(uid)
    if life is not None and life.state == IDLE and fence is None and uid not in picture.holds:
        yield Deadline(idle_due(picture, uid), "idle", uid)
    if fence is not None and fence.named and not fence.wanted:
        yield Deadline(fence_due(picture, fence), "fence", uid)
    hold = picture.holds.get(uid)
    if hold is not None and hold.stage not in ("held", "lost", "ending", "ended"):
        yield Deadline(hold.until, "hold", uid)
    unlisted, moving = picture.unlisted.get(uid), progress_due(picture, uid)
    if unlisted is not None:
        yield Deadline(unlisted + picture.policy.unlisted_grace_seconds * MICROSECONDS, "unlisted", uid)
    if moving is not None:
        yield Deadline(moving, "progress", uid)
    if hold is not None and hold.stage == "listing" and not hold.wanted:
        yield Deadline(settled_due(picture, hold.since), "settle", uid)
    definite = definite_due(picture, uid)
    if definite is not None:
        yield Deadline(definite, "grace", uid)


def of_node(picture: Picture, node: str) -> Iterator[Deadline]:
    for cell in picture.cooling_at[node]:
        yield Deadline(picture.cooling.rows[cell].until, "cooling", "/".join(cell))
    for claim in picture.failed_at[node]:
        failure = picture.failures.rows[claim]
        if not failure.signalled and cools_with_fabric(picture, node, failure.model):
            yield Deadline(read_back_due(picture, failure), "publisher", claim)


def of_fleet(picture: Picture) -> Iterator[Deadline]:
    policy = picture.policy
    if len(picture.marks) >= policy.detaches_per_hour and picture.marks.rows:
        yield Deadline(min(picture.marks.rows.values()) + HOUR, "detaches", "fleet")
    if picture.our_rules and any(rule not in picture.lifted for rule in picture.our_rules):
        yield Deadline(quiet_due(picture), "rules", "fleet")
    if policy.prewarm:
        last = picture.passed.get(("prewarm", "")) or picture.synced_at
        yield Deadline(last + policy.prewarm_interval_seconds * MICROSECONDS, "prewarm", "fleet")


class Agenda(kit.Agenda[Picture]):
    """The deadlines of a picture in order; `refresh` after each group."""

    def rebuild(self) -> None:
        super().rebuild()
        self._of_nodes: dict[str, list[Name]] = {}
        for node in self._picture.cooling_at:
            self._of_nodes[node] = [(one.kind, one.of) for one in of_node(self._picture, node)]

    @classmethod
    def found(cls, picture: Picture) -> Iterator[Deadline]:
        yield from of_fleet(picture)
        for uid in {
            *picture.lives,
            *(row.claim for row in picture.reservations.rows.values()),
            *picture.guarded_for,
        }:
            yield from of_claim(picture, uid)
        for uid in picture.resources:
            yield from of_device(picture, uid)
        for node in picture.cooling_at:
            yield from of_node(picture, node)

    def look(self, touched: Dirty) -> None:
        picture = self._picture
        for uid in touched.claims:
            self._replace(tuple((kind, uid) for kind in _OF_CLAIM), of_claim(picture, uid))
        for uid in touched.devices:
            self._replace(tuple((kind, uid) for kind in _OF_DEVICE), of_device(picture, uid))
        for node in touched.nodes:
            now = list(of_node(picture, node))
            known = self._of_nodes.pop(node, ())
            if now:
                self._of_nodes[node] = [(one.kind, one.of) for one in now]
            if known or now:
                self._replace(known, now)
        self._replace(_OF_FLEET, of_fleet(picture))


deadlines = Agenda.deadlines
