"""Macros of Kubernetes' CEL environment that the C++ library lacks, written as expressions that it has.

- Comprehensions with two variables, such as `map.exists(k, v, …)`: over a map the second variable is bound to the value of the
  first, over a list that is written out the first runs through its indexes.
- `indexOf` and `lastIndexOf`, which the library has for texts alone, and takes no further overloads of.
- `FORMAT.validate(text)` and `format.named(name)`, which give optionals: a function cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|(?!\"\"\").)*\"\"\"|'''(?:\\.|(?!''').)*'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"|(?P<space>\s+|//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?\w*)|(?P<other>[=!<>]=|&&|\|\||\.\?|.)",
    re.DOTALL,
)
_OPENERS, _CLOSERS = {")": "(", "]": "[", "}": "{"}, {"(": ")", "[": "]", "{": "}"}
_OF_LISTS = ("indexOf", "lastIndexOf")
_TRANSFORMS = {"transformList": "", "transformMap": "__map_of", "transformMapEntry": "__merged"}
_SAME = {"all": "all", "exists": "exists", "existsOne": "exists_one", "exists_one": "exists_one"}


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


def _comprehension(name: str, receiver: list[str], arguments: list[list[str]]) -> str:
    if len(arguments) < 3 or any(len(one) != 1 or not one[0].isidentifier() for one in arguments[:2]):
        return ""
    (key,), (value,), *rest = arguments
    whole = " ".join(receiver)
    keys, at = whole, f"({whole})[{key}]"
    if receiver[0] == "[" and _end(receiver, 0) == len(receiver):
        keys = str(list(range(len(_split(receiver[1:-1])))))
    bound = [f"cel.bind({value}, {at}, {' '.join(one)})" for one in rest]
    if name in _TRANSFORMS and len(bound) in (1, 2):
        kept = f"({keys}).filter({key}, {bound[0]})" if len(bound) == 2 else f"({keys})"
        made = f"[dyn({key}), dyn({bound[-1]})]" if name == "transformMap" else f"{bound[-1]}"
        return f"{_TRANSFORMS[name]}({kept}.map({key}, {made}))"
    return f"({keys}).{_SAME[name]}({key}, {bound[0]})" if name in _SAME and len(bound) == 1 else ""


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
    **dict.fromkeys((*_SAME, *_TRANSFORMS), _comprehension),
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
