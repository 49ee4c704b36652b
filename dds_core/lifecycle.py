"""The lifecycles of a claim and of a device. Each is defined by one table, and only there.

The charts in the docs, the `transitions` machine for custom controllers, and the check in every fold are made from these tables.
A fold is one dictionary lookup; there is no machine for each claim. Nothing here reads a state.

A claim goes through Pending, Attaching, Attached, Bound and Detaching, and rests in Released or Failed. Triggers are observed,
whichever client acted; a trigger that a state does not name changes nothing. A device is one ComposableResource. Node-local
devices without a ComposableResource are fixed and have no lifecycle here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from transitions import Machine

NEW: Final = ""
"""State of a claim or device that was not seen before."""

PENDING: Final = "Pending"
ATTACHING: Final = "Attaching"
ATTACHED: Final = "Attached"
BOUND: Final = "Bound"
CLAIM_DETACHING: Final = "Detaching"
RELEASED: Final = "Released"
FAILED: Final = "Failed"

CLAIM_STATES: Final = (PENDING, ATTACHING, ATTACHED, BOUND, CLAIM_DETACHING, RELEASED, FAILED)
WAITING: Final = frozenset({PENDING, ATTACHING, ATTACHED})
"""States in which the scheduler still waits for a device, or for its pod."""


class Edge(NamedTuple):
    """One row of a table: `trigger` takes `source` to `target`. `guard` distinguishes rows with the same trigger and source."""

    trigger: str
    source: str
    target: str
    sentence: str
    guard: str = ""


_WAITS = "The scheduler allocated a pool device and waits for it on this node"
_LOCAL = "The scheduler allocated devices that are already on the node"
_GIVEN_BACK = "Its devices have no user any more"

CLAIM_TABLE: Final[tuple[Edge, ...]] = (
    Edge("allocated_pool", NEW, PENDING, f"{_WAITS}: the first cycle begins."),
    Edge("allocated_pool", RELEASED, PENDING, f"{_WAITS}: a new cycle begins."),
    Edge("allocated_pool", FAILED, PENDING, f"{_WAITS} after a failure: a new cycle begins."),
    Edge("allocated_pool", CLAIM_DETACHING, PENDING, f"{_WAITS} before the old devices went back: a new cycle begins."),
    Edge("allocated_pool", PENDING, PENDING, "Moved: another allocation from the pool took the place of this one."),
    Edge(
        "allocated_pool", ATTACHING, PENDING, "Moved: allocated again from the pool while a device was being attached."
    ),
    Edge(
        "allocated_pool", ATTACHED, PENDING, "Diverted: the hand-over landed on a pool device again, often elsewhere."
    ),
    Edge("allocated_local", NEW, ATTACHED, f"{_LOCAL}: the first cycle begins, no attach is needed."),
    Edge("allocated_local", RELEASED, ATTACHED, f"{_LOCAL}: a new cycle begins, no attach is needed."),
    Edge("allocated_local", FAILED, ATTACHED, f"{_LOCAL} after a failure: a new cycle begins."),
    Edge("allocated_local", CLAIM_DETACHING, ATTACHED, f"{_LOCAL} before the old ones went back: a new cycle begins."),
    Edge(
        "allocated_local",
        PENDING,
        ATTACHED,
        "Landed: the scheduler found devices on a node before any attach was asked.",
    ),
    Edge(
        "allocated_local",
        ATTACHING,
        ATTACHED,
        "Landed: the scheduler took devices on a node while an attach was running.",
    ),
    Edge("allocated_local", ATTACHED, ATTACHED, "Landed: the hand-over put the claim on devices of the node."),
    Edge("ordered", PENDING, ATTACHING, "A request, ours or anybody's, covers the claim: the fabric was asked."),
    Edge(
        "device_ready",
        PENDING,
        ATTACHED,
        "A free device for every result is there on its node; none had to be asked for.",
    ),
    Edge(
        "device_ready",
        ATTACHING,
        ATTACHED,
        "The devices that were asked for are there on its node and promised to nobody else.",
    ),
    Edge("signalled", PENDING, ATTACHED, "Another client signalled that the device is there; dds accepts it."),
    Edge("signalled", ATTACHING, ATTACHED, "Another client signalled that the attach is done; dds accepts it."),
    Edge("pod_bound", PENDING, BOUND, "A pod of the claim has a node: in use."),
    Edge("pod_bound", ATTACHING, BOUND, "A pod of the claim has a node while an attach was running: in use."),
    Edge("pod_bound", ATTACHED, BOUND, "A pod of the claim has a node: in use."),
    Edge("failed", PENDING, FAILED, "No device will come; this cycle ends, another allocation starts the next."),
    Edge("failed", ATTACHING, FAILED, "The attach failed or took too long; another allocation starts the next cycle."),
    Edge("failed", ATTACHED, FAILED, "The hand-over was called off; another allocation starts the next cycle."),
    Edge(
        "reservation_lost",
        PENDING,
        PENDING,
        "No pod is reserved any more: a failure, a timeout, a preemption or a restart.",
    ),
    Edge("reservation_lost", ATTACHING, ATTACHING, "No pod is reserved any more while attaching; not a release."),
    Edge("reservation_lost", ATTACHED, ATTACHED, "No pod is reserved any more: the hand-over began, or a preemption."),
    Edge("reservation_lost", FAILED, FAILED, "No pod is reserved any more after the failure was told."),
    Edge("reserved", PENDING, PENDING, "The scheduler reserved the allocation for a pod again: the wait goes on."),
    Edge("reserved", ATTACHING, ATTACHING, "Reserved for a pod again while attaching: the wait goes on."),
    Edge("reserved", ATTACHED, ATTACHED, "Reserved for a pod again: it may still be bound here."),
    Edge("reserved", FAILED, FAILED, "Reserved for a pod again although this cycle failed."),
    Edge(
        "cleared",
        PENDING,
        PENDING,
        "The allocation was taken back while a pod waits: the scheduler will allocate again.",
    ),
    Edge(
        "cleared",
        ATTACHING,
        ATTACHING,
        "The allocation was taken back while attaching: the scheduler will allocate again.",
    ),
    Edge(
        "cleared",
        ATTACHED,
        ATTACHED,
        "The allocation was taken back for the hand-over: the scheduler will allocate again.",
    ),
    Edge("cleared", FAILED, FAILED, "The failed allocation was taken back: the scheduler will allocate again."),
    Edge("released", PENDING, RELEASED, f"{_GIVEN_BACK}; nothing was ordered for it."),
    Edge("released", FAILED, RELEASED, f"{_GIVEN_BACK}; this cycle had failed."),
    Edge("released", ATTACHING, RELEASED, f"{_GIVEN_BACK}; nothing ordered for it is left.", "nothing_ordered"),
    Edge(
        "released",
        ATTACHING,
        CLAIM_DETACHING,
        f"{_GIVEN_BACK}; what was ordered for it still arrives.",
        "something_ordered",
    ),
    Edge("released", ATTACHED, CLAIM_DETACHING, f"{_GIVEN_BACK}; they idle until they go back or are used again."),
    Edge("released", BOUND, CLAIM_DETACHING, f"{_GIVEN_BACK}; they idle until they go back or are used again."),
    Edge(
        "settled",
        CLAIM_DETACHING,
        RELEASED,
        "Each device went back, was taken by another claim, is kept by policy, or its node is gone.",
    ),
)

REQUESTED: Final = "Attaching"
IDLE: Final = "Idle"
USED: Final = "Used"
MARKED: Final = "Marked"
DEVICE_DETACHING: Final = "Detaching"
GONE: Final = "Gone"

DEVICE_STATES: Final = (REQUESTED, IDLE, USED, MARKED, DEVICE_DETACHING, GONE)

DEVICE_TABLE: Final[tuple[Edge, ...]] = (
    Edge("requested", NEW, REQUESTED, "The operator made a resource for it: the fabric is being asked."),
    Edge("online", REQUESTED, IDLE, "It is attached and listed by its node, or Online; its idle clock starts."),
    Edge("taken", REQUESTED, USED, "A claim took it before it counted as there."),
    Edge("taken", IDLE, USED, "A claim's allocation names it."),
    Edge("taken", MARKED, USED, "A claim took it although it was marked to go; the mark comes off."),
    Edge("freed", USED, IDLE, "The last claim let go of it; its idle clock starts here."),
    Edge("marked", IDLE, MARKED, "It was chosen to go back to the pool; the fence starts."),
    Edge("unmarked", MARKED, IDLE, "It is wanted again or may not go; its idle clock goes on."),
    Edge("detaching", REQUESTED, DEVICE_DETACHING, "It is taken away before it was attached."),
    Edge("detaching", IDLE, DEVICE_DETACHING, "It is being taken off its node."),
    Edge("detaching", USED, DEVICE_DETACHING, "It is being taken off its node although a claim holds it."),
    Edge("detaching", MARKED, DEVICE_DETACHING, "It is being taken off its node as decided."),
    Edge("gone", REQUESTED, GONE, "Its resource is gone before it was attached."),
    Edge("gone", IDLE, GONE, "Its resource is gone without a detach, as when its node went away."),
    Edge("gone", USED, GONE, "Its resource is gone under a claim, as when its node went away."),
    Edge("gone", MARKED, GONE, "Its resource is gone."),
    Edge("gone", DEVICE_DETACHING, GONE, "It is back in the pool."),
)

_CLAIM: Final[dict[tuple[str, str, str], str]] = {(e.trigger, e.source, e.guard): e.target for e in CLAIM_TABLE}
_DEVICE: Final[dict[tuple[str, str], str]] = {(e.trigger, e.source): e.target for e in DEVICE_TABLE}


def claim_target(trigger: str, state: str, *, ordered: bool = True) -> str | None:
    """Where `trigger` takes a claim in `state`; None when that state does not name it.

    `ordered`: whether anything ordered for the claim is still under way; only `released` from Attaching depends on it.
    """
    found = _CLAIM.get((trigger, state, ""))
    if found is None:
        found = _CLAIM.get((trigger, state, "something_ordered" if ordered else "nothing_ordered"))
    return found


def claim_edge_exists(trigger: str, source: str, target: str) -> bool:
    """Whether the table has a row that takes `source` to `target` on `trigger`; every fold checks this."""
    return target in (claim_target(trigger, source), claim_target(trigger, source, ordered=False))


def device_target(trigger: str, state: str) -> str | None:
    """Where `trigger` takes a device in `state`; None when that state does not name it."""
    return _DEVICE.get((trigger, state))


Hooks = Mapping[str, Sequence[Callable[..., Any]]]


def claim_machine(model: Any = None, *, callbacks: Hooks | None = None, guards: Hooks | None = None) -> Machine:
    """A `transitions` machine of the claim's life, for custom controllers; see `machine_of`. A model may define `nothing_ordered`
    and `something_ordered`, the guards of the two `released` rows of Attaching; without them something counts as ordered."""
    return machine_of(CLAIM_TABLE, model, callbacks=callbacks, guards=guards)


def machine_of(
    table: Sequence[Edge], model: Any = None, *, callbacks: Hooks | None = None, guards: Hooks | None = None
) -> Machine:
    """A `transitions` machine of a table, for custom controllers. Its first state is "New".

    model: the object that gets a method per trigger and a `state` attribute; the machine itself when None.
    callbacks: by trigger name, called after each transition of that trigger; by state name prefixed "on_enter_" or
        "on_exit_", called on entering or leaving that state.
    guards: by trigger name; the trigger changes nothing unless all of them give true.
    Raises ValueError for a name that the table does not have.
    All get the `transitions` EventData. A trigger that a state does not name is ignored.
    """
    hooks, checks = callbacks or {}, guards or {}
    triggers = {edge.trigger for edge in table}
    states = dict.fromkeys(("New", *(state for edge in table for state in (edge.source, edge.target) if state)))
    moments = {f"{moment}_{state}" for moment in ("on_enter", "on_exit") for state in states}
    for what, known, given in (("callbacks", triggers | moments, hooks), ("guards", triggers, checks)):
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"{what} under names that the table does not have: {', '.join(unknown)}")
    machine = Machine(
        model=Machine.self_literal if model is None else model,
        states=list(states),
        initial="New",
        auto_transitions=False,
        ignore_invalid_triggers=True,
        send_event=True,
    )
    target = machine if model is None else model
    for edge in table:
        guarded = bool(edge.guard) and hasattr(target, edge.guard)
        if edge.guard == "nothing_ordered" and not guarded:
            continue
        machine.add_transition(
            edge.trigger,
            edge.source or "New",
            edge.target or "New",
            conditions=[*checks.get(edge.trigger, ()), *([edge.guard] if guarded else [])],
            after=list(hooks.get(edge.trigger, ())),
        )
    for state in states:
        for moment in ("on_enter", "on_exit"):
            for hook in hooks.get(f"{moment}_{state}", ()):
                machine.get_state(state).add_callback(moment.removeprefix("on_"), hook)
    return machine


def mermaid(table: Sequence[Edge] = CLAIM_TABLE) -> str:
    """The table as a mermaid state diagram, one line an edge, triggers of the same pair joined."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for edge in table:
        names = arrows.setdefault((edge.source or "[*]", edge.target or "[*]"), [])
        if edge.trigger not in names:
            names.append(edge.trigger)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines]) + "\n"
