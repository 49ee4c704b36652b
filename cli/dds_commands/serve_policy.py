"""The policy that `dds serve` runs under: a file, what outweighs it, and where each field comes from.

A mode that was set (--mode, DDS_MODE) outweighs everything; then come the variables of the reference scaler, the file and the
defaults. The file is read again whenever the policy is asked for: a change of it takes effect without a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from dds_commands.parameters import policy_from
from dds_commands.settings import DEFAULT, Row, text
from dds_core.policy import Mode, Policy, from_reference


@dataclass(frozen=True)
class PolicySource:
    """`mode_origin` says where `mode` was set; `environment` is looked at for the reference scaler's variables alone."""

    path: str | None
    mode: Mode | None
    mode_origin: str
    environment: Mapping[str, str]

    def __call__(self) -> Policy:
        """The whole policy as of now. Raises PolicyError."""
        written = policy_from(self.path) or Policy()
        above = from_reference(self.environment)
        if self.mode is not None:
            above["mode"] = self.mode
        return written.model_copy(update=above)

    def rows(self) -> Iterator[Row]:
        """Every field with its value and origin; the mode as `mode`, the others as `policy.<field>`. Raises PolicyError."""
        written = policy_from(self.path) or Policy()
        above = {
            field: f"environment {name}"
            for name in self.environment
            for field in from_reference({name: self.environment[name]})
        }
        if self.mode is not None:
            above["mode"] = self.mode_origin
        effective = self()
        for field in Policy.model_fields:
            name = field if field == "mode" else f"policy.{field}"
            if field in above:
                yield Row(name, text(getattr(effective, field)), above[field])
            else:
                given = self.path if self.path is not None and field in written.model_fields_set else DEFAULT
                yield from _flat(name, getattr(written, field), given)


def _flat(name: str, value: object, given: str) -> Iterator[Row]:
    """One row for each single value; `given` says where the whole comes from, of which a part may still be a default."""
    if isinstance(value, BaseModel):
        for field in type(value).model_fields:
            origin = given if field in value.model_fields_set else DEFAULT
            yield from _flat(f"{name}.{field}", getattr(value, field), origin)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner, given)
    elif isinstance(value, dict | tuple):
        yield Row(name, json.dumps(value), given)
    else:
        yield Row(name, text(value), given)
