"""What an object may hold: one immutable node per position.

Built from the facts of built-in kinds (`schema_data`) or from a CustomResourceDefinition (`rules.structural`). Decoding,
strategic patches, field ownership and validation all walk the same nodes. This module must never know a kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MISSING: Final = object()
"""Stands where a node has no default: None is a value."""

_NO_FIELDS: Mapping[str, "Node"] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One position of an object.

    `type` is one of "object" (named `fields`), "map" (any key, values as `items`), "list" (of `items`), "string",
    "integer", "number", "boolean", "any", "int-or-string", "quantity", "time" (to the second), "microtime", "bytes".
    """

    type: str
    fields: Mapping[str, "Node"] = _NO_FIELDS
    items: "Node | None" = None
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    atomic: bool = False
    patch_key: str = ""
    patch_strategy: str = ""
    required: tuple[str, ...] = ()
    default: Any = MISSING
    nullable: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    description: str = ""
    checks: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Of custom resources: enum, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength,
    pattern, format, minItems, maxItems, uniqueItems, minProperties, maxProperties, by their OpenAPI names."""
