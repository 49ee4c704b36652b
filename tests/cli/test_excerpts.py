"""What is told of a claim from the events that concern it is what is told of it from the whole log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_adapters.kubernetes.recording import replay_recording
from dds_adapters.sql import Database, upgrade
from dds_commands.excerpts import Excerpt, found_claim
from dds_commands.recorded import write_recording
from dds_commands.sources import Log, Recording
from dds_commands.timelines import Account
from dds_core.replay import moments
from dds_core.scaler.blame import POOL
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.history.words import summary
from dds_core.scaler.policy import Policy
from dds_core.scaler.timeline import Directory, timeline
from dds_core.timeline import Entry
from tests.core.golden.replays import log_of as golden_log
from tests.core.scaler.history.told import DATA, LOGS, RECORDINGS
from tests.support.commands import fine, log_of


def test_what_goes_on_at_a_cut_is_told_as_from_the_whole_log(tmp_path: Path) -> None:
    for name, claim, until, words in (
        (
            "pool_exhausted",
            "default/second",
            "02:14:05",
            "waiting for 7.9 s so far; at present: no device is free for it, or the scheduler finds no node",
        ),
        ("burst", "default/burst-001", "02:22:40", "bound to node0003 after 4.7 s, in use for 2.7 s so far"),
    ):
        recording = str(DATA / "recordings" / f"{name}.jsonl.gz")
        (tmp_path / name).mkdir()
        log = log_of(recording, tmp_path / name)
        cut = fine("timeline", claim, recording, "--until", until)
        assert words in cut
        assert fine("timeline", claim, log, "--until", until) == cut


@pytest.mark.parametrize(
    ("name", "until", "fate"),
    [
        ("extended_resource", "", "bound to node0000 after 6.8 s, deleted at 03:08:23"),
        ("extended_resource", "03:08:20", "waiting for 3.8 s so far"),
        ("withdrawn", "", "deleted after 3.0 s, before it had a node"),
    ],
)
def test_of_a_pod_its_own_fate_comes_first(name: str, until: str, fate: str, tmp_path: Path) -> None:
    recording = str(DATA / "recordings" / f"{name}.jsonl.gz")
    subject = {"extended_resource": "default/er", "withdrawn": "default/hasty"}[name]
    told = [
        fine("timeline", f"pod/{subject}", source, *(["--until", until] if until else []))
        for source in (recording, log_of(recording, tmp_path))
    ]
    assert told[0] == told[1]
    assert f"pod {subject}: {fate}\n" in told[0]


def test_a_pod_that_was_there_when_the_log_begins_waited_so_long_at_least() -> None:
    told = fine("timeline", "pod/default/train-1", str(DATA / "logs" / "archived.log.jsonl.gz"))
    assert "pod default/train-1: bound to node0000 after 2.2 s or more, deleted at 02:11:30\n" in told


def test_the_use_of_a_claim_that_pods_share_is_told_as_the_claims() -> None:
    told = fine("timeline", "pod/default/odd3-0", str(DATA / "logs" / "fleet-18-scaler.log.jsonl.gz")).splitlines()
    assert told[1] == "pod default/odd3-0: bound to node0001 after 11.9 s, deleted at 00:12:54"
    assert told[2] == "its claim default/odd3 of 2 pods: bound to node0001 after 11.9 s, in use for 5 min 02 s"


def named(entries: Iterable[Entry]) -> list[Entry]:
    """Without what is said of erased events, of which nothing says whom they concerned."""
    return [entry._replace(notes=tuple(note for note in entry.notes if note.kind != "erased")) for entry in entries]


WHOLE = [name for name in LOGS if name != "archived"]


ORDERED_ELSEWHERE = {"burst": 2}
"""So many claims waited for a pool of which other nodes had ordered the rest. The events that concern the claim do not tell that:
the time is then dds's, or the policy's."""


@pytest.mark.parametrize("name", [*RECORDINGS, *WHOLE])
def test_a_claim_is_told_as_from_the_whole_log(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    upgrade(url)
    with Database(url, synchronous="NORMAL") as database:
        if name in RECORDINGS:
            write_recording(
                Recording(str(DATA / "recordings" / f"{name}.jsonl.gz")), database, "lab/scaler", checkpoint=False
            )
        else:
            database.import_log(JsonlLog(str(DATA / "logs" / f"{name}.log.jsonl.gz")).read())
        log = database.log(database.heads()[0].log)
        whole = list(moments(log.read_lean(), SCALER))
        history = History().read(whole)
        subjects = [one for one in Directory().read(whole).subjects() if one.kind in ("claim", "pod") and one.uids]
        differ = set[str]()
        for claim in subjects:
            assert claim.kind == "pod" or found_claim(log, claim.name) == claim
            part = list(moments(Excerpt(log, claim).rows(), SCALER))
            assert named(timeline(part, claim)) == named(timeline(whole, claim)), claim.name
            told = History().read(part)
            for uid in claim.uids & history.claims.keys():
                if told.claims[uid] != history.claims[uid]:
                    assert [one for one in history.claims[uid].spans if one.stage == POOL and one.node], claim.name
                    differ.add(uid)
                    continue
                assert summary(told.claims[uid], told) == summary(history.claims[uid], history)
        assert len(differ) == ORDERED_ELSEWHERE.get(name, 0)


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_device_and_a_node_are_told_as_from_the_whole_log(name: str) -> None:
    source = (
        golden_log(replay_recording(DATA / "recordings" / f"{name}.jsonl.gz", Policy()))
        if name in RECORDINGS
        else JsonlLog(str(DATA / "logs" / f"{name}.log.jsonl.gz"))
    )
    log = Log(source, name)
    whole = list(log.told())
    subjects = [one for one in Directory().read(whole).subjects() if one.kind in ("device", "node")]
    assert subjects == [one for one in Directory().read(log.named()).subjects() if one.kind in ("device", "node")]
    read = 0
    for subject in subjects:
        part = list(log.about(subject))
        read += len(part)
        told, expected = (Account(SCALER, moments, subject) for moments in (part, whole))
        assert told.entries == expected.entries, subject
        assert (list(told.head()), told.data()["devices"]) == (list(expected.head()), expected.data()["devices"])
    assert len(subjects) < 10 or read < len(whole) * len(subjects)
