"""What one who decides has to do with, as it sees it: a policy, a picture, what arrives, who looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from dds_adapters.live.pen import Committed
from dds_core.component import Pictured
from dds_core.errors import DdsError
from dds_core.events import Event


class Effective(Protocol):
    """A policy that is valid."""

    @property
    def mode(self) -> str: ...
    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Passed(Protocol):
    """The deadlines that have come back."""

    def put(self, key: tuple[str, str], row: int, /) -> object: ...


class Lived(Pictured, Protocol):
    """A picture that is lived by: it says under which policy, in which mode, and which instants have passed."""

    @property
    def policy(self) -> Any: ...
    @property
    def mode(self) -> str: ...
    @property
    def passed(self) -> Passed: ...


class Arriving(Protocol):
    """Something that came, and when, in microseconds."""

    @property
    def at(self) -> int: ...


class Translating(Protocol):
    """Objects of the API server to facts, against one picture."""

    def translate(self, resource: str, type: str, raw: bytes) -> Iterable[Event]: ...


P = TypeVar("P", bound=Lived)
P_contra = TypeVar("P_contra", contravariant=True)


class Watcher(Protocol[P_contra]):
    """Is told of every commit, on the thread that decides: metrics, log lines."""

    def committed(self, steps: Sequence[Committed], picture: P_contra, /) -> None: ...


Told = Callable[[DdsError], None]
"""Is told what went wrong with one thing while everything else goes on."""
