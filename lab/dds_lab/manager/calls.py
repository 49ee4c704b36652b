"""Calls and replies as the manager's APIs see them, without sockets and framing.

An API refuses a call by raising `Refused`; the manager makes the error body. No `repr` shows a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

JSON = {"Content-Type": "application/json"}
Done = Callable[["Reply"], None]
Later = Callable[[Done], None]
"""An answer for which the fabric needs time: a function that starts the work and passes the reply on once."""


@dataclass(frozen=True)
class Call:
    """One request. `path` is decoded, `headers` have lower-case names, and the last of equal query keys counts."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Call:
        """From a request's target, such as `/machines?tenant_uuid=T`, still encoded."""
        path, _, query = target.partition("?")
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        return cls(method, unquote(path), query_of(query), lowered, body)

    def json(self) -> Any:
        """The body as JSON. Raises Refused if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise Refused(400, "E010400", "the body is no JSON") from None


@dataclass(frozen=True)
class Reply:
    """A reply after `delay` seconds. `lost` is set if no reply comes: "away" (the manager cannot be reached and did nothing) or
    "cut" (the connection ends before the answer; the call may be carried out)."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    lost: Literal["", "away", "cut"] = ""

    def json(self) -> Any:
        return json.loads(self.body)


AWAY = Reply(0, lost="away")
CUT = Reply(0, lost="cut")


def query_of(encoded: str) -> dict[str, str]:
    return dict(parse_qsl(encoded, keep_blank_values=True))


class Refused(Exception):
    """An API refuses a call: the status and the content of the error body."""

    def __init__(self, status: int, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.data = data


def told(status: int, data: Any) -> Reply:
    """A reply with a JSON body."""
    return Reply(status, json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), JSON)


def error(refused: Refused) -> Reply:
    """The error body of the Fsas APIs: {status, detail: {code, message, data}}."""
    detail = {"code": refused.code, "message": refused.message, "data": refused.data}
    return told(refused.status, {"status": refused.status, "detail": detail})


def at(found: Any, *path: str | int) -> Any:
    """The value at a path of a body. Raises Refused, which names the path, if there is none."""
    for place, part in enumerate(path):
        there = isinstance(found, dict if isinstance(part, str) else list)
        if not there or (part not in found if isinstance(part, str) else part >= len(found)):
            shown = ".".join(map(str, path[: place + 1]))
            raise Refused(400, "E010400", f"the body has no {shown}")
        found = found[part]
    return found


def text_at(found: Any, *path: str | int) -> str:
    """The text at a path of a body. Raises Refused, which names the path, if there is none."""
    text = at(found, *path)
    if not isinstance(text, str):
        raise Refused(400, "E010400", f"{'.'.join(map(str, path))} must be text")
    return text


# -- routes: the methods and paths of the APIs, by name

Answering = Callable[[Call, dict[str, str]], Reply | Later]


@dataclass(frozen=True)
class Route:
    """A call of an API. Faults and metrics use `name`; `answer` gets the variable parts of the path by name."""

    name: str
    method: str
    pattern: Pattern[str]
    answer: Answering
    free: bool = False
    """Whether the call needs no token."""


def route(name: str, method: str, path: str, answer: Answering, free: bool = False) -> Route:
    """A route for a path such as `/machines/{machine}`; a part in braces is anything without a slash."""
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
    return Route(name, method, pattern, answer, free)


def find(routes: Iterable[Route], call: Call) -> tuple[Route, dict[str, str]]:
    """The route of a call and the parts of its path. Raises Refused (404, or 405 for another method)."""
    matching = [(one, found) for one in routes if (found := one.pattern.fullmatch(call.path))]
    for one, found in matching:
        if one.method == call.method:
            return one, found.groupdict()
    if matching:
        raise Refused(405, "E010405", f"{call.method} is not a method of {call.path}")
    raise Refused(404, "E010404", f"there is no {call.path}")
