"""Semantic versions 2.0.0, as in attributes of devices and in the selectors' `semver()`: parsing and order."""

from __future__ import annotations

import re
from functools import lru_cache

from dds_core.errors import InputError

Order = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]
"""A sort key: the three numbers; a pre-release before its release; its parts by number or by text."""

_NUMBER = r"0|[1-9]\d*"
_PART = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_FORM = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)


class Version(str):
    """An attribute of type version. Constraints never treat it as equal to a string attribute of the same text."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def order(text: str) -> Order:
    """The sort key of a version; build metadata are ignored. InputError when the text is no version."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(f"{text[:80]!r} is no semantic version", fix="write three numbers, as 1.2.3 or 1.2.3-rc.1")
    major, minor, patch, pre = found.group(1, 2, 3, 4)
    parts = tuple(_part(part) for part in pre.split(".")) if pre else ()
    return int(major), int(minor), int(patch), not parts, parts


def canonical(text: str) -> str:
    """The version without its build metadata, so that equal versions have equal texts. InputError as in `order`."""
    order(text)
    return text.partition("+")[0]


def normalized(text: str) -> str:
    """A short version completed: `v1.2` → `1.2.0`, `01.2.3` → `1.2.3`. A text that is no version even so is refused by `order`.

    As `semver(text, true)` of Kubernetes: a version with a pre-release or build metadata must have all three numbers.
    """
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]) is None:
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1].isdigit() else f"0{rest}"


def _part(part: str) -> tuple[bool, int, str]:
    return (False, int(part), "") if part.isdigit() else (True, 0, part)
