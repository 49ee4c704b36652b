"""The chain of hashes: how it is made, how it is checked, and how it survives redaction.

    digest = sha256(salt + data)
    hash   = sha256(prev_hash + canonical envelope with digest)

The canonical envelope is a JSON array (UTF-8, no spaces) of the envelope's fields up to `to_state` and the digest in hex.
The hash contains data only as a salted digest. So erasing data and salt leaves every hash valid, and the digest reveals nothing
about the erased data. This module draws no random numbers: the log that appends passes in a source of salts.

The module also holds the steps of an append that are the same for every storage. An implementation locks the head, looks up the
event ids that `to_look_up` returns, and stores what `prepare` returns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from dds_core.errors import (
    Archived,
    BrokenChain,
    EventConflict,
    Fenced,
    ForeignLog,
    InvalidEvent,
    LogWentBack,
    NotACheckpoint,
    WrongHead,
    WrongVersion,
)
from dds_core.log.envelope import CHECKPOINT, GENESIS, HEAD_FIELDS, LOG_OPENED, Envelope, Group, Head, NewEvent
from dds_core.log.interface import EventLog

SaltSource = Callable[[str], bytes]
"""Returns the salt (16 bytes) of the event with this id."""

SALT_BYTES = 16

_INDEXED = re.compile(r"\.[0-9]{1,9}$")


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """A position and its hash, kept outside the log: the only defence against a cut tail or a rebuilt chain. `epoch`: the newest
    that was taken, 0 if that is not known."""

    log: str
    position: int
    hash: bytes
    epoch: int = 0


class ChainReport(msgspec.Struct, frozen=True):
    """The result of a check: positions `first` to `last` hold, `hash` is that of the last. `unjudged` has the ranges (inclusive)
    whose data were erased."""

    log: str
    first: int
    last: int
    hash: bytes
    events: int
    unjudged: tuple[tuple[int, int], ...]


def fixed_salts(seed: bytes) -> SaltSource:
    """Salts from the seed and the event's id alone, for golden files. Never use them for a log that may be redacted."""
    return lambda name: sha256(seed + name.encode()).digest()[:SALT_BYTES]


def digest_of(salt: bytes, data: bytes) -> bytes:
    return sha256(salt + data).digest()


def event_id(log: str, epoch: int, ordinal: int, index: int) -> str:
    """The id of an event. It depends on the group's place in its writer's epoch, not on batches, positions or random numbers."""
    return f"{log}:{epoch}.{ordinal}.{index}"


_encode = msgspec.json.Encoder().encode


def hash_of(e: Envelope) -> bytes:
    """The hash that `e` must have, computed from its other fields."""
    return _hash(
        e.prev_hash,
        e.log,
        e.position,
        e.stream,
        e.version,
        e.event_id,
        e.type,
        e.schema_version,
        e.occurred_at,
        e.recorded_at,
        e.epoch,
        e.group,
        e.correlation_id,
        e.causation_id,
        e.from_state,
        e.to_state,
        e.digest.hex(),
    )


def _hash(prev_hash: bytes, *canonical: str | int | None) -> bytes:
    return sha256(prev_hash + _encode(canonical)).digest()


def seal(
    head: Head, epoch: int, groups: Iterable[Group], versions: dict[str, int], recorded_at: int, salts: SaltSource
) -> list[Envelope]:
    """The envelopes of `groups`, chained after `head`. `versions` must hold the current version of each stream and is updated."""
    log, position, prev_hash = head.log, head.position, head.hash
    sealed: list[Envelope] = []
    for group in groups:
        ids = [event_id(log, epoch, group.ordinal, index) for index in range(len(group.events))]
        for index, new in enumerate(group.events):
            position += 1
            versions[new.stream] = version = versions[new.stream] + 1
            salt = salts(ids[index])
            envelope = _sealed(
                log, position, version, ids, index, new, (recorded_at, epoch, group.ordinal), salt, prev_hash
            )
            prev_hash = envelope.hash
            sealed.append(envelope)
    return sealed


def _sealed(
    log: str,
    position: int,
    version: int,
    ids: list[str],
    index: int,
    new: NewEvent,
    written: tuple[int, int, int],
    salt: bytes,
    prev_hash: bytes,
) -> Envelope:
    digest = digest_of(salt, new.data)
    before = (log, position, new.stream, version, ids[index], new.type, new.schema_version, new.occurred_at, *written)
    after = (ids[0], causation_of(ids, index, new), new.from_state, new.to_state)
    hashed = _hash(prev_hash, *before, *after, digest.hex())
    return Envelope(*before, *after, new.data, salt, digest, prev_hash, hashed)


def causation_of(ids: list[str], index: int, new: NewEvent) -> str | None:
    """The id of the event that caused `new`: `new.cause`, by default the group's fact. None for the fact itself."""
    return None if index == 0 else ids[new.cause or 0]


class ChainCheck:
    """Checks envelopes one after the other, in constant memory. `feed` raises `BrokenChain` for the first wrong one."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self._anchors = {(anchor.log, anchor.position): anchor.hash for anchor in anchors}
        self._previous: Envelope | None = None
        self._first = 0
        self._index = 0
        self._ordinal, self._checkpoint, self._first_checkpoint = -1, 0, 0
        self._one_epoch = True
        self._unjudged: list[tuple[int, int]] = []

    def feed(self, e: Envelope) -> None:
        """Check that `e` follows the envelope fed before it. The first envelope may be at any position of the log."""
        self._check_place(e)
        try:
            self._check_id(e)
            self._check_content(e)
        except (TypeError, ValueError, AttributeError):  # a damaged database returns values of any type
            raise BrokenChain(e.log, e.position, "a field is of another kind than was written") from None
        same_epoch = self._previous is not None and self._previous.epoch == e.epoch
        self._ordinal = max(self._ordinal, e.group) if same_epoch else e.group
        self._one_epoch = self._one_epoch and (same_epoch or self._previous is None)
        self._previous = e
        if e.type == CHECKPOINT:
            self._checkpoint = e.position
            self._first_checkpoint = self._first_checkpoint or e.position

    def go_on(self, later: ChainCheck) -> None:
        """Take in the check of the rest of the log, which began with an event that was fed here as well, and found nothing wrong.
        Ranges that are not judged are not taken in."""
        self._ordinal = max(self._ordinal, later._ordinal) if later._one_epoch else later._ordinal
        self._one_epoch = self._one_epoch and later._one_epoch
        self._previous = later._previous
        self._checkpoint = later._checkpoint or self._checkpoint
        self._first_checkpoint = self._first_checkpoint or later._first_checkpoint

    def check_head(self, head: Head) -> None:
        """Raise `WrongHead` if this head does not belong to the events that were fed, which are all of the log."""
        last = self._previous
        if last is None:
            return
        ordinal = max(self._ordinal, head.archived_ordinal) if head.epoch == last.epoch else -1
        expected = {
            "position": last.position,
            "hash": last.hash,
            "recorded_at": last.recorded_at,
            "epoch": max(head.epoch, last.epoch),
            "ordinal": ordinal,
            "checkpoint": self._checkpoint,
            "archived": self._first - 1 if self._first == self._first_checkpoint else 0,
        }
        for field, value in expected.items():
            found = getattr(head, field)
            if found != value:
                raise wrong_head(head.log, f"{field} is {_shown(found)}, by the events it is {_shown(value)}")

    def report(self) -> ChainReport:
        """What was checked. Raises `BrokenChain` when an anchor lies beyond the last event: the tail was cut."""
        last = self._previous
        if last is None:
            for log, position in self._anchors:
                raise BrokenChain(log, position, "the anchor's event is missing")
            return ChainReport("", 0, 0, GENESIS, 0, ())
        for log, position in sorted(self._anchors):
            if log == last.log and position > last.position:
                raise BrokenChain(log, position, f"the anchor's event is missing, the log ends at {last.position}")
        events = last.position - self._first + 1
        return ChainReport(last.log, self._first, last.position, last.hash, events, tuple(self._unjudged))

    def _check_place(self, e: Envelope) -> None:
        previous = self._previous
        if previous is None:
            self._first = e.position
            if e.position == 1 and e.prev_hash != GENESIS:
                raise BrokenChain(e.log, 1, "the first event points to one before it")
        elif e.log != previous.log:
            raise BrokenChain(previous.log, previous.position + 1, f"an event of log {e.log} stands here")
        elif e.position != previous.position + 1:
            raise BrokenChain(e.log, previous.position + 1, f"position {e.position} stands here")
        elif e.prev_hash != previous.hash:
            raise BrokenChain(e.log, e.position, "it does not point to the event before it")

    def _check_id(self, e: Envelope) -> None:
        previous = self._previous
        if previous is None:  # a part of a log may start in the middle of a group
            self._index = int(e.event_id.rpartition(".")[2]) if _INDEXED.search(e.event_id) else 0
        else:
            same_group = (previous.epoch, previous.group) == (e.epoch, e.group)
            self._index = self._index + 1 if same_group else 0
        if e.event_id != event_id(e.log, e.epoch, e.group, self._index):
            raise BrokenChain(e.log, e.position, f"the event id {e.event_id} does not belong here")

    def _check_content(self, e: Envelope) -> None:
        if e.data is not None and e.salt is not None:
            if digest_of(e.salt, e.data) != e.digest:
                raise BrokenChain(e.log, e.position, "data and digest differ")
        elif e.data is not None or e.salt is not None:
            raise BrokenChain(e.log, e.position, "data and salt are not erased together")
        else:
            self._note_unjudged(e.position)
        if hash_of(e) != e.hash:
            raise BrokenChain(e.log, e.position, "envelope and hash differ")
        if self._anchors.get((e.log, e.position), e.hash) != e.hash:
            raise BrokenChain(e.log, e.position, "the hash is not the anchor's")

    def _note_unjudged(self, position: int) -> None:
        if self._unjudged and self._unjudged[-1][1] == position - 1:
            self._unjudged[-1] = (self._unjudged[-1][0], position)
        else:
            self._unjudged.append((position, position))


def checked(envelopes: Iterable[Envelope], check: ChainCheck) -> Iterator[Envelope]:
    """The same envelopes, each checked before it is yielded."""
    for envelope in envelopes:
        check.feed(envelope)
        yield envelope


def verify_chain(envelopes: Iterable[Envelope], *, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Check a whole log, or a part of it that starts anywhere. Raises `BrokenChain` with the first wrong position."""
    check = ChainCheck(anchors)
    for envelope in envelopes:
        check.feed(envelope)
    return check.report()


def anchor_of(head: Head) -> Anchor:
    """The log's current position and hash, to be kept outside the log."""
    return Anchor(head.log, head.position, head.hash, head.epoch)


def verify_log(log: EventLog, *, after: int | None = None, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Check the whole log, or the events after position `after`. The log's head is used as one more anchor. Raises `BrokenChain`
    with the first wrong position."""
    head = log.head()
    check = ChainCheck([*anchors, anchor_of(head)])
    for envelope in log.read(head.archived if after is None else after, head.position):
        check.feed(envelope)
    report = check.report()
    if after is None:
        check.check_head(head)
    return report


# -- checks that every implementation of a log makes ------------------------------------------------------------------


def check_groups(groups: Sequence[Group]) -> None:
    """Raise `InvalidEvent` for groups that no log may hold. Called before anything is locked."""
    previous = -1
    for group in groups:
        if group.ordinal <= previous:
            raise InvalidEvent(f"group {group.ordinal} follows group {previous}", fix="number groups upwards from 0")
        if not group.events:
            raise InvalidEvent(f"group {group.ordinal} is empty", fix="append groups of at least one event")
        previous = group.ordinal
        for index, event in enumerate(group.events):
            _check_event(group, index, event)


def _check_event(group: Group, index: int, event: NewEvent) -> None:
    where = f"group {group.ordinal}, event {index} ({event.type})"
    if not event.stream or not event.type or event.schema_version < 1:
        raise InvalidEvent("stream, type or schema version is missing", where=where, fix="give all three")
    if not event.stream.isprintable():
        raise InvalidEvent(f"{event.stream!r} is no name of a stream", where=where, fix="name streams by UID")
    if event.cause is not None and not 0 <= event.cause < max(index, 1):
        raise InvalidEvent(
            f"cause {event.cause} does not stand before it", where=where, fix="name an earlier event of the group"
        )
    if event.type == LOG_OPENED:
        raise InvalidEvent("the log writes its first event itself", where=where, fix="leave it out")
    if event.type == CHECKPOINT and len(group.events) != 1:
        raise InvalidEvent("a checkpoint stands alone in its group", where=where, fix="append it as a group of its own")
    try:
        event.data.decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"data is no UTF-8 text ({error.reason})", where=where, fix="encode data as JSON") from None


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def wrong_head(log: str, what: str) -> WrongHead:
    fix = "somebody changed it; compare with an export or a backup, and import that into a new database"
    return WrongHead(f"the head row is wrong: {what}", where=f"log {log}", fix=fix)


_KINDS = [{"str": str, "int": int, "bytes": bytes}[kind] for kind in Head.__annotations__.values()]


def head_from(row: Sequence[Any]) -> Head:
    """The head of a stored row, whose fields are in the order of `HEAD_FIELDS`. Raises `WrongHead` for one of another kind."""
    for field, value, kind in zip(HEAD_FIELDS, row, _KINDS, strict=True):
        if type(value) is not kind:
            raise wrong_head(str(row[0]), f"{field} is {value!r}, which is no {kind.__name__}")
    return Head(*row)


def check_epoch(head: Head, epoch: int) -> None:
    """Raise `Fenced` unless `epoch` is the newest epoch that the log has given to a writer."""
    if epoch != head.epoch or epoch < 1:
        raise Fenced(
            f"epoch {epoch} may not write, the newest is {head.epoch}",
            where=f"log {head.log}",
            fix="stop writing; take a new epoch only after winning the lease again",
        )


def lacks(head: Head, left: Anchor, there: bytes | None) -> bool:
    """Whether a log with this head lacks the event at which a writer left it. `there`: the hash at that position, None if there
    is none. An archived event counts as there, since archiving verifies it."""
    return there != left.hash and left.position > head.archived


def check_goes_on(head: Head, left: Anchor, there: bytes | None) -> None:
    """Raise `LogWentBack` if the log lacks the event at which this writer left it."""
    if lacks(head, left, there):
        lost = left.position - head.position
        what = f"it ends at position {head.position}" if lost > 0 else f"another event is at position {left.position}"
        raise LogWentBack(
            f"{what}, but this process wrote up to {left.position}: the database went back to an older copy",
            where=f"log {head.log}",
            fix="start dds again: it takes a new epoch, lists the cluster and goes on; look why commits were lost "
            "(a replica that was promoted, a backup that was restored)",
        )


def check_not_archived(head: Head, after: int) -> None:
    """Raise `Archived` when a read of the events after `after` would need events that were archived."""
    check_part(head.log, head.archived, after)


def check_part(log: str, before: int, after: int) -> None:
    """Raise `Archived` when `after` < `before`. The source holds the events after `before`; those after `after` are asked for."""
    if after < before:
        raise Archived(
            f"positions {after + 1} to {before} are not here, they were moved to an archive",
            where=f"log {log}",
            fix=f"give the archive as well, or read from the checkpoint at {before + 1} on",
        )


def check_cluster(head: Head, cluster: str) -> None:
    """Raise `ForeignLog` unless the log belongs to the cluster with this identity."""
    if head.cluster != cluster:
        raise ForeignLog(
            f"it belongs to the cluster with kube-system UID {head.cluster}, this one has {cluster}",
            where=f"log {head.log}",
            fix="give this cluster a log of another name, or correct the name of the cluster",
        )


# -- appending ---------------------------------------------------------------------------------------------------------


class Prepared(msgspec.Struct, frozen=True):
    """`fresh` is to be stored, together with the new `head`. `answer` is what the append returns."""

    fresh: list[Envelope]
    head: Head
    answer: list[Envelope]


def to_look_up(head: Head, epoch: int, groups: Sequence[Group]) -> list[str]:
    """The event ids that may already be in the log. Usually there are none, since ordinals grow."""
    return [
        event_id(head.log, epoch, group.ordinal, index)
        for group in groups
        if group.ordinal <= head.ordinal
        for index in range(len(group.events) + 1)  # one more, to detect a stored group that is longer
    ]


def prepare(
    head: Head,
    epoch: int,
    groups: Sequence[Group],
    stored: Mapping[str, Envelope],
    versions: dict[str, int],
    recorded_at: int,
    salts: SaltSource,
    expected: Mapping[str, int] | None,
) -> Prepared:
    """Separate `groups` that are already in the log from new ones, and seal the new ones.

    `stored` holds those events of `to_look_up` that were found, by id. `versions` must hold the current version of every stream
    in `groups` and `expected`; it is updated.
    """
    repeated: dict[int, list[Envelope]] = {}
    for group in groups:
        if group.ordinal <= head.ordinal:
            found = _stored_group(head, epoch, group, stored)
            if found:
                repeated[group.ordinal] = found
            elif group.ordinal <= head.archived_ordinal:
                raise Archived(
                    f"group {group.ordinal} of epoch {epoch} may have been archived and cannot be compared",
                    where=f"log {head.log}",
                    fix="take a new epoch and append with new ordinals",
                )
    new = [group for group in groups if group.ordinal not in repeated]
    if new:
        _check_versions(head.log, expected or {}, versions, repeated)
    fresh = seal(head, epoch, new, versions, recorded_at, salts)
    return Prepared(fresh, advanced(head, fresh), _in_order(groups, repeated, fresh))


def _stored_group(head: Head, epoch: int, group: Group, stored: Mapping[str, Envelope]) -> list[Envelope]:
    """The group as stored, empty when it is not in the log. Raises `EventConflict` when its content differs."""
    ids = [event_id(head.log, epoch, group.ordinal, index) for index in range(len(group.events) + 1)]
    found = [stored[name] for name in ids if name in stored]
    if found and (len(found) != len(group.events) or not all(map(_same, found, group.events, [ids] * len(found)))):
        raise EventConflict(
            f"group {group.ordinal} of epoch {epoch} is there with another content, from position {found[0].position}",
            where=f"log {head.log}",
            fix="rebuild the writer from the log and take a new epoch",
        )
    return found


def _same(stored: Envelope, new: NewEvent, ids: list[str]) -> bool:
    """Whether the stored event is the new one. Erased data cannot be compared, since their salt is gone."""
    index = ids.index(stored.event_id)
    cause = causation_of(ids, index, new)
    return (
        (stored.stream, stored.type, stored.schema_version, stored.occurred_at, stored.from_state, stored.to_state)
        == (new.stream, new.type, new.schema_version, new.occurred_at, new.from_state, new.to_state)
        and stored.causation_id == cause
        and (stored.salt is None or digest_of(stored.salt, new.data) == stored.digest)
    )


def _check_versions(
    log: str, expected: Mapping[str, int], versions: Mapping[str, int], repeated: Mapping[int, list[Envelope]]
) -> None:
    """Events that an earlier attempt to append the same batch has written are not counted."""
    own = Counter(envelope.stream for envelopes in repeated.values() for envelope in envelopes)
    for stream, version in expected.items():
        if versions[stream] - own[stream] != version:
            raise WrongVersion(
                f"stream {stream} is at version {versions[stream]}, expected {version}",
                where=f"log {log}",
                fix="read what was appended meanwhile and decide again",
            )


def _in_order(groups: Sequence[Group], repeated: Mapping[int, list[Envelope]], fresh: list[Envelope]) -> list[Envelope]:
    if not repeated:
        return fresh
    rest = iter(fresh)
    return [
        envelope for group in groups for envelope in (repeated.get(group.ordinal) or [next(rest) for _ in group.events])
    ]


def advanced(head: Head, fresh: Sequence[Envelope]) -> Head:
    """The head after `fresh` was appended. An import computes its final head with it, too."""
    if not fresh:
        return head
    last = fresh[-1]
    ordinals = [e.group for e in fresh if e.epoch == last.epoch]
    return msgspec.structs.replace(
        head,
        position=last.position,
        hash=last.hash,
        epoch=max(head.epoch, last.epoch),
        ordinal=max([*ordinals, head.ordinal] if head.epoch == last.epoch else ordinals),
        checkpoint=max([e.position for e in fresh if e.type == CHECKPOINT], default=head.checkpoint),
        recorded_at=last.recorded_at,
    )


def with_epoch(head: Head, recorded_at: int, above: int = 0) -> Head:
    """The head after a writer has taken the next epoch, also the next after `above`."""
    epoch = max(head.epoch, above) + 1
    return msgspec.structs.replace(head, epoch=epoch, ordinal=-1, archived_ordinal=-1, epoch_at=recorded_at)


def truncated(head: Head, checkpoint: Envelope | None, position: int, removed_ordinals: Iterable[int]) -> Head:
    """The head after everything before the checkpoint was removed. `removed_ordinals` are the removed groups of the current
    epoch. Raises `NotACheckpoint`."""
    if checkpoint is None or checkpoint.type != CHECKPOINT:
        raise NotACheckpoint(
            f"the event at position {position} is no checkpoint",
            where=f"log {head.log}",
            fix=f"archive up to a checkpoint; the newest is at {head.checkpoint}"
            if head.checkpoint
            else "append a checkpoint first",
        )
    highest = max(removed_ordinals, default=head.archived_ordinal)
    return msgspec.structs.replace(head, archived=position - 1, archived_ordinal=max(highest, head.archived_ordinal))
