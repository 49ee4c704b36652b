"""The chain of hashes: how it is made, how it is checked, and what redaction leaves of it.

    digest = sha256(salt + data)
    hash   = sha256(prev_hash + canonical envelope with digest)

The canonical envelope is a JSON array (UTF-8, no spaces) of the envelope's fields up to `to_state` and the digest in
hex. Data enters only by its salted digest, so erasing data and salt leaves every hash in place, and a digest tells
nothing about what was erased. This module draws no random numbers: whoever appends passes a salt source in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgspec

from dds_core.errors import BrokenChain
from dds_core.log.envelope import GENESIS, Envelope, Group, Head, NewEvent, event_id

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
