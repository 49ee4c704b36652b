"""The lab's recordings: the file's form, what a watcher would have seen, bookmarks, and an end that is one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording
from dds_core.errors import FileError
from dds_core.timeline.instants import rfc3339
from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.crds import DEFINITIONS
from dds_lab.record.recorder import Recorder
from dds_lab.record.recording_file import RecordingFile
from dds_lab.time import VirtualTime

START = 1_795_227_064_000_000


class Kept(list[RecordedEvent]):
    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        self.append(RecordedEvent(at, resource, type, obj))


def room() -> tuple[VirtualTime, Client]:
    time = VirtualTime(1, START)
    server = ApiServer(gates=Gates.for_version("1.36"), now=time.now, random=Random(1))
    client = Client(server, time, "admin")
    for definition in DEFINITIONS:
        client.create("customresourcedefinitions", definition)
    return time, client


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def test_what_is_there_comes_first_then_each_change_at_its_instant() -> None:
    time, client = room()
    client.create("nodes", node("a"))
    kept = Kept()
    Recorder(client.server, time, kept)
    time.run(START + 5_000_000)
    made = client.create("nodes", node("b"))
    time.run(START + 6_000_000)
    client.update("nodes", {**made, "spec": {"unschedulable": True}})
    client.delete("nodes", "a")
    client.create("secrets", {"metadata": {"name": "s"}, "data": {}}, "default")
    told = [(event.at - START, event.resource, event.type, json.loads(event.raw)["metadata"]["name"]) for event in kept]
    assert told == [
        (0, "nodes", "ADDED", "a"),
        (5_000_000, "nodes", "ADDED", "b"),
        (6_000_000, "nodes", "MODIFIED", "b"),
        (6_000_000, "nodes", "DELETED", "a"),
    ]
    assert json.loads(kept[2].raw)["kind"] == "Node"


def test_bookmarks_come_every_minute_on_every_watch() -> None:
    time, client = room()
    kept = Kept()
    Recorder(client.server, time, kept)
    time.run(START + 130_000_000)
    marks = [event for event in kept if event.type == "BOOKMARK"]
    assert len(marks) == 2 * 8  # no device taint rules are served
    assert {json.loads(event.raw)["metadata"]["resourceVersion"] for event in marks} == {
        str(client.server.store.revision)
    }


def test_a_recorder_that_is_stopped_writes_nothing_more_and_leaves_no_timer() -> None:
    time, client = room()
    kept = Kept()
    recorder = Recorder(client.server, time, kept)
    recorder.stop()
    client.create("nodes", node("a"))
    time.run(START + 600_000_000)
    assert kept == []
    assert time.next_at() is None


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_file_reads_as_it_was_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with RecordingFile(str(path)) as file:
        file.write(START + 1, "nodes", "ADDED", b'{"metadata":{"name":"a"}}')
        file.write(START + 2, "pods", "BOOKMARK", b"{}")
        file.flush()
        before = [event.type for event in _so_far(path)]
    assert before == ["ADDED", "BOOKMARK"]
    assert list(read_recording(path)) == [
        RecordedEvent(START + 1, "nodes", "ADDED", b'{"metadata":{"name":"a"}}'),
        RecordedEvent(START + 2, "pods", "BOOKMARK", b"{}"),
    ]
    assert path.stat().st_mode & 0o077 == 0


def test_the_form_is_that_of_the_recordings(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with RecordingFile(str(path)) as file:
        file.write(START, "nodes", "ADDED", b'{"a":1}')
    line = gzip.decompress(path.read_bytes())
    assert line == b'{"ts":"2026-11-21T02:11:04.000000Z","resource":"nodes","type":"ADDED","object":{"a":1}}\n'
    assert rfc3339(START + 5) == "2026-11-21T02:11:04.000005Z"


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("mine")
    with pytest.raises(FileError, match="there already"):
        RecordingFile(str(path))
    assert path.read_text() == "mine"
    with RecordingFile(str(path), replace=True):
        pass
    assert path.read_text() == ""
    with pytest.raises(FileError, match="No such file"):
        RecordingFile(str(tmp_path / "none" / "r.jsonl"))


def _so_far(path: Path) -> list[RecordedEvent]:
    found = []
    try:
        for event in read_recording(path):
            found.append(event)
    except FileError:
        assert path.suffix == ".gz"  # the end of the compressed data is still to come
    return found
