"""What all policies are built from: bounded types, a strict base class, and one function that reads what a person wrote."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dds_core.errors import PolicyError

Mode = Literal["observe", "attach", "detach"]
MODES: tuple[Mode, ...] = ("observe", "attach", "detach")
"""From the weakest to the strongest."""

Seconds = Annotated[int, Field(ge=0, le=86_400)]
PositiveSeconds = Annotated[int, Field(ge=1, le=86_400)]
Count = Annotated[int, Field(ge=0, le=10_000)]

MICROSECONDS = 1_000_000
HOUR = 3_600 * MICROSECONDS


class Strict(BaseModel):
    """Base of policies and their sections: unknown fields are errors, types are not converted, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


M = TypeVar("M", bound=Strict)

_FEW = 8
"""An error names all fields of a section that has no more than these."""


def counted(default: int, of: str, description: str) -> Any:
    """A field that counts something; `of` is the unit that the documentation shows."""
    return Field(default=default, description=description, json_schema_extra={"unit": of})


def lower(mode: str, other: str) -> Mode:
    """The weaker of two modes; an empty one is ignored. So the ConfigMap's kill switch can only lower the mode."""
    ranked = [name for name in (mode, other) if name]
    return min((m for m in MODES if m in ranked), key=MODES.index)


def read(model: type[M], written: Mapping[str, Any], whose: str = "the policy") -> M:
    """The policy that a person wrote. Raises PolicyError: one line that begins with `whose` and names each wrong field, what is
    wrong with it, and what it takes."""
    try:
        return model.model_validate_json(msgspec.json.encode(written))
    except TypeError as error:
        fix = "write numbers, texts, lists and tables"
        raise PolicyError(f"{whose} holds a value that is not plain data: {error}; {fix}") from None
    except ValidationError as error:
        faults = [_fault(model, one) for one in error.errors(include_url=False)]
        told = "; ".join(f"{words_of(path)}: {what}" for path, what, _ in faults)
        refused = PolicyError(f"{whose} is not valid: {told}", fix="see docs/policy.md for every field")
        refused.faults = faults
        raise refused from None


def logged(model: type[M], written: Mapping[str, Any]) -> M:
    """The policy that a log holds, without the fields that this version of dds does not know: a newer or an older one may have
    them. Raises PolicyError as `read`."""
    try:
        return read(model, written)
    except PolicyError as error:
        if not error.faults or not all(unknown for _, _, unknown in error.faults):
            raise
        known: Any = msgspec.json.decode(msgspec.json.encode(written))
        for path, _, _ in error.faults:
            section = known
            for part in path[:-1]:
                section = section[part]
            del section[path[-1]]
        return read(model, known)


def words_of(path: tuple[str | int, ...]) -> str:
    """The path of a field as text, such as `limits.A100 40G.max`; "policy" for all of it."""
    return ".".join(map(str, path)) or "policy"


def _fault(model: type[Strict], error: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str, bool]:
    path = error["loc"]
    if error["type"] != "extra_forbidden":
        return path, error["msg"].removeprefix("Value error, "), False
    known = _fields(model, path[:-1])
    near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
    hint = f": did you mean {near[0]}?" if near else f"; known: {', '.join(known)}" if len(known) <= _FEW else ""
    return path, f"is no field here{hint}", True


def _fields(model: Any, path: tuple[str | int, ...]) -> list[str]:
    """The names of the fields that stand at a path of a policy."""
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[str(part)].annotation if part in model.model_fields else None
        else:  # an entry of a table or a list
            model = next((one for one in reversed(get_args(model)) if one is not Ellipsis), None)
    while model is not None and not (isinstance(model, type) and issubclass(model, BaseModel)):
        model = next((one for one in get_args(model) if one is not type(None)), None)
    return list(model.model_fields) if model is not None else []
