"""How the devices of a pool are spread over slices, and at which generation, so that a change of one device changes one slice.

Pure functions. The scheduler takes nothing from a pool of which it does not see all slices at the highest generation (Kubernetes
1.36, structured allocator), so the generation is raised only if more than one write is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dds_core.publisher.describe import in_order, slice_name
from dds_core.publisher.model import SLICE_DEVICES, TAINTED_SLICE_DEVICES, PoolSlice, SliceLayout


def laid_out(
    pool: str, driver: str, names: set[str], before: Sequence[SliceLayout], *, tainted: bool
) -> tuple[SliceLayout, ...]:
    """The slices of a pool with these devices. A device stays in its slice if there is room; an empty pool has one slice."""
    room = TAINTED_SLICE_DEVICES if tainted else SLICE_DEVICES
    slices: dict[str, list[str]] = {}
    left = set(names)
    for one in before:
        staying = in_order(name for name in one.devices if name in left)[:room]
        left.difference_update(staying)
        slices[one.name] = staying
    for name in in_order(left):
        place = next((key for key, some in slices.items() if len(some) < room), None)
        if place is None:
            place = _next_name(pool, driver, slices)
            slices[place] = []
        slices[place].append(name)
    kept = {key: some for key, some in slices.items() if some}
    if not kept:
        first = next(iter(sorted(slices)), slice_name(pool, driver, 0))
        kept = {first: []}
    return tuple(SliceLayout(key, tuple(in_order(kept[key]))) for key in sorted(kept))


def with_closed(slices: Iterable[SliceLayout], names: set[str]) -> tuple[SliceLayout, ...]:
    """The slices with these of their devices closed; none in a slice that is too large for taints: such a pool has so many free
    devices that no claim waits for a returned one."""
    return tuple(
        SliceLayout(one.name, one.devices, tuple(name for name in one.devices if name in names))
        if len(one.devices) <= TAINTED_SLICE_DEVICES
        else one
        for one in slices
    )


def _next_name(pool: str, driver: str, taken: Iterable[str]) -> str:
    used, index = set(taken), 0
    while (name := slice_name(pool, driver, index)) in used:
        index += 1
    return name


def as_layout(slices: Iterable[PoolSlice]) -> tuple[SliceLayout, ...]:
    """Existing slices as a layout to start from."""
    return tuple(SliceLayout(one.name, one.devices) for one in slices)


def generation(
    live: Sequence[PoolSlice],
    wanted: Sequence[SliceLayout],
    same: Callable[[int, PoolSlice], bool],
    floor: int,
    *,
    again: bool,
) -> int:
    """The generation to publish at: the present one if one write or none is needed, else the next.

    `same`: whether a live slice is as wanted at this place, generation and number of slices aside. `floor`: the generation
    decided last. `again`: that decision was for exactly this pool, and the cluster has never shown it: then keep `floor`, since
    only the watch may be behind, and slices that are there must not be written once more.
    """
    newest = max((one.generation for one in live), default=0)
    if again and newest < floor:
        return floor
    by_name = {one.name: one for one in live}
    writes = len(by_name.keys() - {one.name for one in wanted})
    for place, one in enumerate(wanted):
        found = by_name.get(one.name)
        current = found is not None and (found.generation, found.slices) == (newest, len(wanted))
        writes += not (found is not None and current and same(place, found))
    if live and writes <= 1 and newest >= floor:
        return newest
    return max(newest, floor) + 1
