"""A column of the tables that kubectl prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """`path` is a simple JSONPath (".spec.size"); `type` an OpenAPI type or "date", whose values are shown as ages."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
