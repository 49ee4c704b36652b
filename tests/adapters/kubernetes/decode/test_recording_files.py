"""Files that are recordings, and files that are not: one line that says what, where and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dds_adapters.kubernetes import NotARecording, RecordedEvent, read_recording
from dds_core.errors import CorruptFile, DdsError, FileError, TruncatedFile
from tests.adapters.kubernetes.samples import BY_NAME

LINE = b'{"ts":"2026-11-21T02:11:04.027386Z","resource":"nodes","type":"ADDED","object":{"a": [1]}}\n'
EVENT = RecordedEvent(1_795_227_064_027_386, "nodes", "ADDED", b'{"a": [1]}')


def given(tmp_path: Path, data: bytes, name: str = "rec.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_plain_and_gzipped_read_the_same(tmp_path: Path) -> None:
    assert list(read_recording(given(tmp_path, LINE * 2))) == [EVENT, EVENT]
    assert list(read_recording(given(tmp_path, gzip.compress(LINE * 2, mtime=0), "rec.jsonl.gz"))) == [EVENT, EVENT]
    assert list(read_recording(str(given(tmp_path, gzip.compress(LINE, mtime=0), "misnamed.jsonl")))) == [EVENT]
    assert list(read_recording(given(tmp_path, LINE.rstrip(b"\n")))) == [EVENT]


def test_the_raw_object_is_kept_byte_for_byte() -> None:
    first = next(read_recording(BY_NAME["first_attach"]))
    assert (first.resource, first.type, first.at) == ("configmaps", "ADDED", EVENT.at)
    assert first.raw.startswith(b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"composable-dra-dds"')


def test_it_is_read_line_by_line(tmp_path: Path) -> None:
    events = read_recording(given(tmp_path, LINE * 3 + b"damaged\n" + LINE))
    assert [next(events) for _ in range(3)] == [EVENT] * 3
    with pytest.raises(CorruptFile, match=r"rec\.jsonl: line 4: is damaged; copy or record it again"):
        next(events)


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"hello\n",
        b"[]\n",
        b'{"a": 1}\n',
        b'{"position": 1, "stream": "x", "type": "ClaimObserved"}\n',
        b'{"ts":"now","resource":"nodes","type":"ADDED","object":{}}\n',
        b'{"ts":"2026-11-21T02:11:04","resource":"nodes","type":"ADDED","object":{}}\n',
        b'{"ts":"2026-11-21T02:11:04Z","resource":"nodes","type":5,"object":{}}\n',
        b"SQLite format 3\x00" + bytes(4000),
        b"\xff\xfe\x00",
        b"[" * 100_000,
        gzip.compress(b"hello\n", mtime=0),
    ],
)
def test_another_kind_of_file(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotARecording) as e:
        list(read_recording(given(tmp_path, data)))
    assert "rec.jsonl: the first line is not a recorded watch event; give JSON lines with" in str(e.value)


@pytest.mark.parametrize("data", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotARecording, match=r"rec\.jsonl: the file is empty; give a recording"):
        list(read_recording(given(tmp_path, data)))


@pytest.mark.parametrize("cut", [1, 5, 40, len(LINE) - 2])
def test_a_file_cut_in_the_middle_of_a_line(tmp_path: Path, cut: int) -> None:
    with pytest.raises(TruncatedFile, match=r"line 3: the file ends in the middle; copy or record it again"):
        list(read_recording(given(tmp_path, LINE * 2 + LINE[:cut])))


def test_a_gzipped_file_cut_or_damaged_anywhere(tmp_path: Path) -> None:
    whole = BY_NAME["first_attach"].read_bytes()
    for place in range(0, len(whole) - 1, 37):
        with pytest.raises(FileError):
            list(read_recording(given(tmp_path, whole[:place])))
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        try:  # a few bytes of the header (its time stamp) mean nothing
            events = list(read_recording(given(tmp_path, bytes(damaged))))
        except DdsError as e:
            assert "\n" not in str(e)
        else:
            assert len(events) == 74


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    bomb = gzip.compress(b"[" * 40_000_000, compresslevel=1, mtime=0)
    with pytest.raises(NotARecording):
        list(read_recording(given(tmp_path, bomb)))
    long = LINE[:-3] + b" " * 20_000_000 + b"}\n"
    with pytest.raises(CorruptFile, match="line 2: is damaged"):
        list(read_recording(given(tmp_path, gzip.compress(LINE + long, compresslevel=1, mtime=0))))


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(FileError) as e:
            list(read_recording(path))
        assert str(path) in str(e.value) and "give the path of a recording" in str(e.value)
