"""A step of a claim's life: the dictionary that folds use, beside a trigger of a `transitions` machine."""

from itertools import pairwise

from transitions import Machine

from benchmarks.measure import Row, compare, contender, side_by_side
from dds_core.lifecycle import CLAIM_TABLE, NEW, claim_machine, claim_target

WALK = ("allocated_pool", "ordered", "device_ready", "pod_bound", "released", "settled")
"""The happy path, from not seen to Released; the next round starts from there."""

STATES = ("New", "Pending", "Attaching", "Attached", "Bound", "Detaching", "Released")


def _by_dictionary(walks: int) -> int:
    state = NEW
    for _ in range(walks):
        for trigger in WALK:
            state = claim_target(trigger, state) or state
    assert state == STATES[-1]
    return walks * len(WALK)


def _by_machine(machine: Machine, walks: int) -> int:
    triggers = [getattr(machine, trigger) for trigger in WALK]
    for _ in range(walks):
        for trigger in triggers:
            trigger()
    assert machine.state == STATES[-1]
    return walks * len(WALK)


def _leanest_machine() -> Machine:
    """The least that `transitions` can be asked for: only this walk, no guards, no events, nothing queued."""
    machine = Machine(states=list(STATES), initial=STATES[0], auto_transitions=False)
    for trigger, (source, target) in zip(WALK, pairwise(STATES), strict=True):
        machine.add_transition(trigger, source, target)
    machine.add_transition(WALK[0], STATES[-1], STATES[1])
    return machine


def measure(rounds: int) -> list[Row]:
    """Compare our step with two machines, the one we hand out and the leanest possible."""
    assert set(WALK) <= {edge.trigger for edge in CLAIM_TABLE}
    ours = contender("dictionary", lambda: _by_dictionary(20_000))
    full = contender("claim_machine() trigger", lambda: _by_machine(claim_machine(), 500))
    lean = contender("leanest transitions trigger", lambda: _by_machine(_leanest_machine(), 500))
    found = side_by_side([ours, full, lean], rounds)
    what = "step of the lifecycle"
    return [
        compare(what, found[ours.name], found[full.name], unit="steps", at_least=20),
        compare(what, found[ours.name], found[lean.name], unit="steps", at_least=20),
    ]
