"""GPUs in partitions (MIG), as NVIDIA's driver publishes them.

Where partitions are made on demand (its gate DynamicMIG) the whole GPU and every partition that it could have stand side by side,
and counters see to it that only what fits is given out. Where an administrator has made them before, they alone are listed, and
nothing is counted. A partition names its GPU as `parentUUID`.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (mig.go, partitions.go, deviceinfo.go); the placements are
those that `nvidia-smi mig -lgipp` lists for A100 and H100. Decoders, encoders, JPEG and OFA engines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
MEMORY_SLICES = 8
COMPUTE_SLICES = 7
MULTIPROCESSORS = 14
"""Of one compute slice."""
PROFILE = re.compile(r"([12347])g\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Shape:
    """`id` of the GPU instance profile, memory slices that it takes, and the slices at which it may begin."""

    id: int
    slices: int
    starts: tuple[int, ...]


SHAPES = {
    1: Shape(19, 1, (0, 1, 2, 3, 4, 5, 6)),
    2: Shape(14, 2, (0, 2, 4)),
    3: Shape(9, 4, (0, 4)),
    4: Shape(5, 4, (0,)),
    7: Shape(0, 8, (0,)),
}
"""By compute slices."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that a GPU has or could have; `memory` in GiB."""

    profile: str
    compute: int
    memory: int
    start: int

    @property
    def shape(self) -> Shape:
        return SHAPES[self.compute]

    def name(self, minor: int) -> str:
        return f"gpu-{minor}-mig-{self.profile.replace('.', '')}-{self.shape.id}-{self.start}"


def possible(profiles: Sequence[str]) -> list[Partition]:
    """Every partition of these profiles that a GPU could have."""
    return [one for profile in profiles for one in _placed(profile)]


def made(profiles: Sequence[str]) -> list[Partition]:
    """One partition for each of the profiles, where it fits; those that do not fit are left out."""
    found: list[Partition] = []
    for profile in profiles:
        taken = {place for one in found for place in range(one.start, one.start + one.shape.slices)}
        fits = (one for one in _placed(profile) if taken.isdisjoint(range(one.start, one.start + one.shape.slices)))
        if (one := next(fits, None)) is not None:
            found.append(one)
    return found


def _placed(profile: str) -> Iterator[Partition]:
    match = PROFILE.fullmatch(profile)
    assert match is not None, profile
    compute, memory = int(match[1]), int(match[2])
    return (Partition(profile, compute, memory, start) for start in SHAPES[compute].starts)


def described(partition: Partition, name: str, gpu: Object, serial: str, counters: str = "") -> Object:
    """The entry of a slice, after that of the whole GPU. `counters`: the set that it takes from; a partition that was made before
    takes from none and has an identity of its own."""
    attributes = {key: value for key, value in gpu["attributes"].items() if key != "uuid"}
    attributes |= {
        "type": {"string": "mig"},
        "profile": {"string": partition.profile},
        "parentUUID": {"string": serial},
    }
    if not counters:
        attributes["uuid"] = {"string": f"MIG-{serial.removeprefix('GPU-')}-{partition.shape.id}-{partition.start}"}
    capacity = {
        "memory": {"value": f"{partition.memory}Gi"},
        "multiprocessors": {"value": str(MULTIPROCESSORS * partition.compute)},
    }
    consumed = {"consumesCounters": [_consumed(partition, counters)]} if counters else {}
    return {"name": name, "attributes": attributes, "capacity": capacity, **consumed}


def counter_set(name: str, memory: str) -> Object:
    """What a whole GPU has to give."""
    return {"name": name, "counters": _all(memory)}


def whole(gpu: Object, counters: str) -> Object:
    """The entry of the whole GPU beside its partitions: it takes all there is."""
    return {
        **gpu,
        "consumesCounters": [{"counterSet": counters, "counters": _all(gpu["capacity"]["memory"]["value"])}],
    }


def _all(memory: str) -> Object:
    slices = {f"memory-slice-{place}": {"value": "1"} for place in range(MEMORY_SLICES)}
    return {"multiprocessors": {"value": str(MULTIPROCESSORS * COMPUTE_SLICES)}, "memory": {"value": memory}, **slices}


def _consumed(partition: Partition, counters: str) -> Object:
    slices = range(partition.start, partition.start + partition.shape.slices)
    taken = {
        "multiprocessors": {"value": str(MULTIPROCESSORS * partition.compute)},
        "memory": {"value": f"{partition.memory}Gi"},
        **{f"memory-slice-{place}": {"value": "1"} for place in slices},
    }
    return {"counterSet": counters, "counters": taken}
