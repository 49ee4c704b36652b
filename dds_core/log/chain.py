"""The chain of hashes: how it is made, how it is checked, and what redaction leaves of it.

    digest = sha256(salt + data)
    hash   = sha256(prev_hash + canonical envelope with digest)

The canonical envelope is a JSON array (UTF-8, no spaces) of the envelope's fields up to `to_state` and the digest in
hex. Data enters only by its salted digest, so erasing data and salt leaves every hash in place, and a digest tells
nothing about what was erased. This module draws no random numbers: whoever appends passes a salt source in.

Here are also the steps of an append that do not depend on where the log is stored: what is refused, what is there already,
what is new. An implementation locks the head, looks up what `to_look_up` names, and stores what `prepare` gives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from dds_core.errors import (
    Archived,
    BrokenChain,
    EventConflict,
    Fenced,
    ForeignLog,
    InvalidEvent,
    NotACheckpoint,
    WrongVersion,
)
from dds_core.log.envelope import CHECKPOINT, GENESIS, LOG_OPENED, Envelope, Group, Head, NewEvent
from dds_core.log.interface import EventLog

SaltSource = Callable[[str], bytes]
"""Gives the salt (16 bytes) of the event with this id."""

SALT_BYTES = 16

_INDEXED = re.compile(r"\.[0-9]{1,9}$")


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """A position and its hash, kept elsewhere: the only defence against a cut tail or a chain made anew."""

    log: str
    position: int
    hash: bytes


class ChainReport(msgspec.Struct, frozen=True):
    """What was checked: positions `first` to `last`, `hash` of the last, and the ranges whose data were erased,
    inclusive."""

    log: str
    first: int
    last: int
    hash: bytes
    events: int
    unjudged: tuple[tuple[int, int], ...]


def fixed_salts(seed: bytes) -> SaltSource:
    """Salts that depend on the seed and the event's id alone: for golden files, never for a log that may be
    redacted."""
    return lambda name: sha256(seed + name.encode()).digest()[:SALT_BYTES]


def digest_of(salt: bytes, data: bytes) -> bytes:
    """The salted digest of an event's data."""
    return sha256(salt + data).digest()


def event_id(log: str, epoch: int, ordinal: int, index: int) -> str:
    """The id of an event: it depends on the group's place in its writer's epoch, never on batches, positions or
    chance."""
    return f"{log}:{epoch}.{ordinal}.{index}"


_encode = msgspec.json.Encoder().encode


def hash_of(e: Envelope) -> bytes:
    """The hash that `e` must carry, from its other fields."""
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
    """The envelopes of `groups`, to stand after `head`. `versions` must hold each stream's version before, and is
    moved on."""
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
    """The id of the event that caused `new`: none for the fact itself, else the one named, by default the fact."""
    return None if index == 0 else ids[new.cause or 0]


class ChainCheck:
    """Checks envelopes one after the other, in constant memory; `feed` raises `BrokenChain` at the first that
    does not hold."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self._anchors = {(anchor.log, anchor.position): anchor.hash for anchor in anchors}
        self._previous: Envelope | None = None
        self._first = 0
        self._index = 0
        self._unjudged: list[tuple[int, int]] = []

    def feed(self, e: Envelope) -> None:
        """Check that `e` follows what was fed before it; the first one fed may stand anywhere in the log."""
        self._check_place(e)
        try:
            self._check_id(e)
            self._check_content(e)
        except (TypeError, ValueError, AttributeError):  # a damaged database gives back anything
            raise BrokenChain(e.log, e.position, "a field is of another kind than was written") from None
        self._previous = e

    def report(self) -> ChainReport:
        """What was checked. Raises `BrokenChain` when an anchor of the log lies beyond the last event: the
        tail was cut."""
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
        if previous is None:  # a part of a log may start inside a group
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
    """The same envelopes, each one checked before it is handed on."""
    for envelope in envelopes:
        check.feed(envelope)
        yield envelope


def verify_chain(envelopes: Iterable[Envelope], *, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Check a whole log, or a part of it that starts anywhere; raises `BrokenChain` naming the first position
    that does not hold."""
    check = ChainCheck(anchors)
    for envelope in envelopes:
        check.feed(envelope)
    return check.report()


def anchor_of(head: Head) -> Anchor:
    """Where the log stands now, to be kept elsewhere."""
    return Anchor(head.log, head.position, head.hash)


def verify_log(log: EventLog, *, after: int | None = None, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Check all that the log holds, or what comes after position `after`; its head serves as one more anchor.

    Raises `BrokenChain` naming the first position that does not hold.
    """
    head = log.head()
    start = head.archived if after is None else after
    return verify_chain(log.read(start), anchors=[*anchors, anchor_of(head)])


# -- checks ------------------------------------------------------------------------------------------------------------

# What every log refuses, and in which words.


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse with `InvalidEvent` what no log may hold, before anything is locked."""
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


def check_epoch(head: Head, epoch: int) -> None:
    """Raise `Fenced` unless `epoch` is the newest that the log gave out."""
    if epoch != head.epoch or epoch < 1:
        raise Fenced(
            f"epoch {epoch} may not write, the newest is {head.epoch}",
            where=f"log {head.log}",
            fix="stop writing; take a new epoch only after winning the lease again",
        )


def check_not_archived(head: Head, after: int) -> None:
    """Raise `Archived` when reading from `after` on would silently leave something out of the log."""
    check_part(head.log, head.archived, after)


def check_part(log: str, before: int, after: int) -> None:
    """Raise `Archived` when a source that begins after position `before` is asked for what comes after `after`
    already."""
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
    """`fresh` has to be stored, together with the new `head`; `answer` is what the append gives back."""

    fresh: list[Envelope]
    head: Head
    answer: list[Envelope]


def to_look_up(head: Head, epoch: int, groups: Sequence[Group]) -> list[str]:
    """The event ids that may be in the log already; usually none, since ordinals grow."""
    return [
        event_id(head.log, epoch, group.ordinal, index)
        for group in groups
        if group.ordinal <= head.ordinal
        for index in range(len(group.events) + 1)  # one more: a stored group that is longer is another content
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
    """Sort `groups` into repeated and new ones and seal the new ones.

    `stored` holds what was found of `to_look_up`, `versions` the present version of every stream in `groups` and
    `expected`; it is moved on.
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
    """The group as stored, empty when it is not; raises `EventConflict` when it is another."""
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
    """Whether the stored event is the new one; erased data are compared by nothing, their salt is gone."""
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
    """What an earlier try of the same batch has written does not count against it."""
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
    """The head after `fresh` was appended; also how an import computes the head it has to leave behind."""
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


def with_epoch(head: Head, recorded_at: int) -> Head:
    """The head after the next epoch was given out."""
    return msgspec.structs.replace(head, epoch=head.epoch + 1, ordinal=-1, archived_ordinal=-1, epoch_at=recorded_at)


def truncated(head: Head, checkpoint: Envelope | None, position: int, removed_ordinals: Iterable[int]) -> Head:
    """The head after everything before the checkpoint was removed; `removed_ordinals` are those of the current
    epoch."""
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
