"""YAML that somebody typed into a ConfigMap, read without its traps: bounded, no aliases, no tags, few types.

Plain scalars are null, true, false, whole numbers or text, nothing else: no dates, no `yes`, no sexagesimal numbers.
This module must never follow an alias (a few lines could otherwise fill the memory) nor quote what it read.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from dds_adapters.kubernetes.decode.reading import Fault

MAX_BYTES = 256 * 1024
MAX_DEPTH = 8

_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser, where the platform has it


class Mapping(dict[str, Any]):
    """A mapping with text keys; `repeated` are those that were given more than once (the first value stands)."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: set[str] = set()


class _Open:
    """A list or mapping that is being read; `key` is the key that waits for its value."""

    def __init__(self, value: list[Any] | Mapping) -> None:
        self.value = value
        self.key: str | None = None

    def add(self, field: str, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is None:
            if not isinstance(value, str):
                raise Fault(field, "is not usable YAML: a key is not text (put it in quotes)")
            self.key = value
        else:
            if self.key in self.value:
                self.value.repeated.add(self.key)
            else:
                self.value[self.key] = value
            self.key = None


def parse(field: str, text: str) -> Any:
    """The one document in the text: None, bool, int, str, list or `Mapping`. Raises Fault, about `field`."""
    if len(text.encode()) > MAX_BYTES:
        raise Fault(field, f"is longer than {MAX_BYTES // 1024} KiB")
    try:
        return _build(field, text)
    except yaml.MarkedYAMLError as e:
        line = f" (line {e.problem_mark.line + 1})" if e.problem_mark is not None else ""
        raise Fault(field, f"is not YAML{line}") from None
    except (yaml.YAMLError, ValueError):
        raise Fault(field, "is not YAML") from None


def _build(field: str, text: str) -> Any:
    """Walk the parser's events with a stack of our own, so that no depth of nesting can exhaust Python's."""
    root: list[Any] = []
    stack = [_Open(root)]
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise Fault(field, "is not usable YAML: aliases (*name) are not allowed")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
            raise Fault(field, "is not usable YAML: tags (!name) are not allowed")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].add(field, _plain(event.value) if event.implicit[0] else event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(stack) > MAX_DEPTH:
                raise Fault(field, f"is nested more than {MAX_DEPTH} levels deep")
            stack.append(_Open([] if isinstance(event, yaml.SequenceStartEvent) else Mapping()))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            stack[-1].add(field, closed.value)
    if len(root) > 1:
        raise Fault(field, "holds more than one YAML document")
    return root[0] if root else None


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _WHOLE.fullmatch(text) else text
