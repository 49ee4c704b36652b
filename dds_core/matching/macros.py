"""Macros of Kubernetes' CEL environment that the C++ library lacks, written as expressions that it has.

- `transformMap`, `transformMapEntry` and `exists_one` with two variables: the library runs the others of these alone.
- `indexOf` and `lastIndexOf`, which the library has for texts alone, and takes no further overloads of.
- `FORMAT.validate(text)` and `format.named(name)`, which give optionals: a function cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

_TOKEN = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|(?!\"\"\").)*\"\"\"|'''(?:\\.|(?!''').)*'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"|(?P<space>\s+|//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?\w*)|(?P<other>[=!<>]=|&&|\|\||\.\?|.)",
    re.DOTALL,
)
_OPENERS, _CLOSERS = {")": "(", "]": "[", "}": "{"}, {"(": ")", "[": "]", "{": "}"}
_OF_LISTS = ("indexOf", "lastIndexOf")
_MAPS = {"transformMap": "__map_of", "transformMapEntry": "__merged"}
_TAKE_LISTS = {*_OF_LISTS, *_MAPS, "isSorted", "sum", "min", "max"}
_GIVE_NO_PLAIN_VALUE = {"optional", "validate", "named", "null", "google", ".?"}


def unsafe(expression: str) -> bool:
    """Whether an optional or null could come to a function of Python's in a list. The library crashes on such an optional, and
    does not count its references to None."""
    tokens = _tokens(expression)
    marks = any(one == "?" and before in {".", "[", "{", ","} for before, one in pairwise(tokens))
    return not _TAKE_LISTS.isdisjoint(tokens) and (marks or not _GIVE_NO_PLAIN_VALUE.isdisjoint(tokens))


def expanded(expression: str) -> str:
    """The expression without these macros. One that cannot be read is given back as it is: the compiler tells what is wrong."""
    tokens, changed = _tokens(expression), False
    for place in range(1, len(tokens) - 1):
        if tokens[place] in _OF_LISTS and tokens[place - 1] == "." and tokens[place + 1] == "(":
            tokens[place], changed = f"__{tokens[place]}", True
    for place in range(len(tokens) - 1, 1, -1):  # the innermost of nested ones is the last
        made = _made(tokens, place) if place < len(tokens) else None
        if made is not None:
            begin, end, text = made
            tokens[begin:end], changed = _tokens(text), True
    return " ".join(tokens) if changed else expression


def _tokens(text: str) -> list[str]:
    return [found[0] for found in _TOKEN.finditer(text) if found.lastgroup != "space"]


def _made(tokens: list[str], place: int) -> tuple[int, int, str] | None:
    """What the macro at this place stands for, with the tokens that it replaces."""
    make = _MACROS.get(tokens[place])
    if make is None or tokens[place - 1] != "." or tokens[place + 1 : place + 2] != ["("]:
        return None
    begin, end = _receiver(tokens, place - 1), _end(tokens, place + 1)
    if begin is None or end is None:
        return None
    arguments = _split(tokens[place + 2 : end - 1])
    text = make(tokens[place], tokens[begin : place - 1], arguments)
    return (begin, end, text) if text else None


def _transformed(name: str, receiver: list[str], arguments: list[list[str]]) -> str:
    if len(arguments) not in (3, 4):
        return ""
    *given, last = [" ".join(one) for one in arguments]
    entry = f"[dyn({given[0]}), dyn({last})]" if name == "transformMap" else last
    return f"{_MAPS[name]}({' '.join(receiver)}.transformList({', '.join(given)}, {entry}))"


def _exists_one(name: str, receiver: list[str], arguments: list[list[str]]) -> str:
    if len(arguments) != 3:
        return ""
    return f"{' '.join(receiver)}.existsOne({', '.join(' '.join(one) for one in arguments)})"


def _validate(name: str, receiver: list[str], arguments: list[list[str]]) -> str:
    if len(arguments) != 1:
        return ""
    return f"optional.ofNonZeroValue({' '.join(receiver)}.__violations({' '.join(arguments[0])}))"


def _named(name: str, receiver: list[str], arguments: list[list[str]]) -> str:
    if receiver != ["format"] or len(arguments) != 1:
        return ""
    known = f"format.__is({' '.join(arguments[0])})"
    return f"({known} ? optional.of(format.__named({' '.join(arguments[0])})) : optional.none())"


_MACROS: dict[str, Callable[[str, list[str], list[list[str]]], str]] = {
    **dict.fromkeys(_MAPS, _transformed),
    "exists_one": _exists_one,
    "validate": _validate,
    "named": _named,
}


def _receiver(tokens: list[str], dot: int) -> int | None:
    """Where the operand of the dot begins: a name, a literal or what is in brackets, with all that is selected of it."""
    place = dot - 1
    while place >= 0:
        begin = _begin(tokens, place)
        if begin is None:
            return None
        before = tokens[begin - 1] if begin else ""
        if tokens[begin] in "([" and _is_operand(before):  # a call's arguments, or an index
            place = begin - 1
        elif before == ".":
            place = begin - 2
        else:
            return begin
    return None


def _is_operand(token: str) -> bool:
    return bool(token) and (token in ")]}" or token[-1] in "\"'" or (token.isidentifier() and token != "in"))


def _begin(tokens: list[str], place: int) -> int | None:
    """The opening bracket of the closing one at this place; else the place itself."""
    if tokens[place] not in _OPENERS:
        return place
    depth = 0
    for index in range(place, -1, -1):
        depth += (tokens[index] in _OPENERS) - (tokens[index] in _CLOSERS)
        if not depth:
            return index
    return None


def _end(tokens: list[str], place: int) -> int | None:
    """The place after the closing bracket of the opening one at this place."""
    depth = 0
    for index in range(place, len(tokens)):
        depth += (tokens[index] in _CLOSERS) - (tokens[index] in _OPENERS)
        if not depth:
            return index + 1
    return None


def _split(tokens: list[str]) -> list[list[str]]:
    """The arguments between commas; none of nothing."""
    found: list[list[str]] = [[]] if tokens else []
    depth = 0
    for token in tokens:
        depth += (token in _CLOSERS) - (token in _OPENERS)
        if token == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return found
