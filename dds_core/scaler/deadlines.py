"""The instants that the picture waits for: a pure function of it, in every mode.

Each deadline is (due, kind, of). It comes back as a `DeadlinePassed` fact, once; a deadline that moves is another one. The
`Agenda` keeps them in order and is told what changed, so that finding the next one costs nothing.

Kinds: budget (a claim's attach takes too long), reservation (a promised device was not taken), idle (a device idled long
enough), fence (a victim's fence has settled), grace (an attach error is definite), cooling (a cool-down ends), publisher
(a failure waits for the publisher no more), retry (a refused write may be tried again), detaches (the hourly cap has room
again), prewarm, level (a pass over the whole fleet).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dds_core.kit.deadlines import Deadline, Deadlines
from dds_core.lifecycle import ATTACHING, IDLE, PENDING
from dds_core.scaler.fold import HOUR
from dds_core.scaler.indexes import Dirty
from dds_core.scaler.policy import MICROSECONDS
from dds_core.scaler.rules.failures import budget_due, cools_with_fabric, read_back_due
from dds_core.scaler.rules.handover import reservation_due
from dds_core.scaler.rules.release import fence_due, idle_due
from dds_core.scaler.state import Picture

_CLAIM_KINDS = ("budget", "reservation")
_DEVICE_KINDS = ("idle", "fence", "grace")
_FLEET_KINDS = ("detaches", "prewarm", "level")


def of_claim(picture: Picture, uid: str) -> Iterator[Deadline]:
    claim, life = picture.claims.get(uid), picture.lives.get(uid)
    waits = (
        claim is not None and life is not None and life.state in (PENDING, ATTACHING) and uid not in picture.failures
    )
    if waits and claim is not None and life is not None and picture.pool_results(life.allocation):
        yield Deadline(budget_due(picture, claim, life), "budget", uid)
    kept = picture.reservations_for[uid]
    if kept:
        yield Deadline(min(reservation_due(picture, key) for key in kept), "reservation", uid)


def of_device(picture: Picture, uid: str) -> Iterator[Deadline]:
    if uid not in picture.resources:
        return
    life, fence = picture.devices.get(uid), picture.fences.get(uid)
    if life is not None and life.state == IDLE and fence is None:
        yield Deadline(idle_due(picture, uid), "idle", uid)
    if fence is not None and not fence.wanted:
        yield Deadline(fence_due(picture, fence), "fence", uid)
    since = picture.erring.get(uid)
    if since is not None:
        yield Deadline(since + picture.policy.error_grace_seconds * MICROSECONDS, "grace", uid)


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
    if policy.prewarm:
        last = picture.passed.get(("prewarm", "")) or picture.synced_at
        yield Deadline(last + policy.prewarm_interval_seconds * MICROSECONDS, "prewarm", "fleet")
    if policy.scan_interval_seconds:
        yield Deadline(picture.level_at + policy.scan_interval_seconds * MICROSECONDS, "level", "fleet")


def _retries(picture: Picture) -> Iterator[Deadline]:
    for (action, target), refusal in picture.refusals.rows.items():
        yield Deadline(refusal.until, "retry", f"{action}/{target}")


def deadlines(picture: Picture) -> set[Deadline]:
    """Every deadline of the picture that has not come back yet."""
    found = {*of_fleet(picture), *_retries(picture)}
    for uid in {*picture.lives, *(row.claim for row in picture.reservations.rows.values())}:
        found.update(of_claim(picture, uid))
    for uid in picture.resources:
        found.update(of_device(picture, uid))
    for node in picture.cooling_at.sets:
        found.update(of_node(picture, node))
    return {one for one in found if picture.passed.get((one.kind, one.of)) != one.due}


class Agenda:
    """The deadlines of a picture in order; `refresh` after each group."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._of_nodes: dict[str, set[tuple[str, str]]] = {}
        self._retries: set[str] = set()
        self.rebuild()

    def rebuild(self) -> None:
        self._deadlines = Deadlines(deadlines(self._picture))
        self._retries = {of for kind, of in self._deadlines.due if kind == "retry"}
        nodes = self._picture.cooling_at.sets
        self._of_nodes = {node: {(one.kind, one.of) for one in of_node(self._picture, node)} for node in nodes}

    def refresh(self, touched: Dirty) -> None:
        """Look again at what a group touched."""
        if touched.everything:
            self.rebuild()
            return
        picture = self._picture
        for uid in touched.claims:
            self._replace(((kind, uid) for kind in _CLAIM_KINDS), of_claim(picture, uid))
        for uid in touched.devices:
            self._replace(((kind, uid) for kind in _DEVICE_KINDS), of_device(picture, uid))
        for node in touched.nodes:
            now = list(of_node(picture, node))
            known = self._of_nodes.pop(node, ())
            if now:
                self._of_nodes[node] = {(one.kind, one.of) for one in now}
            if known or now:
                self._replace(known, now)
        self._replace(((kind, "fleet") for kind in _FLEET_KINDS), of_fleet(picture))
        if picture.refusals or self._retries:
            now = list(_retries(picture))
            self._replace((("retry", of) for of in self._retries), now)
            self._retries = {one.of for one in now}

    def _replace(self, keys: Iterable[tuple[str, str]], now: Iterable[Deadline]) -> None:
        """Of these keys, only what is in `now` stays due."""
        kept = self._deadlines
        left = {key for key in keys if key in kept.due}
        for one in now:
            key = (one.kind, one.of)
            left.discard(key)
            if self._picture.passed.get(key) == one.due:
                kept.drop(key)
            else:
                kept.put(key, one.due)
        for key in left:
            kept.drop(key)

    def has(self, one: Deadline) -> bool:
        """Whether this very deadline is still to come back."""
        return self._deadlines.has(one)

    def next(self) -> Deadline | None:
        """The earliest deadline, None when there is none, or while the picture is not whole or a view is stale."""
        return self._deadlines.first() if self._picture.synced and not self._picture.stale else None
