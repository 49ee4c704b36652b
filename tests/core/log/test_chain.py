"""The chain finds what was changed, and names the place."""

from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest

from dds_core.errors import BrokenChain, DdsError, VerificationFailed
from dds_core.log import Anchor, ChainCheck, Envelope, MemoryLog, checked, fixed_salts, verify_chain
from dds_core.log.chain import digest_of, hash_of
from dds_core.log.codec import BadLine, decode_anchor, encode_anchor
from tests.support.logs import MemoryPlace, groups, opened

replace = msgspec.structs.replace


@pytest.fixture
def events() -> list[Envelope]:
    log, _ = opened(MemoryPlace(), groups(12))
    return list(log.read())


def rechained(events: list[Envelope]) -> list[Envelope]:
    """The same events with every hash made anew, as somebody would who covers up a change."""
    result: list[Envelope] = []
    for e in events:
        e = replace(
            e, prev_hash=result[-1].hash if result else bytes(32), digest=digest_of(e.salt or b"", e.data or b"")
        )
        result.append(replace(e, hash=hash_of(e)))
    return result


def test_digest_and_hash_are_what_the_docs_say(events: list[Envelope]) -> None:
    e = events[4]
    assert e.salt is not None and e.data is not None
    assert e.digest == sha256(e.salt + e.data).digest()
    fields = [getattr(e, name) for name in Envelope.__struct_fields__[:15]]
    assert e.hash == sha256(e.prev_hash + msgspec.json.encode([*fields, e.digest.hex()])).digest()


def test_a_whole_log_and_any_part_of_it_verify(events: list[Envelope]) -> None:
    for start in range(len(events)):
        report = verify_chain(events[start:])
        assert (report.first, report.last, report.events) == (start + 1, len(events), len(events) - start)
    assert verify_chain([]).events == 0


CHANGES: list[tuple[str, Callable[[Envelope], Envelope], str]] = [
    ("data", lambda e: replace(e, data=(e.data or b"") + b" "), "data and digest differ"),
    ("salt", lambda e: replace(e, salt=bytes(16)), "data and digest differ"),
    ("type", lambda e: replace(e, type="Another"), "envelope and hash differ"),
    ("state", lambda e: replace(e, to_state="Bound"), "envelope and hash differ"),
    ("instant", lambda e: replace(e, occurred_at=e.occurred_at + 1), "envelope and hash differ"),
    ("hash", lambda e: replace(e, hash=bytes(32)), "envelope and hash differ"),
    ("link", lambda e: replace(e, prev_hash=bytes(32)), "does not point to the event before it"),
    ("id", lambda e: replace(e, event_id="prod-eu/scaler:9.9.9"), "does not belong here"),
    ("half redacted", lambda e: replace(e, salt=None), "not erased together"),
    ("half redacted", lambda e: replace(e, data=None), "not erased together"),
    ("log", lambda e: replace(e, log="another/scaler"), "an event of log another/scaler stands here"),
    ("kind", lambda e: replace(e, salt=7), "a field is of another kind"),
    ("kind", lambda e: replace(e, occurred_at=b"x"), "envelope and hash differ"),
    ("position", lambda e: replace(e, position=99), "position 99 stands here"),
]


@pytest.mark.parametrize(("_what", "change", "words"), CHANGES)
def test_one_changed_event_is_named(
    events: list[Envelope], _what: str, change: Callable[[Envelope], Envelope], words: str
) -> None:
    events[6] = change(events[6])
    with pytest.raises(BrokenChain, match=words) as caught:
        verify_chain(events)
    assert caught.value.position == 7
    assert isinstance(caught.value, VerificationFailed)


def test_a_cut_event_is_named(events: list[Envelope]) -> None:
    del events[6]
    with pytest.raises(BrokenChain, match="position 8 stands here") as caught:
        verify_chain(events)
    assert caught.value.position == 7


def test_two_swapped_events_are_named(events: list[Envelope]) -> None:
    events[6], events[7] = events[7], events[6]
    with pytest.raises(BrokenChain) as caught:
        verify_chain(events)
    assert caught.value.position == 7


def test_a_first_event_that_points_before_itself_is_named(events: list[Envelope]) -> None:
    events[0] = replace(events[0], prev_hash=bytes(31) + b"\1")
    with pytest.raises(BrokenChain, match="the first event points to one before it"):
        verify_chain(events)


def test_a_chain_made_anew_is_found_by_an_anchor_only(events: list[Envelope]) -> None:
    anchor = Anchor(events[9].log, events[9].position, events[9].hash)
    events[6] = replace(events[6], data=b'{"mode":"detach"}')
    forged = rechained(events)
    assert verify_chain(forged).events == len(events)
    with pytest.raises(BrokenChain, match="the hash is not the anchor's") as caught:
        verify_chain(forged, anchors=[anchor])
    assert caught.value.position == 10


def test_a_cut_tail_is_found_by_an_anchor_only(events: list[Envelope]) -> None:
    anchor = Anchor(events[9].log, events[9].position, events[9].hash)
    assert verify_chain(events[:9]).last == 9
    with pytest.raises(BrokenChain, match="the log ends at 9"):
        verify_chain(events[:9], anchors=[anchor])
    with pytest.raises(BrokenChain, match="the anchor's event is missing"):
        verify_chain([], anchors=[anchor])
    assert verify_chain(events, anchors=[anchor]).last == len(events)
    assert verify_chain(events[10:], anchors=[anchor]).first == 11, "an anchor before the part says nothing about it"


def test_an_anchor_is_a_line_and_comes_back(events: list[Envelope]) -> None:
    anchor = Anchor(events[3].log, 4, events[3].hash)
    assert decode_anchor(encode_anchor(anchor)) == anchor
    for bad in (b"", b"{}", b'{"log":"a/b","position":1,"hash":"zz"}'):
        with pytest.raises(BadLine):
            decode_anchor(bad)


def test_checking_on_the_way_hands_on_only_what_holds(events: list[Envelope]) -> None:
    events[3] = replace(events[3], type="Another")
    seen: list[int] = []
    with pytest.raises(BrokenChain):
        seen.extend(e.position for e in checked(events, ChainCheck()))
    stream = checked(events, ChainCheck())
    assert [next(stream).position for _ in range(3)] == [1, 2, 3]


def test_equal_data_have_different_digests() -> None:
    salts = fixed_salts(b"x")
    assert salts("a:1.0.0") != salts("a:1.0.1")
    assert salts("a:1.0.0") == fixed_salts(b"x")("a:1.0.0") != fixed_salts(b"y")("a:1.0.0")


def test_an_error_is_one_line_with_place_and_advice() -> None:
    error = DdsError("it\n broke", where="log a/b", fix="mend it")
    assert str(error) == "log a/b: it broke; mend it"
    assert str(DdsError("it broke")) == "it broke"


def test_a_log_in_memory_is_the_log_of_its_cluster_only() -> None:
    log = MemoryLog("a/scaler", cluster="one", recorded_at=0)
    log.open_as("one")
    with pytest.raises(DdsError, match="belongs to the cluster"):
        log.open_as("two")
    with pytest.raises(DdsError, match="identity of the cluster is empty"):
        MemoryLog("a/scaler", cluster="", recorded_at=0)
