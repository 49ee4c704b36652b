"""What a kind of the field sees of the fleet that is being drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dds_lab.check.draw import Draw


class Ground(Protocol):
    """`written`: the scenario as a file would say it. `trouble`: seconds until the last fault is over. `left`: nodes that stay,
    by fabric. `partitioned`: the model that is cut into parts. Pods in `unservable` are not waited for."""

    written: dict[str, Any]
    trouble: float
    models: list[dict[str, Any]]
    partitioned: dict[str, Any] | None
    fabrics: list[int]
    groups: list[dict[str, Any]]
    nodes: list[str]
    left: dict[int, set[str]]
    steps: list[tuple[float, dict[str, Any]]]
    unservable: set[str]

    def claim(self, at: float, name: str, requests: list[Any], constraints: Sequence[Any] = ()) -> None: ...

    def pod(
        self,
        at: float,
        name: str,
        scheduler: str,
        lasts: float,
        claims: Sequence[str],
        limits: dict[str, str] | None = None,
        fabric: int | None = None,
    ) -> None: ...

    def blow(self, at: float, kind: Any, program: Any, lasts: float = 0.0, which: int = 0) -> None: ...


def whole_model(maker: Ground, draw: Draw) -> dict[str, Any]:
    """A model; not the one that a cluster may have only in parts, unless there is no other."""
    return draw.one([one for one in maker.models if one is not maker.partitioned] or maker.models)
