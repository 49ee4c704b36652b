"""What all policies are built from: bounded types, a strict base class, and one function that reads what a person wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

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
        faults = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']) or 'policy'}: {e['msg']}" for e in error.errors()
        )
        raise PolicyError(f"{whose} is not valid: {faults}; see docs/policy.md for every field") from None
