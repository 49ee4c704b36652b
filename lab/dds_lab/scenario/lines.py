"""Reads YAML and keeps the place of each value, so that an error can name line and column.

A subset: one document, no aliases, no tags, no duplicate keys; plain scalars are null, true, false, numbers or text, never dates.
Size and depth are bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from dds_core.errors import InputError

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 40

Path = tuple[str | int, ...]
"""The path of a value from the root: keys of mappings and indices of lists."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Mark(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class NotYaml(InputError):
    """The text is not valid in this subset; `where` names the place."""


@dataclass
class Document:
    """A text's value with the place of each part. `label` is the text's name in messages."""

    label: str
    value: Any = None
    keys: dict[Path, Mark] = field(default_factory=dict)
    """The places of the fields' names."""
    values: dict[Path, Mark] = field(default_factory=dict)

    def mark(self, path: Path, *, name: bool = False) -> Mark:
        """The place of a value (or of its name); if there is none, the place of the nearest value around it."""
        if name and path in self.keys:
            return self.keys[path]
        found = (self.values.get(path[:end]) for end in range(len(path), -1, -1))
        return next((mark for mark in found if mark is not None), Mark(1, 1))

    def where(self, path: Path, *, name: bool = False) -> str:
        """The place as `label:line:column`."""
        mark = self.mark(path, name=name)
        return f"{self.label}:{mark.line}:{mark.column}"


def shown(path: Path) -> str:
    """A path as text: `cluster.nodes[0].cpu`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(text: str, label: str) -> Document:
    """Parse the text. Raises NotYaml, which names line and column."""
    if len(text.encode()) > MAX_BYTES:
        raise NotYaml(f"is longer than {MAX_BYTES // 1024 // 1024} MiB", where=label, fix="split it")
    document = Document(label)
    try:
        _build(document, yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        place = f"{label}:{at.line + 1}:{at.column + 1}" if at is not None else label
        raise NotYaml(f"is not YAML: {error.problem or error.context}", where=place, fix="correct it there") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"is not YAML: {error}", where=label, fix="give UTF-8 text without control characters") from None
    return document


def _build(document: Document, events: Iterator[Any]) -> None:
    """Walk the parser's events with an explicit stack, so that deep nesting cannot exhaust Python's."""
    stack: list[_Open] = []
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _fault(document, event, "a second document begins", "keep one document in a file")
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            _refuse(document, event)
            if isinstance(event, yaml.ScalarEvent):
                _place(document, stack, event, _scalar(event))
            else:
                empty: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                path = _place(document, stack, event, empty)
                if len(stack) >= MAX_DEPTH:
                    raise _fault(document, event, f"is nested more than {MAX_DEPTH} levels deep", "flatten it")
                stack.append(_Open(empty, path))


class _Open:
    """A list or mapping that is being read; `key` is the key whose value comes next."""

    def __init__(self, value: list[Any] | dict[str, Any], path: Path) -> None:
        self.value = value
        self.path = path
        self.key: str | None = None


def _place(document: Document, stack: list[_Open], event: Any, value: Any) -> Path:
    """Add a value to the open list or mapping and store its place; returns its path."""
    mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
    if not stack:
        document.value = value
        document.values[()] = mark
        return ()
    inside = stack[-1]
    if isinstance(inside.value, list):
        path: Path = (*inside.path, len(inside.value))
        inside.value.append(value)
    elif inside.key is None:
        if not isinstance(event, yaml.ScalarEvent):
            raise _fault(document, event, "a key is not text", "put it in quotes")
        name = event.value
        if name in inside.value:
            raise _fault(document, event, f"{name} is there twice", "keep one of them")
        inside.key = name
        document.keys[(*inside.path, name)] = mark
        return inside.path
    else:
        path = (*inside.path, inside.key)
        inside.value[inside.key] = value
        inside.key = None
    document.values[path] = mark
    return path


def _refuse(document: Document, event: Any) -> None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise _fault(document, event, "anchors and aliases (&name, *name) are not allowed", "write it out")
    if getattr(event, "tag", None) not in (None, "!"):
        raise _fault(document, event, "tags (!name) are not allowed", "leave the tag out")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and not text.isdigit() and math.isfinite(float(text)):
        return float(text)
    return text


def _fault(document: Document, event: Any, what: str, fix: str) -> NotYaml:
    at = event.start_mark
    return NotYaml(what, where=f"{document.label}:{at.line + 1}:{at.column + 1}", fix=fix)
