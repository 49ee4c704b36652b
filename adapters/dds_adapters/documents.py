"""Reads YAML that people write: bounded, without aliases; whole documents into a strict form, with the place of each fault."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from dds_adapters.files import reason_of
from dds_core.errors import DdsError

if TYPE_CHECKING or not hasattr(yaml, "CSafeLoader"):
    from yaml import SafeLoader as _Safe
else:
    from yaml import CSafeLoader as _Safe  # ten times as fast

LARGEST = 8 * 1024 * 1024
"""Bytes of a document."""
MAX_DEPTH = 16
MAX_FAULTS = 5
"""An error message names at most this many faults of a document."""

F = TypeVar("F", bound=BaseModel)


# -- YAML ----------------------------------------------------------------------------------------------------------------


class Unwanted(Exception):
    """YAML that a document may not contain; `key` is one that stands twice."""

    def __init__(self, what: str, mark: Any, key: str = "") -> None:
        self.what, self.key = what, key
        self.line, self.column = mark.line + 1, mark.column + 1
        super().__init__(f"{what} (line {self.line})")


class Alias(Unwanted):
    """A few lines of aliases could fill the memory."""


def events(text: str, deepest: int = MAX_DEPTH) -> Iterator[Any]:
    """The parser's events. Raises Alias, and Unwanted for deep nesting, at which the C loader would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise Alias("aliases (*name) are not allowed", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > deepest:
                raise Unwanted(f"is nested more than {deepest} levels deep", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        yield event


def load(text: str) -> Any:
    """As safe_load, but raises Unwanted, also for equal keys in a mapping. It looks through all before it builds anything."""
    for _ in events(text):
        pass
    return yaml.load(text, Loader=_Loader)


def places(text: str) -> dict[tuple[tuple[str | int, ...], bool], tuple[int, int]]:
    """Line and column, both from 1, of each value of YAML or JSON that `load` accepts, by its path; with True those of the name
    of a field. The root's path is empty."""
    found: dict[tuple[tuple[str | int, ...], bool], tuple[int, int]] = {}

    def look(node: Any, path: tuple[str | int, ...]) -> None:
        found[path, False] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    inside = (*path, key.value)
                    found[inside, True] = (key.start_mark.line + 1, key.start_mark.column + 1)
                    look(value, inside)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                look(value, (*path, number))

    root = yaml.compose(text, Loader=_Loader)
    if root is not None:
        look(root, ())
    return found


class _Loader(_Safe):
    """As safe_load, but refuses equal keys in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise Unwanted("a key stands twice in a mapping", key.start_mark, key.value)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


# -- documents -----------------------------------------------------------------------------------------------------------


class Strict(BaseModel):
    """Base of the forms: no unknown fields, no values of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def of_form(pattern: str, form: str) -> AfterValidator:
    """A text that matches the pattern. The error message says `form` in place of the pattern."""
    form_of = re.compile(pattern)

    def check(text: str) -> str:
        if not form_of.fullmatch(text):
            raise ValueError(f"is not {form}")
        return text

    return AfterValidator(check)


_KEY = "[key]"
"""What pydantic appends to the place of a key."""
_WORDS = {
    "model_type": "is not a mapping",
    "model_attributes_type": "is not a mapping",
    "union_tag_not_found": "has no kind",
    "union_tag_invalid": "is of a kind that is not known here",
    "path_type": "is not a path",
    "is_instance_of": "is not a path",
    "dict_type": "is not a mapping",
    "list_type": "is not a list",
    "string_type": "is not a text (put it in quotes)",
    "int_type": "is not a whole number",
    "greater_than_equal": "is below 0",
    "less_than": "is above 999,999",
    "bool_type": "is not true or false",
    "missing": "is missing",
    "extra_forbidden": "is no field that is known here",
}
"""Plain words for pydantic's types of errors."""


def read_document(
    path: Path, form: type[F], fault: type[DdsError], where: str, fix: str, *, empty: str, hidden: Collection[str] = ()
) -> F:
    """The document. Raises `fault`: one line that begins with `where`, with the place of each fault (five at most) without the
    parts in `hidden`. `empty` is the mend for an empty file."""
    return validated(load_document(path, fault, where, fix, empty=empty), form, fault, where, fix, hidden=hidden)


def load_document(path: Path, fault: type[DdsError], where: str, fix: str, *, empty: str) -> Any:
    """The content of the file, bounded, in any form. Raises as `read_document`."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise fault(f"cannot be read: {reason_of(error)}", where=where, fix="check path and permissions") from None
    if len(data) > LARGEST:
        raise fault(f"is longer than {LARGEST >> 20} MiB", where=where, fix="shorten it") from None
    try:
        found = load(data.decode())
    except Unwanted as unwanted:
        raise fault(str(unwanted), where=where, fix=fix) from None
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark is not None else ""
        raise fault(f"is not YAML{line}", where=where, fix=fix) from None
    except (yaml.YAMLError, ValueError):
        raise fault("is not YAML", where=where, fix=fix) from None
    if found is None:  # a half-written file must not remove anything
        raise fault("is empty", where=where, fix=empty)
    return found


_FAULTY = object()
"""Stands for an entry with faults until it is taken out."""


def readable(
    found: Any, form: type[F], fault: type[DdsError], where: str, fix: str, *, hidden: Collection[str] = ()
) -> tuple[F, str]:
    """As `validated`, but without the entries of lists that have faults: these are one line ("": none)."""
    try:
        return form.model_validate(found), ""
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        told = _faults(error, hidden)
    held = [_entry(found, one["loc"]) for one in faults]
    for holder, place in held:
        holder[place : place + 1] = [_FAULTY]
    for holder, _ in held:
        holder[:] = [one for one in holder if one is not _FAULTY]
    return validated(found, form, fault, where, fix, hidden=hidden), told


def _entry(found: Any, way: tuple[int | str, ...]) -> tuple[list[Any], int]:
    """The list on the way to a fault, and its entry there; a list of nothing if the fault is in no entry of a list."""
    for part in way:
        if isinstance(found, list) and isinstance(part, int):
            return found, part
        found = found.get(part, found) if isinstance(found, dict) else found  # what pydantic adds to the way is no key
    return [], 0


def validated(
    found: Any, form: type[F], fault: type[DdsError], where: str, fix: str, *, hidden: Collection[str] = ()
) -> F:
    """The content of a file in its form. Raises as `read_document`."""
    try:
        return form.model_validate(found)
    except ValidationError as error:
        raise fault(_faults(error, hidden), where=where, fix=fix) from None


def _faults(error: ValidationError, hidden: Collection[str]) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = [_fault(one["loc"], hidden, _WORDS.get(one["type"], one["msg"])) for one in faults[:MAX_FAULTS]]
    return "; ".join(told) + (f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else "")


def _fault(place: tuple[int | str, ...], hidden: Collection[str], words: str) -> str:
    """One fault, without pydantic's prefix for dds's own checks."""
    path = ".".join(str(part) for part in place if part != _KEY and part not in hidden)
    return f"{path}: {words.removeprefix('Value error, ')}".removeprefix(": ")
