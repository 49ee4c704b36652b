"""Old events for new code: pure steps from version n of an event type to n+1, applied when an event is read.

Stored bytes never change. The registry is made once, at import, and refuses a chain with a missing or a superfluous
step, so a gap is found before any event is. A step gets the decoded JSON object of an event and gives a new one; it
must change neither its argument nor anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from dds_core.errors import UnknownEvent, UpcastError

Data = dict[str, Any]
Step = Callable[[Data], Data]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Upcasts:
    """`current` names the newest version of each type, `steps[type, n]` goes from version n to n+1; raises
    `UpcastError` on a gap."""

    def __init__(
        self, current: Mapping[str, int], steps: Mapping[tuple[str, int], Step] = MappingProxyType({})
    ) -> None:
        wanted = {(name, version) for name, newest in current.items() for version in range(1, newest)}
        for name, version in sorted(wanted ^ steps.keys()):
            problem = "is missing" if (name, version) in wanted else "leads nowhere"
            raise UpcastError(
                f"the step of {name} from version {version} to {version + 1} {problem}",
                fix="register exactly one step for every version before the current one",
            )
        self._current = dict(current)
        self._steps = dict(steps)

    def is_current(self, type: str, version: int) -> bool:
        """Whether stored bytes of this version can be decoded as they are."""
        return self._current.get(type) == version

    def __call__(self, type: str, version: int, data: Data) -> Data:
        """The data as the current version has them; raises `UnknownEvent` for a type or version that this
        code does not know."""
        newest = self._current.get(type)
        if newest is None or not 1 <= version <= newest:
            known = f"up to version {newest}" if newest else "not at all"
            raise UnknownEvent(
                f"event {type} version {version}; this version of dds knows the type {known}",
                fix="read the log with the version of dds that wrote it, or a newer one",
            )
        for step in range(version, newest):
            data = self._steps[type, step](data)
        return data

    def decoded(self, type: str, version: int, data: bytes) -> Data:
        """The stored bytes decoded and brought to the current version."""
        return self(type, version, _decode(data))
