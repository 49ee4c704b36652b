"""MIG partitions of GPUs, as NVIDIA's driver publishes them.

If partitions are made on demand (the driver's gate DynamicMIG), the driver lists the whole GPU and every possible partition side
by side, and counters ensure that only what fits together is allocated. If an administrator made partitions before, the driver
lists only these, without counters. A partition names its GPU in `parentUUID`.

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
MULTIPROCESSORS = 14  # per compute slice
PROFILE = re.compile(r"([12347])g\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Shape:
    """A GPU instance profile: its `id`, the number of memory slices that it takes, and the slices at which it may start."""

    id: int
    slices: int
    starts: tuple[int, ...]


SHAPES = {  # by number of compute slices
    1: Shape(19, 1, (0, 1, 2, 3, 4, 5, 6)),
    2: Shape(14, 2, (0, 2, 4)),
    3: Shape(9, 4, (0, 4)),
    4: Shape(5, 4, (0,)),
    7: Shape(0, 8, (0,)),
}


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
    """One partition per profile, at the first place where it fits. Profiles that do not fit are left out."""
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
    """The partition's entry in a slice, derived from the GPU's entry. `counters`: the counter set that it consumes; empty for a
    partition that was made before, which has a uuid of its own."""
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
    """The counter set of a whole GPU."""
    return {"name": name, "counters": _all(memory)}


def whole(gpu: Object, counters: str) -> Object:
    """The whole GPU's entry beside its partitions: it consumes all counters."""
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
