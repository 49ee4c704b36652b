"""What an object may hold: one immutable node per position.

Built from the packed facts of built-in kinds (`packed`) or from a CustomResourceDefinition (`rules.structural`). Decoding
(`decoding`), strategic patches, field ownership and validation all walk the same nodes. This module must never know a kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MISSING: Final = object()
"""Stands where a node has no default: None is a value."""

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One position of an object.

    `type` is one of "object" (named `fields`), "map" (any key, values as `items`), "list" (of `items`), "string",
    "integer", "number", "boolean", "any", "int-or-string", "quantity", "time" (to the second), "microtime", "bytes". An
    "any" with `fields` is an object of these fields where it is an object.
    """

    type: str
    fields: Mapping[str, "Node"] = field(default_factory=lambda: EMPTY)
    items: "Node | None" = None
    """Of a list, or the values of a map (for custom resources also beside `fields`)."""
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    atomic: bool = False
    """The object or map is one value to field ownership."""
    patch_key: str = ""
    patch_strategy: str = ""
    required: tuple[str, ...] = ()
    default: Any = MISSING
    nullable: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    description: str = ""
    name: str = ""
    """Of objects of built-in kinds: the Go type, without its package, for messages."""
    bits: int = 64
    zeros: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Fields that a real server always writes, with the value that stands for nothing."""
    falsy: frozenset[str] = frozenset()
    """Optional fields that a real server leaves out when they are "", 0 or false."""
    checks: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Of custom resources: enum, minimum, maximum, minLength, pattern, format, minItems … by their OpenAPI names."""
