"""Events to write and to read back: lives of claims as the engine logs them, all made from counters, never from chance.

One life is `EVENTS_A_CLAIM` events in five groups, a fact with the transition that it caused. Lives are interleaved as
in a busy cluster: a block of claims goes through each step together.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from dds_core.events import ClaimObserved, Event, difference, encode
from dds_core.lifecycle import NEW, claim_target
from dds_core.log import Group, NewEvent
from dds_core.model import Allocation, Alternative, Claim, ClaimRequest, Condition, Consumer, Result
from dds_core.scaler.events import ClaimMoved

START = 1_767_225_600_000_000  # 2026-01-01 UTC
SECOND = 1_000_000
EVENTS_A_CLAIM = 10
BLOCK = 50
CONDITION = "FabricDeviceReady"
CAUSE = "the scheduler chose fabric-a100/a100-3 on node-17"

_POOL = Result("gpu", "gpu.example.com", "fabric-a100", "a100-3", (CONDITION,), ("FabricDeviceFailed",))
_POD = (Consumer("5a0c1d2e-0000-4000-8000-000000000017", "train-17"),)
_NEW = Claim("", "team-a", "", START, requests=(ClaimRequest("gpu", alternatives=(Alternative("a100"),)),))
_ALLOCATED = replace(_NEW, allocation=Allocation((_POOL,), "node-17", "", START), consumers=_POD)
_READY = replace(_ALLOCATED, conditions=(Condition("gpu.example.com", "fabric-a100", "a100-3", CONDITION, "True"),))
_STEPS = (
    ("allocated_pool", _ALLOCATED),
    ("ordered", replace(_ALLOCATED, consumers=())),
    ("device_ready", _READY),
    ("pod_bound", replace(_READY, consumers=())),
    ("released", _NEW),
)


def uid_of(claim: int) -> str:
    """A UID that looks like one, so that keys have their usual length."""
    return f"{claim:08x}-c1a1-4000-8000-{claim:012x}"


def groups(claims: int, first: int = 0) -> Iterator[Group]:
    """Yield the groups of the lives of `claims` claims, ordinals from 0."""
    ordinal = 0
    for start in range(first, first + claims, BLOCK):
        state, before = NEW, None
        for step, (trigger, after) in enumerate(_STEPS):
            target = claim_target(trigger, state)
            change = difference(before, after)
            assert target is not None and isinstance(change, ClaimObserved)
            for claim in range(start, min(start + BLOCK, first + claims)):
                at = START + (claim * len(_STEPS) + step) * SECOND
                fact = ClaimObserved(uid_of(claim), change.changes)
                moved = ClaimMoved(fact.uid, trigger, state, target, 1, 1, CAUSE)
                yield Group(ordinal, (new_event(fact, at), new_event(moved, at, state, target)))
                ordinal += 1
            state, before = target, after


def new_event(event: Event, at: int, source: str | None = None, target: str | None = None) -> NewEvent:
    """Encode an event as a writer does."""
    return NewEvent(event.subject, type(event).__name__, 1, at, encode(event), source, target)


def batches(claims: int, events: int, first: int = 0) -> Iterator[list[Group]]:
    """Yield the same groups in lists that hold `events` events each."""
    batch: list[Group] = []
    for group in groups(claims, first):
        batch.append(group)
        if len(batch) * len(group.events) >= events:
            yield batch
            batch = []
    if batch:
        yield batch
