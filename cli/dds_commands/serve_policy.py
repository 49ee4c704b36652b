"""The policy that `dds serve` runs under: a file, what outweighs it, and where each field comes from.

A mode that was set (--mode, DDS_MODE) outweighs everything; then come the variables of the reference scaler, the file and the
defaults. The file is read again whenever the policy is asked for: a change of it takes effect without a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dds_commands.parameters import policy_from
from dds_commands.settings import DEFAULT, Row, text
from dds_core.policy import Mode, Policy, from_reference


class PolicySource:
    """Call it for the policy as of now.

    `mode_origin` says where `mode` was set; `environment` is looked at for the reference scaler's variables alone.
    """

    def __init__(self, path: str | None, mode: Mode | None, mode_origin: str, environment: Mapping[str, str]) -> None:
        """Raises PolicyError where a variable is not valid."""
        self.path = path
        self._mode = mode
        self._mode_origin = mode_origin
        self._environment = environment
        self._above: dict[str, Any] = from_reference(environment) | ({"mode": mode} if mode is not None else {})
        self._known: tuple[bytes, Policy] | None = None

    def __call__(self) -> Policy:
        """The whole policy. Raises PolicyError. Asked each second, it does not take an unchanged file apart again."""
        content = self._content()
        if self._known is not None and self._known[0] == content:
            return self._known[1]
        policy = self._written().model_copy(update=self._above)
        if content is not None:
            self._known = (content, policy)
        return policy

    def _content(self) -> bytes | None:
        """None when it cannot be read: whoever takes it apart says why."""
        try:
            return Path(self.path).read_bytes() if self.path is not None else b""
        except OSError:
            return None

    def _written(self) -> Policy:
        return policy_from(self.path) or Policy()

    def rows(self) -> Iterator[Row]:
        """Every field with its value and origin; the mode as `mode`, the others as `policy.<field>`. Raises PolicyError."""
        written = self._written()
        above = {
            field: f"environment {name}"
            for name in self._environment
            for field in from_reference({name: self._environment[name]})
        }
        if self._mode is not None:
            above["mode"] = self._mode_origin
        for field in Policy.model_fields:
            name = field if field == "mode" else f"policy.{field}"
            if field in above:
                yield Row(name, text(self._above[field]), above[field])
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
