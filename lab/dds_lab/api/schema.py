"""Schemas: one immutable node for each position of an object.

`packed` builds the nodes of built-in kinds, `rules.structural` those of a CustomResourceDefinition. Decoding (`decoding`),
strategic patches, field ownership and validation walk the same nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MISSING: Final = object()
"""Means no default, since None is a value."""

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One position of an object. `type` is "object" (with `fields`), "map" (any key, values as `items`), "list" (of `items`),
    "string", "integer", "number", "boolean", "any", "int-or-string", "quantity", "time" (to the second), "microtime" or
    "bytes". `fields` of an "any" apply if the value is an object."""

    type: str
    fields: Mapping[str, "Node"] = field(default_factory=lambda: EMPTY)
    items: "Node | None" = None
    """The items of a list or the values of a map (for custom resources also beside `fields`)."""
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    atomic: bool = False
    """For field ownership the object or map is one value."""
    patch_key: str = ""
    patch_strategy: str = ""
    required: tuple[str, ...] = ()
    default: Any = MISSING
    nullable: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    description: str = ""
    name: str = ""
    """The Go type without its package, for messages. Only objects of built-in kinds have it."""
    bits: int = 64
    zeros: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Fields that a real server always writes, with their zero value."""
    falsy: frozenset[str] = frozenset()
    """Optional fields that a real server leaves out if they are "", 0 or false."""
    checks: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Custom resources only: enum, minimum, maximum, minLength, pattern, format, minItems … by their OpenAPI names."""
