"""A cluster that anybody may change in any way: the truth that a stream of facts tells about.

A `Move` is a verb and three small numbers, which the verb takes modulo whatever there is: a stream of moves is what
hypothesis generates and shrinks; `places` and `verbs` hold them. Nothing here knows the rules or the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from dds_core.model import DeviceKey, Model, Observed

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
PREFIX = "cohdi.io"
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"

A100 = Model(1, "A100 40G", "nvidia-a100-40", NVIDIA, {"productName": "NVIDIA A100 40GB"})
H100 = Model(2, "H100 80G", "nvidia-h100-80", NVIDIA, {"productName": "NVIDIA H100 80GB"}, conflicts=(3,))
MI300 = Model(3, "MI300X", "amd-mi300x", AMD, {"product": "MI300X"})
MODELS = (A100, H100, MI300)
NODES = ("node0", "node1")
CLAIMS, PODS, RESOURCES, UUIDS = 5, 5, 6, 5

Kind = type[Observed]
Thing = TypeVar("Thing", bound=Observed)


class Move(NamedTuple):
    """One thing that happens."""

    verb: str
    a: int = 0
    b: int = 0
    c: int = 0


class Cluster:
    """The objects by kind and uid; `now` is the instant that new objects carry."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Kind, str], Observed] = {}
        self.now = START
        self.made = 0
        self.guarded: set[DeviceKey] = set()

    def get(self, kind: type[Thing], uid: str) -> Thing | None:
        of: Any = kind
        found: Any = self.objects.get((of, uid))
        return found  # type: ignore[no-any-return]

    def all(self, kind: type[Thing]) -> list[Thing]:
        found: list[Any] = [one for (k, _), one in self.objects.items() if k is kind]
        return sorted(found, key=lambda one: one.uid)

    def put(self, one: Observed) -> None:
        self.objects[(type(one), one.uid)] = one

    def update(self, one: Observed, **fields: Any) -> None:
        self.put(replace(one, **fields))

    def drop(self, one: Observed | None) -> None:
        if one is not None:
            del self.objects[(type(one), one.uid)]

    def named(self, kind: type[Thing], name: str) -> Thing | None:
        return next((one for one in self.all(kind) if getattr(one, "name", "") == name), None)

    def number(self) -> int:
        self.made += 1
        return self.made


Verb = Callable[[Cluster, int, int, int], None]
"""What happens to a cluster, by three small numbers."""
