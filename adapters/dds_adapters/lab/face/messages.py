"""Bytes of HTTP/1.1 answers. Knows the framing and nothing of what is framed."""

from collections.abc import Iterable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from dds_adapters.lab.api.requests import Response

CHUNK_END = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = (204, 304)


@lru_cache(maxsize=4)
def date(second: int) -> str:
    """The header Date for a second since 1970-01-01 UTC."""
    return formatdate(second, usegmt=True)


def whole(response: Response, *, keep: bool, head: bool = False, now: int) -> bytes:
    """An answer with all of its body; only the head of it when `head` is asked for. `now` in microseconds."""
    body = b"" if response.code in _NO_BODY else response.body
    lines = _head(response.code, response.headers, keep, now)
    if response.code not in _NO_BODY:
        lines.append(f"Content-Length: {len(body)}")
    return _joined(lines) + (b"" if head else body)


def stream_head(code: int, headers: Mapping[str, str], *, keep: bool, chunked: bool, now: int) -> bytes:
    """The beginning of an answer whose length nobody knows yet."""
    lines = _head(code, headers, keep, now)
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    return _joined(lines)


def _head(code: int, headers: Mapping[str, str], keep: bool, now: int) -> list[str]:
    lines = [f"HTTP/1.1 {code} {_REASONS.get(code, 'Unknown')}"]
    lines.append(f"Date: {date(now // 1_000_000)}")
    lines += [f"{name}: {_one_line(value)}" for name, value in headers.items()]
    if not keep:
        lines.append("Connection: close")
    return lines


def _joined(lines: Iterable[str]) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")


def _one_line(value: str) -> str:
    """A header may quote what a client sent; it must not become two headers by that."""
    return value.replace("\r", " ").replace("\n", " ") if "\n" in value or "\r" in value else value
