"""Leader election as a pure state machine over a Lease. No I/O, no clock, no threads: the caller puts in answers and instants,
and gets the next request and the instant until which leadership is certain.

No two processes lead at once if their clocks *run* at the same speed. What the clocks *show* does not matter, because an instant
that another process wrote is never compared with a clock. The proof, with the lease's duration D and the renew deadline R < D:

- A leader counts R from *before* it sent a successful write; a contender counts D from *after* it first saw the record as it is.
  Every write is conditional on the version that was read, so a contender's write fails if the leader's came first. If it
  succeeds, the leader's R has been over for at least D - R.
- A Lease that does not exist, or was never held, may have been deleted under a leader. Its creator or first holder therefore
  leads only from the first renewal that it sends D later; by then the old leader has seen the new record, or its R is over. A
  leader whose record was deleted writes a new one and continues.
- A Lease without a holder was released by a process that had stopped all work. (Do not empty that field by hand.)
- A write without an answer may have succeeded, or may succeed later. The instant in the record that is read next identifies that
  write, and R counts from when it was sent; a write that arrives later fails on the version.
- A loss is final. An answer that comes after R is over changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import msgspec

from dds_adapters.kubernetes.cluster import Answer
from dds_core.errors import DdsError, InputError
from dds_core.timeline.instants import rfc3339

API_VERSION = "coordination.k8s.io/v1"
NOTE = "dds.cohdi.io/log"
"""The annotation in which a holder keeps where it left its log (an anchor, one JSON object)."""
RELEASED_SECONDS = 1
"""leaseDurationSeconds of a Lease without a holder; the API server refuses 0."""
JITTER = 0.2
"""A pause between requests is the retry period, shorter or longer by up to this share."""
AT_ONCE = 2
"""How many requests may follow an answer without a pause: read the object on which a write failed, and write again."""
_MOST_TRANSITIONS = 2**31 - 1
_STANDSTILL = 1_000_000
"""Microseconds by which a wall clock may go back without being set."""


@dataclass(frozen=True)
class LeaseSettings:
    """The three durations of an election, in seconds. Raises InputError if they do not fit together.

    `duration`: how long others leave a record alone that is not renewed; whole seconds, as in the object. `renew_deadline`: a
    leader that cannot renew for so long has lost. `retry_period`: the time between two requests, plus or minus a fifth. The
    defaults are short, because the log keeps out a leader that does not know yet that it has lost.
    """

    duration: float = 4.0
    renew_deadline: float = 3.0
    retry_period: float = 0.75

    def __post_init__(self) -> None:
        if not (1 <= self.duration < 2**31 and self.duration == int(self.duration)):
            what = f"the lease duration of {self.duration:g} s cannot be written into a Lease"
            raise InputError(what, where="lease", fix="give whole seconds, at least 1")
        if not self.duration > self.renew_deadline:
            what = f"the renew deadline of {self.renew_deadline:g} s is not under the lease duration of {self.duration:g} s"
            raise InputError(what, where="lease", fix="others would take over before the leader knows: shorten it")
        if not self.retry_period > 0:
            what = f"the retry period of {self.retry_period:g} s is not above 0"
            raise InputError(what, where="lease", fix="give seconds, such as 2")
        longest = self.retry_period * (1 + JITTER)
        if not self.renew_deadline > longest:
            what = f"the renew deadline of {self.renew_deadline:g} s is not above the longest retry period of {longest:g} s"
            raise InputError(
                what, where="lease", fix="the leader would lose without having tried: shorten the retry period"
            )


@dataclass(frozen=True)
class Ask:
    """A request to send now. `timeout` is in seconds, counted from the instant `sent`."""

    verb: Literal["get", "create", "update"]
    body: bytes
    sent: float
    timeout: float


class Phase(Enum):
    """The phase of an elector. LOST and OVER are final."""

    STANDBY = "standby"
    CLAIMING = "claiming"
    LEADING = "leading"
    RELEASING = "releasing"
    LOST = "lost"
    OVER = "over"


@dataclass(frozen=True)
class _Attempt:
    sent: float
    over: str
    """The uid of the Lease that this write takes over; empty if there is none, or it was never held."""


class LeaseState:
    """One contender's view of one Lease.

    Instants are seconds of a monotonic clock. `wall` is microseconds since 1970-01-01 UTC, only for the text in the record. The
    caller alternates `next` and `answered` (or `failed`), one request at a time.
    """

    def __init__(
        self, namespace: str, name: str, identity: str, settings: LeaseSettings, random: Callable[[], float]
    ) -> None:
        """`random` gives numbers from 0 to 1. `identity` must be unique: two processes with the same one would both lead."""
        if not identity or not name or not namespace:
            raise InputError("namespace, name and identity of a lease may not be empty", where="lease", fix="give all")
        self.where = f"lease {namespace}/{name}"
        self.phase = Phase.STANDBY
        self.certain_until = float("-inf")
        self.loss = ""
        self.trouble: DdsError | None = None
        """The last error, until a request succeeds."""
        self._namespace, self._name, self._identity = namespace, name, identity
        self._settings = settings
        self._random = random
        self._note = ""
        self._seen: Record | None = None
        self._seen_at = 0.0
        self._stale = True
        self._attempts: dict[str, _Attempt] = {}
        self._wrote = -_STANDSTILL
        self._mine: Written | None = None
        self._uid = ""
        self._make_from = float("-inf")
        self._lead_from = float("inf")
        self._alone = False
        """It is certain that no earlier leader still leads."""
        self._pace = float("-inf")
        self._pause = 0.0
        self._follow = False
        self._followed = 0

    # -- for the caller --------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Nothing more will be sent."""
        return self.phase in (Phase.LOST, Phase.OVER)

    @property
    def holder(self) -> str:
        """The last known holder of the Lease; empty for none."""
        return self._seen.holder if self._seen is not None else ""

    @property
    def unread(self) -> bool:
        """The Lease was not read yet: who holds it is not known."""
        return self._seen is None and self._stale

    def vacant_for(self, now: float) -> float | None:
        """Seconds until a standby may lead. None while another process seems to lead, that is, has renewed its record
        within half its duration."""
        if self.phase is Phase.CLAIMING:
            return max(0.0, self._lead_from - now)
        seen = self._seen
        if seen is None:  # a Lease that it makes, it holds only after the duration: another may have been deleted
            return max(0.0, self._make_from - now) + self._settings.duration
        if not seen.holder:
            return 0.0
        left = self._free_at(seen) - now
        return max(0.0, left) if left <= max(seen.seconds, self._settings.duration) / 2 else None

    def remaining(self, now: float) -> float:
        """Seconds for which certainly no other process leads; 0 if this one does not lead."""
        return max(0.0, self.certain_until - now) if self.phase is Phase.LEADING else 0.0

    # -- requests and answers --------------------------------------------------------------------------------------

    @property
    def note(self) -> str:
        """The note in the Lease that was read last; empty for none."""
        return self._seen.note if self._seen is not None else ""

    def next(self, now: float, wall: int, note: str = "") -> Ask | float | None:
        """The request to send now, or the instant at which to call again; None when nothing more will be sent. A write puts
        `note` into the Lease; an empty one keeps what is there."""
        self._note = note or self._note
        self.expire(now)
        if self.ended:
            return None
        if self._follow and self._followed < AT_ONCE:
            self._followed += 1
            self._pace += self._settings.retry_period * 0.75  # unless it succeeds, this is only borrowed
        elif now >= self._pace:
            self._followed = 0
            self._pause = self._settings.retry_period * (1 - JITTER + 2 * JITTER * self._random())
            self._pace = now + self._pause
        else:
            return self._pace
        self._follow = False
        return self._ask(now, wall)

    def answered(self, ask: Ask, answer: Answer, now: float) -> None:
        """Take in an answer of the API server."""
        self.expire(now)
        if self.ended:
            return
        self._pace = max(self._pace, now + min(answer.wait, self._settings.renew_deadline / 2))
        if 200 <= answer.code < 300:
            self._read(ask, answer, now)
        elif answer.code == 409 and ask.verb != "get":
            self._look_again()
        elif answer.code == 404 and ask.verb != "create":
            self._absent(now)
        else:
            self.trouble = _refused(self.where, ask.verb, answer.code)

    def failed(self, ask: Ask, what: str, now: float) -> None:
        """There was no answer, so a write may have been carried out or not: the Lease is read before the next write."""
        self.expire(now)
        if not self.ended:
            fix = "check network and address of the API server"
            self.trouble = DdsError(f"no answer ({what})", where=self.where, fix=fix)
            self._stale = self._stale or ask.verb != "get"

    def expire(self, now: float) -> None:
        """Check the time. Call it at `certain_until` at the latest, whatever else runs."""
        if self.phase is Phase.LEADING and now >= self.certain_until:
            why = f": {self.trouble.what}" if self.trouble is not None else ""
            self._lose(f"could not be renewed for {self._settings.renew_deadline:g} s{why}")

    def release(self, now: float) -> None:
        """Release the Lease; call it only when all work that relied on it has stopped. If it is not held, the election is over at
        once."""
        held = self.phase in (Phase.LEADING, Phase.CLAIMING)
        if held or (self.phase is Phase.STANDBY and self._attempts):
            self.phase = Phase.RELEASING
            self._stale = bool(self._attempts)
            self._pace, self._followed = now, 0
        elif self.phase is Phase.STANDBY:
            self.phase = Phase.OVER

    # -- the next request ------------------------------------------------------------------------------------------

    def _free_at(self, record: Record) -> float:
        """When an unchanged record may be taken: after the longer of its duration and dds's own."""
        return self._seen_at + max(record.seconds, self._settings.duration) if record.holder else self._seen_at

    def _ask(self, now: float, wall: int) -> Ask:
        seen = self._seen
        free_at = self._free_at(seen) if seen is not None else self._make_from
        if self._stale or (self.phase is Phase.STANDBY and now < free_at):
            return self._request("get", b"", now)
        instant = self._instant(wall)
        written = self._written(instant)
        # An older write would not lead to leadership any more.
        since = now - self._settings.renew_deadline
        self._attempts = {at: attempt for at, attempt in self._attempts.items() if attempt.sent > since}
        known = seen is not None and (seen.holder or seen.renewed)
        self._attempts[instant] = _Attempt(now, over=seen.uid if seen is not None and known else "")
        if seen is None:
            return self._request("create", new_lease(written, self._namespace, self._name, self._note), now)
        return self._request("update", changed_lease(seen, written, self._note), now)

    def _request(self, verb: Literal["get", "create", "update"], body: bytes, now: float) -> Ask:
        timeout = self._settings.renew_deadline / 2
        if self.phase is Phase.LEADING:  # keep a third of the time, to read the outcome of an unanswered write
            timeout = min(timeout, (self.certain_until - now) * 2 / 3)
        return Ask(verb, body, now, timeout)

    def _written(self, instant: str) -> Written:
        if self.phase is Phase.RELEASING:
            count = self._mine.transitions if self._mine is not None else 0
            # Without an instant it reads as never held: the next holder waits, as this process would have had to.
            return Written("", RELEASED_SECONDS, instant, instant if self._alone else "", count)
        if self._mine is not None:
            return replace(self._mine, renewed=instant)
        seconds = int(self._settings.duration)
        count = self._seen.transitions + 1 if self._seen is not None else 0
        return Written(self._identity, seconds, instant, instant, min(count, _MOST_TRANSITIONS))

    def _instant(self, wall: int) -> str:
        """The present as text. If the clock stands still, add a microsecond: two equal renewals would look like none to the
        others. A clock that was set back is followed."""
        if self._wrote - _STANDSTILL < wall <= self._wrote:
            wall = self._wrote + 1
        self._wrote = wall
        return rfc3339(wall)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _read(self, ask: Ask, answer: Answer, now: float) -> None:
        try:
            record = read_record(answer.body, self.where)
        except UnexpectedLease as error:
            self.trouble = error
            self._stale = True
            return
        self.trouble = None
        self._stale = False
        if not record.same_as(self._seen):
            self._seen_at = now
        attempt = self._attempts.get(record.renewed) if record.holder == self._identity else None
        if attempt is not None:
            self._written_by_us(record, attempt, now)
            self._pace = self._pace if ask.verb == "get" else ask.sent + self._pause
        elif record.holder == self._identity and record.uid == self._uid and self._mine is not None:
            pass  # someone edited the Lease that this process holds: still held, but not renewed
        else:
            self._held_by_other(record)
        self._seen = record
        if self.phase is Phase.STANDBY:
            free_at = self._free_at(record)
            self._follow = now >= free_at
            self._pace = self._pace if self._follow else min(self._pace, free_at)
        else:  # a holder reads only after a failed write, so write again
            self._follow = ask.verb == "get" and not self._stale

    def _written_by_us(self, record: Record, attempt: _Attempt, now: float) -> None:
        self._attempts.clear()
        if self._mine is None:
            self._alone = record.uid == attempt.over
            self._lead_from = attempt.sent if self._alone else now + self._settings.duration
        self._uid = record.uid
        self._mine = Written(
            record.holder, int(self._settings.duration), record.acquired, record.renewed, record.transitions
        )
        if self.phase is Phase.STANDBY:
            self.phase = Phase.CLAIMING
        until = attempt.sent + self._settings.renew_deadline
        if self.phase is Phase.CLAIMING and attempt.sent >= self._lead_from and until > now:
            self.phase, self._alone = Phase.LEADING, True
        if self.phase is Phase.LEADING:
            self.certain_until = max(self.certain_until, until)

    def _held_by_other(self, record: Record) -> None:
        if self.phase is Phase.LEADING:
            self._lose(f"is held by {record.holder}" if record.holder else "was taken from its holder")
        elif self.phase is Phase.CLAIMING:
            self._stand_by()
        elif self.phase is Phase.RELEASING:
            self.phase = Phase.OVER
        if self._seen is None or record.version != self._seen.version:
            self._attempts.clear()  # with an unchanged version they may still arrive

    def _absent(self, now: float) -> None:
        self.trouble = None
        if self.phase is Phase.CLAIMING:
            self._stand_by()
        elif self.phase is Phase.RELEASING:
            self.phase = Phase.OVER
        if self.phase is Phase.STANDBY and self.holder:  # give the holder two tries to create it again
            self._make_from = now + 2 * (1 + JITTER) * self._settings.retry_period
        self._seen, self._stale = None, False
        self._follow = self.phase is Phase.LEADING or now >= self._make_from

    def _look_again(self) -> None:
        self._stale = self._follow = True

    def _stand_by(self) -> None:
        self.phase = Phase.STANDBY
        self._mine, self._uid, self._lead_from, self._alone = None, "", float("inf"), False

    def _lose(self, why: str) -> None:
        self.phase = Phase.LOST
        self.loss = why


def _refused(where: str, verb: str, code: int) -> DdsError:
    what = f"cannot {verb} it: the API server answers {code}"
    fix = "nothing if it passes, else look at the API server"
    if code == 401:
        fix = "renew the credentials"
    elif code == 403:
        fix = f"let this user {verb} leases of coordination.k8s.io in that namespace"
    elif code == 404:
        what, fix = "its namespace does not exist, or leases are not served", "create the namespace"
    return DdsError(what, where=where, fix=fix)


# -- the object ----------------------------------------------------------------------------------------------------------


class UnexpectedLease(DdsError):
    """The object is no Lease for an election; dds neither takes nor changes it."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str
    annotations: dict[str, str] | None = None


class _Lease(msgspec.Struct, rename="camel"):
    kind: str
    metadata: _Meta
    spec: _Spec | None = None


@dataclass(frozen=True)
class Written:
    """The fields that an elector writes. Instants are text: people read them, and dds only compares them for equality."""

    holder: str
    seconds: int
    acquired: str
    renewed: str
    transitions: int


@dataclass(frozen=True)
class Record:
    """A Lease (coordination.k8s.io/v1) as read. `seconds` is its duration, 0 if missing."""

    uid: str
    version: str
    holder: str
    seconds: int
    acquired: str
    renewed: str
    transitions: int
    note: str
    body: dict[str, Any]

    def same_as(self, other: Record | None) -> bool:
        """Whether the election's fields of both are equal; labels and resourceVersion do not count."""
        return other is not None and (self.uid, self.body.get("spec")) == (other.uid, other.body.get("spec"))


def read_record(raw: bytes, where: str) -> Record:
    """Decode an answer of the API server. Raises UnexpectedLease if it is not a Lease that can be contended for."""
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
        lease = msgspec.convert(body, _Lease)
    except (ValueError, RecursionError) as error:
        raise _unexpected(f"the API server answers with something else than a Lease ({error})", where) from None
    spec = lease.spec or _Spec()
    if lease.kind != "Lease" or not lease.metadata.uid or not lease.metadata.resource_version:
        raise _unexpected("the API server answers with something else than a Lease", where)
    if spec.strategy:
        raise _unexpected(f"its holder is chosen by strategy {spec.strategy}", where)
    return Record(
        uid=lease.metadata.uid,
        version=lease.metadata.resource_version,
        holder=spec.holder_identity or "",
        seconds=max(0, spec.lease_duration_seconds or 0),
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=max(0, spec.lease_transitions or 0),
        note=(lease.metadata.annotations or {}).get(NOTE, ""),
        body=body,
    )


def new_lease(written: Written, namespace: str, name: str, note: str = "") -> bytes:
    """The body that creates the Lease."""
    noted = {"annotations": {NOTE: note}} if note else {}
    shape = {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, **noted},
        "spec": _spec(written),
    }
    return msgspec.json.encode(shape)


def changed_lease(record: Record, written: Written, note: str = "") -> bytes:
    """The body that updates the Lease at the version that was read; all other fields are kept."""
    spec = {**(record.body.get("spec") or {}), **_spec(written)}
    metadata = record.body["metadata"]
    if note:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), NOTE: note}}
    return msgspec.json.encode({**record.body, "metadata": metadata, "spec": spec})


def _spec(written: Written) -> dict[str, Any]:
    return {
        "holderIdentity": written.holder,
        "leaseDurationSeconds": written.seconds,
        "acquireTime": written.acquired,
        "renewTime": written.renewed or None,
        "leaseTransitions": written.transitions,
    }


def _unexpected(what: str, where: str) -> UnexpectedLease:
    return UnexpectedLease(what, where=where, fix="give another name, or delete the object if nobody needs it")
