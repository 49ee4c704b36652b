"""Builds the causes in a server's answers: reason, message, and path of the field (a string)."""

import json
from collections.abc import Iterable
from typing import Any

from dds_lab.api.status import Cause


def shown(value: Any) -> str:
    """A value as messages show it: JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def invalids(field: str, value: Any, problems: Iterable[str]) -> list[Cause]:
    """One cause for each problem with a value."""
    return [invalid(field, value, problem) for problem in problems]


def not_supported(field: str, value: Any, known: Iterable[str]) -> Cause:
    names = ", ".join(f'"{name}"' for name in known)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {names}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause(
        "FieldValueTooMany", f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}", field
    )


def too_long(field: str, most: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def not_found(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def type_invalid(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {why}", field)


def immutable(field: str, value: Any) -> Cause:
    return invalid(field, value, "field is immutable")
