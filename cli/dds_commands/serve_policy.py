"""The policies that `dds serve` and `dds publish` run under: a file, what outweighs it, and where each field comes from.

A mode that was set (--mode, DDS_MODE) outweighs everything; then come the variables of the reference scaler, the file and the
defaults. The file is read again whenever the policy is asked for: a change of it takes effect without a restart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from dds_commands.parameters import policy_read
from dds_commands.settings import DEFAULT, Row, text
from dds_core.policy import Mode, Policy, from_reference, read_policy
from dds_core.publishing.policy import PublishMode, PublishPolicy, read_publish_policy

_P = TypeVar("_P", bound=BaseModel)


class PolicySource(Generic[_P]):
    """Call it for the policy as of now.

    `read` takes a policy apart that a person wrote, `default` is where nobody wrote one. `above` are fields that outweigh what is
    written, each with where it was set.
    """

    def __init__(
        self,
        path: str | None,
        read: Callable[[Mapping[str, Any]], _P],
        default: _P,
        above: Mapping[str, tuple[Any, str]],
    ) -> None:
        self.path = path
        self._read = read
        self._default = default
        self._above = above
        self._known: tuple[bytes, _P] | None = None

    def __call__(self) -> _P:
        """The whole policy. Raises PolicyError. Asked each second, it does not take an unchanged file apart again."""
        content = self._content()
        if self._known is not None and self._known[0] == content:
            return self._known[1]
        policy = self._written().model_copy(update={field: value for field, (value, _) in self._above.items()})
        if content is not None:
            self._known = (content, policy)
        return policy

    def _content(self) -> bytes | None:
        """None when it cannot be read: whoever takes it apart says why."""
        try:
            return Path(self.path).read_bytes() if self.path is not None else b""
        except OSError:
            return None

    def _written(self) -> _P:
        return policy_read(self.path, self._read) or self._default

    def rows(self, before: str = "") -> Iterator[Row]:
        """Every field with its value and origin; the mode as `mode`, the others as `policy.<field>`, with `before` in front.
        Raises PolicyError."""
        written = self._written()
        for field in type(self._default).model_fields:
            name = before + (field if field == "mode" else f"policy.{field}")
            if field in self._above:
                value, given = self._above[field]
                yield Row(name, text(value), given)
            else:
                given = self.path if self.path is not None and field in written.model_fields_set else DEFAULT
                yield from _flat(name, getattr(written, field), given)


def policy_source(
    path: str | None, mode: Mode | None, mode_origin: str, environment: Mapping[str, str]
) -> PolicySource[Policy]:
    """The scaler's. `mode_origin` says where `mode` was set; `environment` is looked at for the reference scaler's variables
    alone. Raises PolicyError where one of them is not valid."""
    above = {
        field: (value, f"environment {name}")
        for name in environment
        for field, value in from_reference({name: environment[name]}).items()
    }
    return PolicySource(path, read_policy, Policy(), above | _mode(mode, mode_origin))


def publish_policy_source(path: str | None, mode: PublishMode | None, mode_origin: str) -> PolicySource[PublishPolicy]:
    """The publisher's."""
    return PolicySource(path, read_publish_policy, PublishPolicy(), _mode(mode, mode_origin))


def _mode(mode: str | None, given: str) -> dict[str, tuple[Any, str]]:
    return {} if mode is None else {"mode": (mode, given)}


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
