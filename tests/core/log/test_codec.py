"""Envelopes as lines: nothing is lost, and nothing else is taken for one."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_core.log import Envelope
from dds_core.log.codec import (
    BadLine,
    Closing,
    Heading,
    decode_closing,
    decode_envelope,
    decode_heading,
    decode_lean,
    encode_closing,
    encode_envelope,
    encode_heading,
)
from dds_core.log.envelope import lean

GOLDEN = Path(__file__).parents[2] / "data" / "formats" / "envelopes-v1.jsonl"

texts = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, 2**53 - 1)
hashes = st.binary(min_size=32, max_size=32)
envelopes = st.builds(
    Envelope,
    *[texts, numbers, texts, numbers, texts, texts, numbers, numbers, numbers, numbers, numbers, texts],
    *[st.none() | texts] * 3,
    st.none() | texts.map(str.encode),
    st.none() | st.binary(min_size=16, max_size=16),
    *[hashes] * 3,
)


@given(envelopes)
def test_any_envelope_comes_back_from_its_one_line(e: Envelope) -> None:
    line = encode_envelope(e)
    assert b"\n" not in line
    assert decode_envelope(line) == e
    assert decode_lean(line) == lean(e)


def test_lines_of_the_first_format_are_still_read() -> None:
    for line in GOLDEN.read_bytes().splitlines():
        e = decode_envelope(line)
        assert encode_envelope(e) == line
        assert decode_lean(line) == lean(e)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"nonsense",
        b'{"log":"a/b"}',
        GOLDEN.read_bytes().splitlines()[0][:-5],
        GOLDEN.read_bytes().splitlines()[0].replace(b'"salt":"1e', b'"salt":"zz'),
        GOLDEN.read_bytes().splitlines()[0].replace(b'"log"', b'"extra":1,"log"'),
        GOLDEN.read_bytes().splitlines()[0].replace(b'"position":1', b'"position":"1"'),
        b"\xff\xfe",
    ],
)
def test_another_line_is_no_envelope(line: bytes) -> None:
    with pytest.raises(BadLine):
        decode_envelope(line)


@pytest.mark.parametrize("line", [b"", b"{}", b'{"position":1}', b"\xff"])
def test_another_line_is_no_lean_event_header_or_closing_line(line: bytes) -> None:
    for decode in (decode_lean, decode_heading, decode_closing):
        with pytest.raises(BadLine):
            decode(line)


def test_header_and_closing_line_come_back() -> None:
    heading, closing = Heading(1, "a/scaler", "uid", "scaler", 0, 7), Closing(7, "ab" * 32)
    assert decode_heading(encode_heading(heading)) == heading
    assert decode_closing(encode_closing(closing)) == closing
    assert list(msgspec.json.decode(encode_heading(heading))) == list(Heading.__struct_fields__)
