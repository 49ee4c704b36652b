"""Which call a request is: methods and paths of the APIs, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from re import Pattern

from dds_adapters.lab.manager.calls import Call, Later, Refused, Reply

Answering = Callable[[Call, dict[str, str]], Reply | Later]


@dataclass(frozen=True)
class Route:
    """`name` is what faults and metrics call it; `answer` gets the parts of the path by their names."""

    name: str
    method: str
    pattern: Pattern[str]
    answer: Answering
    free: bool = False
    """Whether it needs no token."""


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
