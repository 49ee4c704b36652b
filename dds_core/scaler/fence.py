"""The fence around a victim: the device is marked, so that the operator takes it before others, and no claim may get it.

A device with a hold is allocated, so no scheduler can give it away. For one without, what schedulers have chosen already must
have been written: the fence settles first. Then all claims are listed, and if none has the device, its detach may be ordered.
An order that is called off before its device came, and a device that no node lists, have a fence without a name: no list is made.

Below: the table of its stages, the folds that take it from one to the next, and the steps that it takes by itself. Whether the
device may go at all, and when the size of its request is lowered, is for the rules of detaches to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from dds_core.kit.deadlines import Deadline, DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.stages import NONE, Stages, each
from dds_core.kit.state import Key
from dds_core.lifecycle import Edge
from dds_core.model import AttachRequest, DeviceKey, FabricResource
from dds_core.scaler.events import ClaimsListWanted, DetachOrdered, VictimMarked
from dds_core.scaler.model import NO_DEVICE, Fence
from dds_core.scaler.state import State, Work

FENCED, LISTING, CONFIRMED, ORDERED = "fenced", "listing", "confirmed", "ordered"
_ANY = (FENCED, LISTING, CONFIRMED, ORDERED)

FENCE = Stages(
    "fence",
    (
        Edge("marked", NONE, FENCED, "A device was chosen to go: it is marked."),
        *each(
            "marked",
            (FENCED, LISTING, CONFIRMED),
            FENCED,
            "A new process finds no mark: it is written again, and its time begins anew.",
        ),
        Edge("marked", ORDERED, ORDERED, "The same; that its detach is ordered stands."),
        Edge("list_wanted", FENCED, LISTING, "It has settled, and the list of all claims is requested."),
        Edge("list_wanted", ORDERED, ORDERED, "The same after a restart, in case the detach is called off."),
        Edge("listed", LISTING, CONFIRMED, "A list that began after the settling has come."),
        Edge("listed", ORDERED, ORDERED, "The same, in case the detach is called off."),
        Edge("ordered", CONFIRMED, ORDERED, "No claim has the device: the size of its request is lowered."),
        *each(
            "ordered", (NONE, FENCED), ORDERED, "The size is lowered for what has no device, or none that is listed."
        ),
        Edge("passed_over", ORDERED, ORDERED, "The operator goes on without it: a larger size may keep it no more."),
        Edge("voided", ORDERED, CONFIRMED, "The size was not lowered: the detach may be ordered again."),
        Edge("voided_listing", ORDERED, LISTING, "The same after a restart, while the list is awaited."),
        Edge("voided_unlisted", ORDERED, FENCED, "The same after a restart, or of what has no name to be listed."),
        *each("unmarked", (NONE, *_ANY), NONE, "The device is kept: the mark is removed, also one without a fence."),
        *each("mark_refused", (FENCED, LISTING, CONFIRMED), NONE, "The mark was not written: the device is no victim."),
        Edge("mark_refused", ORDERED, ORDERED, "The same, but it is about to go: only a larger size keeps it."),
        *each("gone", _ANY, NONE, "The device has left, or its resource is gone."),
        Edge("found_lowered", ORDERED, ORDERED, "A new process finds the size still lowered: the device can only go."),
        *each("restarted", _ANY, FENCED, "A new process did not watch it: it begins anew."),
    ),
    decided=("marked", "ordered"),
)

# -- folds -------------------------------------------------------------------------------------------------------------


def stage_of(fence: Fence | None) -> str:
    if fence is None:
        return NONE
    return ORDERED if fence.ordered else CONFIRMED if fence.confirmed else LISTING if fence.wanted else FENCED


def _to(state: State, uid: str, trigger: str, begun: Fence | None = None, **changes: Any) -> None:
    """Take the device's fence to the next stage, which its fields say; `begun` is a new one."""
    FENCE.take(state.give_back.fences, uid, trigger, stage_of, lambda row, stage: replace(row, **changes), begun)


def marked(state: State, event: VictimMarked, at: int) -> None:
    resource, key = state.fleet.resources.get(event.resource), (event.driver, event.pool, event.device)
    found, held = state.give_back.fences.get(event.resource), event.resource in state.give_back.holds
    lowered = found is not None and found.ordered
    row = Fence(at, key, resource.request if resource else "", ordered=lowered, held=held)
    _to(state, event.resource, "marked", row)


def unmarked(state: State, uid: str) -> None:
    _to(state, uid, "unmarked")


def mark_refused(state: State, uid: str) -> None:
    _to(state, uid, "mark_refused")


def gone(state: State, uid: str) -> None:
    _to(state, uid, "gone")


def list_wanted(state: State, uid: str, at: int) -> None:
    _to(state, uid, "list_wanted", wanted=True, settled=at)


def listed(state: State, uid: str, started: int, at: int) -> None:
    """A list of all claims has come that began at `started`."""
    fence = state.give_back.fences.get(uid)
    if fence is not None and fence.wanted and not fence.confirmed and started >= fence.settled:
        _to(state, uid, "listed", confirmed=at)
        state.touch_device(uid)


def ordered(state: State, event: DetachOrdered, at: int) -> None:
    for uid in event.victims:
        if uid in state.give_back.fences:
            _to(state, uid, "ordered", ordered=True, passed=0)
        elif event.unattached:
            _to(state, uid, "ordered", Fence(at, NO_DEVICE, event.request, ordered=True))


def passed_over(state: State, request: AttachRequest, at: int) -> None:
    """Note the victims that the operator leaves out: it keeps resources by name, and may have deleted the others, though the news
    of it, which comes by another watch, is not here."""
    names, rows = request.planned, state.fleet.resources.rows
    there = [uid for uid in state.fleet.resources_of_request[request.name] if uid in state.give_back.fences]
    if not there or (names is None and request.state != "Running"):
        return
    staying = sum(not rows[uid].leaving for uid in state.fleet.resources_of_request[request.name])
    fewer = request.acted_size is not None and request.acted_size < staying
    for uid in sorted(there):
        fence = state.give_back.fences.rows[uid]
        if fence.ordered and not fence.passed and (fewer if names is None else rows[uid].name not in names):
            _to(state, uid, "passed_over", passed=at)


def voided(state: State, request: str) -> None:
    """The size of the request was not lowered."""
    for uid, fence in list(state.give_back.fences.rows.items()):
        if fence.request == request and fence.ordered:
            trigger = "voided" if fence.confirmed else "voided_listing" if fence.wanted else "voided_unlisted"
            _to(state, uid, trigger, ordered=False)


def restarted(state: State, unseen: set[Key], at: int) -> None:
    """After a restart, fences start again, because the process that watched them is gone; missing marks are written again. An
    ordered detach stays ordered while the size is lowered: the device can only go, or be kept by a larger size."""
    for uid, fence in list(state.give_back.fences.rows.items()):
        resource = state.fleet.resources.get(uid)
        if resource is None:
            gone(state, uid)
            continue
        lowered = fence.ordered and _is_lowered(state, fence.request)
        trigger = "found_lowered" if lowered else "restarted"
        _to(state, uid, trigger, since=at, wanted=False, confirmed=0, ordered=lowered)
        unseen.add((ClaimsListWanted.__name__, uid))
        if not resource.marked and (resource.uuid or resource.fabric_id):  # an order in vain was called off without
            unseen.add((VictimMarked.__name__, uid))


def _is_lowered(state: State, name: str) -> bool:
    """Whether the request asks for less than the number of its resources that stay: the operator may detach one at any moment."""
    request = state.fleet.request(name)
    owned = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[name])
    return request is not None and request.size < sum(not one.leaving for one in owned)


# -- rules -------------------------------------------------------------------------------------------------------------

FENCE_SETTLE = 30 * MICROSECONDS
"""A fence without a hold stands so long before a LIST confirms it: longer than a scheduler takes from a choice to its write."""
VICTIM_STUCK = 600 * MICROSECONDS
"""Microseconds after which a victim no longer holds up others: one that no slice lists, or whose size cannot be lowered."""


PASSED = 30 * MICROSECONDS
"""So long after the operator was seen to go on without a victim its delete may come, though the operator says that it is done."""


def list_due(fence: Fence) -> int:
    """The instant from which a LIST confirms the fence. A held device is allocated, and was so before it was marked: no scheduler
    can give it away, so the LIST only has to begin later. Without a hold, what schedulers have chosen already must have been
    written."""
    return fence.since if fence.held else fence.since + FENCE_SETTLE


def mark(work: Work, resource: FabricResource, key: DeviceKey, reason: str) -> bool:
    """Mark the device as a victim, under the name `key` (NO_DEVICE if no node lists it)."""
    return work.emit_once(
        VictimMarked(
            resource=resource.uid,
            mode=work.state.mode,
            name=resource.name,
            node=resource.node,
            model=resource.model,
            uuid=resource.uuid,
            driver=key[0],
            pool=key[1],
            device=key[2],
            reason=reason,
            idle_since=work.state.lifecycle.devices.rows[resource.uid].idle_since,
        ),
        resource.uid,
    )


def ask_for_list(work: Work, uid: str, fence: Fence) -> None:
    """Request the list that the fence waits for."""
    if fence.named and not fence.wanted and work.has_come(list_due(fence)):
        work.emit_once(ClaimsListWanted(resource=uid, mode=work.state.mode, fenced=fence.since), uid)


def mark_again(work: Work, uid: str) -> None:
    """After a restart: mark a victim whose fence stands and whose mark was not written."""
    state = work.state
    resource, fence = state.fleet.resources.rows[uid], state.give_back.fences.get(uid)
    if (VictimMarked.__name__, uid) in state.notes.reissue and fence is not None and not resource.marked:
        mark(work, resource, fence.key, "it was marked before the restart")


def due(state: State, uid: str) -> Iterator[Deadline]:
    """When a list confirms the fence of a device, and when a victim that could not go for long is let go of."""
    fence = state.give_back.fences.get(uid)
    if fence is None:
        return
    fired = state.notes.fired_deadlines.get((DeadlineKind.STUCK, uid)) or 0
    if fence.passed and fence.passed + PASSED > fired:
        yield Deadline(fence.passed + PASSED, DeadlineKind.STUCK, uid)
    if not fence.named:
        return
    if not fence.wanted:
        yield Deadline(list_due(fence), DeadlineKind.FENCE, uid)
    if not fence.ordered:
        dues = (fence.since + VICTIM_STUCK, fence.confirmed + VICTIM_STUCK if fence.held and fence.confirmed else 0)
        if stuck := next((due for due in dues if due > fired), None):
            yield Deadline(stuck, DeadlineKind.STUCK, uid)
