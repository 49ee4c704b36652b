"""What every event log does, whatever stores it."""

import random
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

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
from dds_core.log import Anchor, EventLog, Group, LeanEvent, NewEvent, anchor_of, event_id, verify_chain, verify_log
from dds_core.log.codec import encode_envelope
from dds_core.log.envelope import lean
from tests.support.logs import CLUSTER, NAME, NOON, Place, checkpoint, fact, group, groups, opened, told_group

GOLDEN = Path(__file__).parents[2] / "data" / "formats"


def count(log: EventLog) -> int:
    return sum(1 for _ in log.read())


# --- identity -----------------------------------------------------------------------------------------------


def test_a_new_log_begins_with_the_identity_of_its_cluster(place: Place) -> None:
    log = place.open()
    (first,) = log.read()
    assert (first.position, first.type, first.stream, first.epoch) == (1, "LogOpened", "log", 0)
    assert msgspec.json.decode(first.data or b"") == {"cluster": CLUSTER, "component": "scaler"}
    head = log.head()
    assert (head.log, head.cluster, head.component, head.position, head.hash) == (
        NAME,
        CLUSTER,
        "scaler",
        1,
        first.hash,
    )


def test_a_log_opened_again_goes_on_where_it_was(place: Place) -> None:
    log, epoch = opened(place, groups(7))
    again = place.open()
    assert list(again.read()) == list(log.read())
    assert again.append([told_group(7)], epoch=epoch, recorded_at=NOON)[0].position == log.span()[1] - 1


def test_another_clusters_log_is_refused(place: Place) -> None:
    opened(place, groups(3))
    with pytest.raises(ForeignLog, match="belongs to the cluster with kube-system UID 0b5c8a52"):
        place.open(cluster="another")


@pytest.mark.parametrize("name", ["", "scaler", "Prod/scaler", "prod/", "a/b/c", "prod/sca ler", "prod/scaler\n"])
def test_a_log_needs_a_name_of_cluster_and_component(place: Place, name: str) -> None:
    with pytest.raises(InvalidEvent, match="is no name of a log"):
        place.open(name)


def test_logs_in_one_place_know_nothing_of_each_other(place: Place) -> None:
    scaler, publisher = place.open("prod-eu/scaler"), place.open("prod-eu/publisher")
    epochs = [log.take_epoch(NOON) for log in (scaler, publisher)]
    scaler.append(groups(4), epoch=epochs[0], recorded_at=NOON)
    assert count(publisher) == 1
    assert publisher.append(groups(4), epoch=epochs[1], recorded_at=NOON)[0].version == 1
    assert verify_chain(scaler.read()).events == verify_chain(publisher.read()).events


# --- appending ----------------------------------------------------------------------------------------------


def test_positions_are_contiguous_and_streams_count_their_own_versions(place: Place) -> None:
    log, _ = opened(place, groups(30), batch=4)
    events = list(log.read())
    assert [e.position for e in events] == list(range(1, len(events) + 1))
    for stream in {e.stream for e in events}:
        versions = [e.version for e in events if e.stream == stream]
        assert versions == list(range(1, len(versions) + 1))
        assert log.stream_version(stream) == len(versions)
    assert log.stream_version("nobody") == 0


def test_an_append_gives_back_what_is_stored(place: Place) -> None:
    log, epoch = opened(place)
    given = log.append(groups(5), epoch=epoch, recorded_at=NOON + 1)
    assert given == list(log.read(after=1))
    assert {e.recorded_at for e in given} == {NOON + 1}


def test_data_comes_back_byte_for_byte(place: Place) -> None:
    log, epoch = opened(place)
    odd = ['{ "b" : 1.0,\n "a":1e0 }', '"\\u00e9é\\ud83d\\ude00"', "[]", '"\\u0000"', '{"a":1,"a":2}', ""]
    events = tuple(fact(data=text.encode()) for text in odd)
    log.append([Group(0, events)], epoch=epoch, recorded_at=NOON)
    assert [e.data for e in log.read(after=1)] == [text.encode() for text in odd]


def test_ids_tell_log_epoch_group_and_index_and_no_batch(place: Place) -> None:
    log, epoch = opened(place, groups(12), batch=5)
    for e in log.read(after=1):
        siblings = [x for x in log.read(after=1) if x.group == e.group]
        assert e.event_id == event_id(NAME, epoch, e.group, siblings.index(e))
        assert e.correlation_id == siblings[0].event_id


def test_how_groups_are_batched_leaves_no_trace(place: Place) -> None:
    one, all_at_once = place.open("one/scaler"), place.open("all/scaler")
    told = []
    for log, size in ((one, 1), (all_at_once, 40)):
        epoch = log.take_epoch(NOON)
        for start in range(0, 40, size):
            log.append(groups(size, start), epoch=epoch, recorded_at=NOON)
        told.append(
            [(e.position, e.version, e.type, e.data, e.epoch, e.group, e.salt is None) for e in log.read(after=1)]
        )
    assert told[0] == told[1]


def test_an_event_names_its_cause_and_by_default_the_fact(place: Place) -> None:
    log, epoch = opened(place)
    log.append(
        [group(0, fact(), fact(type="A"), fact(type="B", cause=1), fact(type="C", cause=0))],
        epoch=epoch,
        recorded_at=NOON,
    )
    ids = [event_id(NAME, epoch, 0, index) for index in range(4)]
    assert [e.causation_id for e in log.read(after=1)] == [None, ids[0], ids[1], ids[0]]


def test_states_and_instants_are_kept(place: Place) -> None:
    log, epoch = opened(place)
    event = NewEvent("claim", "ClaimMoved", 3, NOON - 5, b"{}", "Pending", "Attaching")
    (stored,) = log.append([Group(0, (event,))], epoch=epoch, recorded_at=NOON)
    assert (stored.schema_version, stored.occurred_at, stored.from_state, stored.to_state) == (
        3,
        NOON - 5,
        "Pending",
        "Attaching",
    )


def test_the_head_tells_position_hash_ordinal_and_newest_checkpoint(place: Place) -> None:
    log, epoch = opened(place, [*groups(6), checkpoint(6), told_group(7)])
    *_, last = log.read()
    (newest,) = log.read(types=["Checkpoint"])
    head = log.head()
    assert (head.position, head.hash, head.ordinal, head.epoch) == (last.position, last.hash, 7, epoch)
    assert head.checkpoint == newest.position
    assert (head.recorded_at, head.archived) == (NOON, 0)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([Group(0, ())], "is empty"),
        ([group(1), group(1)], "group 1 follows group 1"),
        ([group(2), group(1)], "group 1 follows group 2"),
        ([group(-1)], "group -1"),
        ([group(0, fact(stream=""))], "is missing"),
        ([group(0, fact(stream="a\0b"))], "is no name of a stream"),
        ([group(0, fact(type=""))], "is missing"),
        ([group(0, NewEvent("s", "T", 0, 0, b"{}"))], "is missing"),
        ([group(0, fact(), fact(cause=1))], "cause 1 does not stand before it"),
        ([group(0, fact(), fact(cause=-1))], "cause -1"),
        ([group(0, fact(cause=1))], "cause 1"),
        ([group(0, fact(data=b"\xff"))], "no UTF-8"),
        ([group(0, fact(type="LogOpened"))], "writes its first event itself"),
        ([group(0, fact(), fact(type="Checkpoint"))], "stands alone"),
    ],
)
def test_what_no_log_may_hold_is_refused_and_nothing_written(place: Place, bad: list[Group], words: str) -> None:
    log, epoch = opened(place)
    with pytest.raises(InvalidEvent, match=words):
        log.append([*bad[:-1], *bad[-1:]], epoch=epoch, recorded_at=NOON)
    assert count(log) == 1


def test_no_groups_are_no_change(place: Place) -> None:
    log, epoch = opened(place)
    assert log.append([], epoch=epoch, recorded_at=NOON) == []
    assert count(log) == 1


# --- trying again -------------------------------------------------------------------------------------------


def test_the_same_groups_again_are_given_back_and_not_doubled(place: Place) -> None:
    log, epoch = opened(place)
    first = log.append(groups(9), epoch=epoch, recorded_at=NOON)
    assert log.append(groups(9), epoch=epoch, recorded_at=NOON + 99) == first
    assert log.append(groups(3, 2), epoch=epoch, recorded_at=NOON) == [e for e in first if 2 <= e.group < 5]
    assert count(log) == 1 + len(first)


def test_a_retry_may_be_batched_otherwise_and_bring_new_groups(place: Place) -> None:
    log, epoch = opened(place, groups(4))
    given = log.append(groups(6, 1), epoch=epoch, recorded_at=NOON)
    assert [e.group for e in given] == [e.group for e in log.read(after=1) if e.group >= 1]
    assert verify_chain(log.read()).last == log.head().position


def test_a_writer_that_knows_nothing_may_retry_too(place: Place) -> None:
    log, epoch = opened(place, groups(8))
    again = place.open()
    assert again.append(groups(8), epoch=epoch, recorded_at=NOON) == list(log.read(after=1))


def test_ordinals_of_several_writers_may_interleave(place: Place) -> None:
    log, epoch = opened(place, [told_group(5)])
    assert log.append([told_group(3)], epoch=epoch, recorded_at=NOON)[0].position == log.head().position
    assert log.append([told_group(5)], epoch=epoch, recorded_at=NOON)[0].position == 2


@pytest.mark.parametrize(
    "other",
    [
        group(1, fact(data=b'{"a":2}'), fact(type="Moved")),
        group(1, fact(at=NOON + 1), fact(type="Moved")),
        group(1, fact(stream="another"), fact(type="Moved")),
        group(1, fact(), fact(type="Moved2")),
        group(1, fact()),
        group(1, fact(), fact(type="Moved"), fact()),
        group(1, fact(), NewEvent("claim-1", "Moved", 2, NOON, b'{"a":1}')),
        group(1, fact(), NewEvent("claim-1", "Moved", 1, NOON, b'{"a":1}', None, "Bound")),
    ],
)
def test_the_same_id_with_another_content_is_a_conflict(place: Place, other: Group) -> None:
    log, epoch = opened(place, [group(0), group(1, fact(), fact(type="Moved"))])
    before = list(log.read())
    with pytest.raises(EventConflict, match="group 1 of epoch 1 is there with another content, from position 3"):
        log.append([other, group(2)], epoch=epoch, recorded_at=NOON)
    assert list(log.read()) == before


def test_another_cause_is_another_content(place: Place) -> None:
    log, epoch = opened(place, [group(0, fact(), fact(), fact(cause=1))])
    with pytest.raises(EventConflict):
        log.append([group(0, fact(), fact(), fact(cause=0))], epoch=epoch, recorded_at=NOON)
    assert len(log.append([group(0, fact(), fact(cause=0), fact(cause=1))], epoch=epoch, recorded_at=NOON)) == 3


# --- epochs -------------------------------------------------------------------------------------------------


def test_epochs_are_given_out_one_after_the_other(place: Place) -> None:
    log = place.open()
    assert [log.take_epoch(NOON + n) for n in range(3)] == [1, 2, 3]
    assert (log.head().epoch, log.head().epoch_at, log.head().ordinal) == (3, NOON + 2, -1)


def test_an_older_epoch_is_refused_for_good(place: Place) -> None:
    log, old = opened(place, groups(3))
    new = place.open().take_epoch(NOON)
    with pytest.raises(Fenced, match="epoch 1 may not write, the newest is 2"):
        log.append(groups(1, 3), epoch=old, recorded_at=NOON)
    with pytest.raises(Fenced):
        log.append(groups(3), epoch=old, recorded_at=NOON)
    assert log.append(groups(3), epoch=new, recorded_at=NOON)[0].event_id == event_id(NAME, new, 0, 0)


@pytest.mark.parametrize("epoch", [-1, 0, 2])
def test_an_epoch_that_was_not_taken_is_refused(place: Place, epoch: int) -> None:
    log, _ = opened(place)
    with pytest.raises(Fenced):
        log.append(groups(1), epoch=epoch, recorded_at=NOON)


def test_nobody_writes_before_taking_an_epoch(place: Place) -> None:
    log = place.open()
    with pytest.raises(Fenced):
        log.append(groups(1), epoch=0, recorded_at=NOON)


def test_two_writers_of_one_epoch_do_not_disturb_each_other(place: Place) -> None:
    """What one remembers of the log is of no use once the other has written."""
    log, epoch = opened(place)
    other, dice = place.open(), random.Random(7)
    for ordinal in range(40):
        dice.choice([log, other]).append([told_group(ordinal)], epoch=epoch, recorded_at=NOON)
    assert verify_chain(log.read()).last == log.head().position
    for stream in {e.stream for e in log.read()}:
        versions = [e.version for e in log.read(stream=stream)]
        assert versions == list(range(1, len(versions) + 1))


# --- expected versions --------------------------------------------------------------------------------------


def test_an_expected_version_lets_pass_or_refuses_all(place: Place) -> None:
    log, epoch = opened(place)
    log.append([group(0)], epoch=epoch, recorded_at=NOON, expected={"claim-1": 0, "claim-2": 0})
    with pytest.raises(WrongVersion, match="stream claim-1 is at version 1, expected 0"):
        log.append([group(1), group(2)], epoch=epoch, recorded_at=NOON, expected={"claim-1": 0})
    assert log.stream_version("claim-1") == 1
    log.append([group(1)], epoch=epoch, recorded_at=NOON, expected={"claim-1": 1})
    assert log.stream_version("claim-1") == 2


def test_a_retry_is_not_refused_for_what_it_wrote_itself(place: Place) -> None:
    log, epoch = opened(place)
    for _ in range(2):
        log.append([group(0), group(1)], epoch=epoch, recorded_at=NOON, expected={"claim-1": 0})
    log.append([group(0), group(1), group(2)], epoch=epoch, recorded_at=NOON, expected={"claim-1": 0})
    assert log.stream_version("claim-1") == 3


# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 7, 1000])
def test_reading_is_the_same_in_any_batches(place: Place, batch: int) -> None:
    log, _ = opened(place, groups(25))
    everything = list(log.read())
    assert list(log.read(batch=batch)) == everything
    assert list(log.read(5, 20, batch=batch)) == everything[5:20]
    assert list(log.read(stream="scaler", batch=batch)) == [e for e in everything if e.stream == "scaler"]
    assert list(log.read(9, stream="claim-2", types=["ClaimMoved"], batch=batch)) == [
        e for e in everything[9:] if (e.stream, e.type) == ("claim-2", "ClaimMoved")
    ]
    assert list(log.read(types=["ClaimSeen", "LogOpened"], batch=batch)) == [
        e for e in everything if e.type in ("ClaimSeen", "LogOpened")
    ]
    assert list(log.read_lean(3, 30, batch=batch)) == [lean(e) for e in everything[3:30]]


def test_what_is_not_there_reads_as_nothing(place: Place) -> None:
    log, _ = opened(place, groups(3))
    assert list(log.read(types=[])) == []
    assert list(log.read(stream="nobody")) == []
    assert list(log.read(after=99)) == []
    assert list(log.read(after=3, until=2)) == []


def test_a_lean_event_is_what_a_fold_needs(place: Place) -> None:
    log, epoch = opened(place)
    log.append([told_group(1)], epoch=epoch, recorded_at=NOON)
    assert list(log.read_lean(after=2)) == [
        LeanEvent(3, "claim-1", "ClaimMoved", 1, NOON + 1, "Pending", "Attaching", b'{"ordinal":1}')
    ]


def test_a_read_ends_where_the_log_ended_when_it_began(place: Place) -> None:
    log, epoch = opened(place, groups(4))
    end, seen = log.head().position, []
    for number, e in enumerate(log.read(batch=2)):
        seen.append(e.position)
        log.append([told_group(4 + number)], epoch=epoch, recorded_at=NOON)
    assert seen == list(range(1, end + 1))


# --- the chain and what is erased ---------------------------------------------------------------------------


def test_the_chain_holds_over_batches_epochs_and_writers(place: Place) -> None:
    log, _ = opened(place, groups(10), batch=3)
    again, _ = opened(place, groups(10), batch=7)
    report = verify_chain(again.read())
    assert (report.first, report.last, report.unjudged) == (1, log.head().position, ())
    assert report.hash == log.head().hash
    assert all(behind.prev_hash == before.hash for before, behind in pairwise(log.read()))


def test_a_log_verifies_against_its_head_and_against_anchors(place: Place) -> None:
    log, epoch = opened(place, groups(10))
    anchor = anchor_of(log.head())
    log.append(groups(10, 10), epoch=epoch, recorded_at=NOON)
    assert verify_log(log, anchors=[anchor]).hash == log.head().hash
    assert verify_log(log, after=5).first == 6
    with pytest.raises(BrokenChain, match="the hash is not the anchor's") as caught:
        verify_log(log, anchors=[Anchor(anchor.log, anchor.position, bytes(32))])
    assert caught.value.position == anchor.position


def test_erased_data_are_gone_and_the_chain_names_the_ranges(place: Place) -> None:
    log, _ = opened(place, groups(10))
    before = list(log.read())
    assert log.redact(positions=[4, 5, 6, 11, 999]) == 4
    after = list(log.read())
    assert [e.position for e in after if e.redacted] == [4, 5, 6, 11]
    assert [e.salt for e in after if e.redacted] == [None] * 4
    assert [e.hash for e in after] == [e.hash for e in before]
    assert verify_chain(log.read()).unjudged == ((4, 6), (11, 11))
    assert log.redact(positions=[4, 5, 6, 11]) == 0


def test_a_whole_stream_is_erased_but_never_the_logs_identity(place: Place) -> None:
    log, _ = opened(place, groups(10))
    wanted = len(list(log.read(stream="claim-2")))
    assert log.redact(stream="claim-2") == wanted > 0
    assert {e.redacted for e in log.read(stream="claim-2")} == {True}
    assert log.redact(positions=[1], stream="log") == 0
    assert sum(e.redacted for e in log.read()) == wanted


def test_a_retry_of_what_was_erased_meanwhile_is_quiet(place: Place) -> None:
    log, epoch = opened(place, groups(5))
    log.redact(stream="claim-2")
    assert len(log.append(groups(5), epoch=epoch, recorded_at=NOON)) == count(log) - 1
    assert sum(e.redacted for e in log.read()) > 0


def test_the_log_goes_on_after_erasing(place: Place) -> None:
    log, epoch = opened(place, groups(5))
    log.redact(positions=[log.head().position])
    log.append(groups(5, 5), epoch=epoch, recorded_at=NOON)
    assert verify_chain(log.read()).last == log.head().position


# --- the archive --------------------------------------------------------------------------------------------


def archived(place: Place) -> tuple[EventLog, int, int]:
    log, epoch = opened(place, [*groups(10), checkpoint(10), *groups(5, 11)])
    at = log.head().checkpoint
    (stored,) = log.read(at - 1, at)
    assert log.truncate(at, stored.hash) == at - 1
    return log, epoch, at


def test_a_prefix_up_to_a_checkpoint_goes_and_the_checkpoint_stays(place: Place) -> None:
    log, epoch, at = archived(place)
    assert log.span() == (at, log.head().position)
    assert next(log.read(at - 1)).type == "Checkpoint"
    log.append([told_group(16)], epoch=epoch, recorded_at=NOON)
    assert verify_chain(log.read(at - 1)).first == at


def test_what_was_archived_is_never_left_out_silently(place: Place) -> None:
    log, _, at = archived(place)
    for read in (log.read, log.read_lean):
        with pytest.raises(Archived, match=f"positions 1 to {at - 1} are not here"):
            list(read())
        with pytest.raises(Archived):
            list(read(at - 2, stream="claim-1"))


def test_streams_go_on_counting_after_the_archive(place: Place) -> None:
    log, epoch, _ = archived(place)
    expected = {e.stream: log.stream_version(e.stream) for e in (told_group(n).events[0] for n in range(11, 16))}
    again = place.open()
    again.append(groups(5, 16), epoch=epoch, recorded_at=NOON, expected=expected)
    at = again.head().checkpoint
    again.append([checkpoint(21)], epoch=epoch, recorded_at=NOON)
    second = again.head().checkpoint
    (stored,) = again.read(second - 1, second)
    assert again.truncate(second, stored.hash) == second - at
    assert {stream: again.stream_version(stream) for stream in expected} != expected
    assert all(again.stream_version(stream) > version for stream, version in expected.items())


def test_a_retry_of_a_group_that_may_be_archived_is_refused(place: Place) -> None:
    log, epoch, _ = archived(place)
    with pytest.raises(Archived, match="group 4 of epoch 1 may have been archived"):
        log.append([told_group(4)], epoch=epoch, recorded_at=NOON)
    assert log.append([told_group(12)], epoch=epoch, recorded_at=NOON)[0].group == 12
    fresh = log.take_epoch(NOON)
    assert log.append([told_group(4)], epoch=fresh, recorded_at=NOON)[0].position == log.head().position - 1


def test_only_a_checkpoint_ends_an_archive(place: Place) -> None:
    log, _ = opened(place, [*groups(10), checkpoint(10), *groups(5, 11)])
    before, at = list(log.read()), log.head().checkpoint
    with pytest.raises(
        NotACheckpoint, match=f"at position 5 is no checkpoint; archive up to a checkpoint; the newest is at {at}"
    ):
        log.truncate(5, before[4].hash)
    with pytest.raises(NotACheckpoint):
        log.truncate(9999, b"")
    with pytest.raises(BrokenChain, match="the archive ends with another hash"):
        log.truncate(at, before[4].hash)
    assert list(log.read()) == before


# --- the format ---------------------------------------------------------------------------------------------


def test_the_first_format_is_still_written_byte_for_byte(place: Place) -> None:
    """A changed line means that logs written before do not verify any more: never change this file, add one."""
    log, _ = opened(place, [*groups(6), checkpoint(6)])
    told = b"".join(encode_envelope(e) + b"\n" for e in log.read())
    assert told == (GOLDEN / "envelopes-v1.jsonl").read_bytes()
