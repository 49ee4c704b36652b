"""Level, not edge: what is told twice, in another order, or missed and listed again changes nothing but latency.

What two ways to the same cluster may leave different, and why: `now`, `synced_at`, `level_at`, `epoch` and the instants in
rows (`since`, `began`, `idle_since`) say when things were learned; `passed`, `shown`, `counters`, `rates`, `timeouts`,
`skew`, `erring` and cycle and attempt numbers are history; which of two equal claims got which of two equal devices is
decided by who came first, and a promise once made stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dds_core.events import difference
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    Consumer,
    Device,
    FabricResource,
    Observed,
    Pod,
    Result,
    Slice,
)
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.deciding import decide
from dds_core.scaler.state import State, dump, load
from tests.property import invariants
from tests.property.cluster import A100, H100, MI300, NODES, START, Cluster, Kind, Move
from tests.property.places import furnished
from tests.property.run import POLICIES, Run, differences
from tests.property.streams import QUICK, SOAK, chaos, cooperation, modes, objects, policies
from tests.property.verbs import do, pool_result
from tests.support.passes import nothing_left
from tests.support.plain import plain
from tests.support.world import asks, class_of


class Size(NamedTuple):
    """How much of everything a cell (node, model) gets in the end."""

    claims: int
    requested: int
    attaching: int
    online: int


Chain = list[Observed]
"""The states of one object in their order."""


def chains(sizes: list[Size], bound: int) -> list[Chain]:
    """The objects of up to four cells, and `bound` claims whose pods run on devices of the third model."""
    cells = [(node, model) for node in NODES for model in (A100, H100)]
    found: list[Chain] = []
    slices: dict[str, list[Slice]] = {}
    for (node, model), size in zip(cells, sizes, strict=False):
        tag = f"{node}-{model.device}"
        for i in range(size.claims):
            found += _waiting(f"{tag}-{i}", node, pool_result(model, i))
        request = AttachRequest(f"request-{tag}", f"composability-{tag}", "composability-", {}, START, type="gpu")
        request = replace(request, model=model.model, size=size.requested, node=node)
        found.append([request, replace(request, state="Running", acted_size=size.requested)])
        for i in range(min(size.attaching + size.online, size.requested)):
            one = FabricResource(f"{tag}-{i}", f"{tag}-{i}", request.name, START + i, type="gpu", model=model.model)
            one = replace(one, node=node)
            steps: Chain = [
                one,
                replace(one, state="Attaching"),
                replace(one, state="Attaching", uuid=f"GPU-{tag}-{i}"),
            ]
            if i < size.online:
                steps.append(replace(one, state="Online", uuid=f"GPU-{tag}-{i}"))
                device = Device({**model.attributes, "uuid": f"GPU-{tag}-{i}"})
                _list(slices.setdefault(f"{node}-{model.driver}", []), node, model.driver, f"gpu-{tag}-{i}", device)
            found.append(steps)
    for i in range(bound):
        node = NODES[i % 2]
        device = Device({**MI300.attributes, "uuid": f"GPU-fixed-{i}"})
        _list(slices.setdefault(f"{node}-{MI300.driver}", []), node, MI300.driver, f"gpu-fixed-{i}", device)
        found += _running(f"fixed-{i}", node, Result("r0", MI300.driver, node, f"gpu-fixed-{i}"))
    return found + [list(chain) for chain in slices.values()]


def _waiting(name: str, node: str, result: Result) -> list[Chain]:
    models = [class_of(model) for model in (A100, H100, MI300) if result.pool.startswith(model.device)]
    wanted = asks("r0", result.driver, selectors=tuple(text for one in models for text in one.selectors))
    claim = Claim(f"claim-{name}", "default", name, START + len(name), requests=(wanted,))
    pod = Pod(f"pod-{name}", "default", name, phase="Pending", scheduler="default-scheduler", claims=(name,))
    allocated = replace(
        claim, allocation=Allocation((result,), node, timestamp=START), consumers=(Consumer(pod.uid, pod.name),)
    )
    return [[claim, allocated], [pod, replace(pod, nominated=node)]]


def _running(name: str, node: str, result: Result) -> list[Chain]:
    (claim, allocated), (pod, nominated) = _waiting(name, node, result)
    return [[claim, allocated], [pod, nominated, replace(pod, node=node, phase="Running")]]


def _list(chain: list[Slice], node: str, driver: str, name: str, device: Device) -> None:
    uid = f"local-{node}-{driver}"
    known = chain[-1] if chain else Slice(uid, uid, driver, node, 1, 1, node)
    chain.append(replace(known, generation=known.generation + 1, devices={**known.devices, name: device}))


def interleaved(chains: list[Chain], random: Random) -> list[Observed]:
    """One order of all states in which each object keeps its own."""
    turns = [index for index, chain in enumerate(chains) for _ in chain]
    random.shuffle(turns)
    left = [iter(chain) for chain in chains]
    return [next(left[index]) for index in turns]


def facts(states: list[Observed], skip: Callable[[int], bool] = lambda place: False) -> list[e.Event]:
    """The differences that tell these states; those skipped are missed, and a list in the end tells what is missing."""
    known = dict(furnished().objects)
    told: list[e.Event] = []
    final: dict[Any, Observed] = {}
    for place, state in enumerate(states):
        final[type(state), state.uid] = state
        if not skip(place):
            told += _told(known, state)
    told.append(e.Started(code="test", fingerprint="test", projection=1, epoch=2, mode="observe"))
    for key in sorted(final, key=lambda key: (key[0].__name__, key[1])):
        told += _told(known, final[key])
    return [*told, e.Synced()]


def _told(known: dict[Any, Observed], state: Observed) -> list[e.Event]:
    fact = difference(known.get((type(state), state.uid)), state)
    known[type(state), state.uid] = state
    return [fact] if fact is not None else []


numbers = st.integers(0, 2**32)
sizes = st.lists(st.builds(Size, *[st.integers(0, 3)] * 4), min_size=1, max_size=4)


def started(mode: str, policy: int) -> Engine:
    """An engine that knows its policy and has not listed anything."""
    engine = Engine()
    engine.feed(e.Started(code="test", fingerprint="test", projection=1, epoch=1, mode=mode), START)
    engine.feed(e.PolicyChanged(policy={"mode": mode, **POLICIES[policy]}), START)
    return engine


# --- told twice --------------------------------------------------------------------------------------------------------


def told_twice(mode: str, policy: int, moves: list[Move]) -> None:
    once, twice = started(mode, policy), started(mode, policy)
    cluster = furnished()
    known: dict[tuple[Kind, str], Observed] = {}
    facts: list[e.Event] = [*differences({}, cluster.objects), e.Synced()]
    for place, move in enumerate([None, *moves]):
        if move is not None:
            do(cluster, move)
            facts = differences(known, cluster.objects)
        known = dict(cluster.objects)
        for fact in facts:
            at = START + place
            once.feed(fact, at)
            twice.feed(fact, at)
            again = twice.feed(fact, at)
            assert again.caused == [], f"told again, {fact} causes something"
            assert _without_labelled(once.state) == _without_labelled(twice.state)


def _without_labelled(state: State) -> dict[str, Any]:
    """Labels that we asked for count as written when the node is next seen with them, whatever it was seen for."""
    return {name: rows for name, rows in plain(state).items() if name != "labelled"}


@QUICK
@given(mode=modes, policy=policies, moves=objects(30))
def test_a_fact_told_twice_changes_nothing(mode: str, policy: int, moves: list[Move]) -> None:
    told_twice(mode, policy, moves)


# --- a level pass after any step ---------------------------------------------------------------------------------------


class Settled(Run):
    """After every step a pass over the whole fleet finds nothing that was left undone, from a state that was loaded."""

    def _step(self, fact: e.Event, at: int) -> None:
        super()._step(fact, at)
        nothing_left(Engine(load(dump(self.state))), self.steps[-1])


@QUICK
@given(mode=modes, policy=policies, moves=st.one_of(chaos(30), cooperation(20)))
def test_a_level_pass_finds_nothing_more_to_do(mode: str, policy: int, moves: list[Move]) -> None:
    Settled(mode, policy).play(moves)


# --- listed in another order -------------------------------------------------------------------------------------------


def listed(mode: str, policy: int, facts: list[e.Event]) -> tuple[dict[str, Any], list[Any]]:
    """What a start makes of these facts: the state and what follows from it."""
    engine = started(mode, policy)
    for fact in facts:
        engine.feed(fact, START)
    step = engine.feed(e.Synced(), START)
    return plain(engine.state), step.caused


def shuffled(facts: list[e.Event], random: Random) -> list[e.Event]:
    """Another order, the facts of each object in their own."""
    turns = [fact.subject for fact in facts]
    random.shuffle(turns)
    queues = {subject: iter([fact for fact in facts if fact.subject == subject]) for subject in turns}
    return [next(queues[subject]) for subject in turns]


def history(moves: list[Move]) -> list[e.Event]:
    cluster = furnished()
    facts: list[e.Event] = differences({}, cluster.objects)
    for move in moves:
        known = dict(cluster.objects)
        do(cluster, move)
        facts += differences(known, cluster.objects)
    return facts


@QUICK
@given(mode=modes, policy=policies, moves=objects(40), number=numbers)
def test_the_order_of_a_list_does_not_matter(mode: str, policy: int, moves: list[Move], number: int) -> None:
    facts = history(moves)
    assert listed(mode, policy, shuffled(facts, Random(number))) == listed(mode, policy, facts)


@QUICK
@given(mode=modes, policy=policies, moves=objects(40))
def test_a_start_knows_what_a_history_amounts_to(mode: str, policy: int, moves: list[Move]) -> None:
    """Listing what there is in the end is the same as having been told all of it before the first decision."""
    cluster = furnished()
    for move in moves:
        do(cluster, move)
    now, decided = listed(mode, policy, differences({}, cluster.objects))
    then, decided_then = listed(mode, policy, history(moves))
    for state in (now, then):
        state.pop("erring", None)
        # what was ordered and has gone since is known of a history only
        state["fired_deadlines"] = [row for row in state.get("fired_deadlines", ()) if row[0][0] != "ordered"]
    assert (now, decided) == (then, decided_then)


# --- re-ordered, missed, listed again while deciding -------------------------------------------------------------------


def outcome(told: list[e.Event], *, scarce: bool = False) -> tuple[Any, ...]:
    """What the engine makes of a stream, without history and without who of equals came first. Where more claims wait than
    was ever asked for (`scarce`), for which of them the fabric was asked is told once and stands: only that they wait."""
    engine = started("observe", 0)
    for fact in differences({}, furnished().objects):
        engine.feed(fact, START)
    engine.feed(e.Synced(), START)
    for place, fact in enumerate(told):
        engine.feed(fact, START + place)
    state = engine.state
    objects = {kind: state.table(kind).rows for kind in get_args(Observed)}
    vague = {"Pending": "waits", "Attaching": "waits"} if scarce else {}
    lives = state.lifecycle.lives.rows.items()
    states = Counter((life.node, _cell(state, uid), vague.get(life.state, life.state)) for uid, life in lives)
    devices = {uid: (life.state, life.key) for uid, life in state.lifecycle.devices.rows.items()}
    return objects, states, devices, _decided_now(state)


def _cell(state: State, uid: str) -> str:
    allocation = state.lifecycle.lives.rows[uid].allocation
    return ", ".join(f"{r.driver}/{r.pool}" for r in allocation.results) if allocation is not None else ""


def _decided_now(state: State) -> Counter[str]:
    """What a pass over the whole fleet decides when nothing was shown before; equal claims are not told apart. Left out: whether
    a device came before the first order on its node, and when the operator is to look, depend on the order and on the time."""
    fresh = plain(state)
    fresh["shown"] = ()
    again = load(msgspec.Raw(msgspec.json.encode(fresh)))
    again.touch_everything()
    caused = decide(again, again.process.now, keep=True).emitted
    decided = [
        event for event, _ in caused if isinstance(event, e.Decision) and not isinstance(event, e.OperatorNudged)
    ]
    return Counter(_faceless(one) for one in decided if getattr(one, "reason", "") != "DeviceUnexplained")


def _faceless(decision: e.Decision) -> str:
    match decision:
        case e.AttachOrdered():
            return f"{decision.node} {decision.model} {decision.size} {decision.reason}"
        case e.HandOver():
            return f"hand over on {decision.node}"
        case e.Reserved():
            return f"reserve on {decision.node}"
        case e.NodeLabelled():
            return f"label {decision.node} {sorted(decision.labels.items(), key=str)}"
        case e.ClaimFailed():
            return f"fail on {decision.node}: {decision.message}"
        case e.CoolDown():
            return f"cool down {decision.model} on {decision.node}: {decision.reason}"
        case _:
            return repr(decision)


def any_order(sizes: list[Size], bound: int, number: int, missed: int) -> None:
    grown = chains(sizes, bound)
    random = Random(number)
    scarce = any(size.claims > size.requested for size in sizes)
    in_turn = outcome(facts([state for chain in grown for state in chain]), scarce=scarce)
    assert outcome(facts(interleaved(grown, random)), scarce=scarce) == in_turn
    states = interleaved(grown, random)
    begin = random.randrange(len(states) + 1)
    end = min(len(states), begin + missed)
    assert outcome(facts(states, lambda place: begin <= place < end), scarce=scarce) == in_turn


@QUICK
@given(sizes=sizes, bound=st.integers(0, 3), number=numbers, missed=st.integers(0, 60))
def test_order_and_gaps_do_not_change_the_outcome(sizes: list[Size], bound: int, number: int, missed: int) -> None:
    any_order(sizes, bound, number, missed)


# --- cut anywhere, listed again ----------------------------------------------------------------------------------------


SEEN = {"claims", "pods", "nodes", "slices", "requests", "resources", "configs", "lives"}


def restarted(run: Run) -> Engine:
    """Another process takes over with what the log holds."""
    engine = Engine(load(dump(run.state)))
    engine.feed(e.Started(code="test", fingerprint="test", projection=1, epoch=run.epoch + 1, mode="observe"), run.now)
    return engine


def cut(mode: str, policy: int, before: list[Move], missed: list[Move]) -> None:
    run = Run(mode, policy)
    run.play(before)
    if not run.state.process.synced or run.state.process.stale:
        run.feed(e.Synced())
    _nothing_missed(run)
    _something_missed(run, missed)


def _nothing_missed(run: Run) -> None:
    """A restart that finds the cluster as it was decides nothing new: only what has no outcome yet, marked so, and taints of
    ours that an earlier process left. A mark that never arrived is void. What was ordered and is not wanted any more is not
    ordered again, and room may follow from that; what was ordered before the mode was lowered is only shown. A size that the
    operator makes nothing for is lowered at a level pass only, and a start is one. An order that nobody has seen does not stand,
    and the one in its place has what was wanted since. An exchange begins again, unless something is against it by now: then its
    pod is handed over in another way, as without the restart at the exchange's next step."""
    engine = restarted(run)
    step = engine.feed(e.Synced(), run.now)
    again = {uid for one in step.decisions if isinstance(one, e.AttachOrdered) and one.reissued for uid in one.claims}
    moved = [one for one in step.transitions if not _follows(one, again)]
    moved_again = [one for one in step.transitions if isinstance(one, e.ClaimMoved)]
    assert moved == []
    new = [one for one in step.decisions if not one.reissued]
    new = [one for one in new if not (isinstance(one, e.DetachOrdered) and not one.victims)]
    exchanging = {row.pod for row in run.state.hand_over.exchanges.rows.values()}
    new = [one for one in new if not (isinstance(one, e.HandOver) and one.pod in exchanging and one.why)]
    void = run.state.fleet.orders.rows.keys() - engine.state.fleet.orders.rows.keys()
    if not void and (run.state.live or not any(invariants.intents(run.state).values())):
        assert new == [], "a restart decides something new"
    before, after = plain(run.state), plain(engine.state)
    for name in SEEN - {"lives" for one in moved_again}:
        assert before.get(name) == after.get(name)
    if step.transitions == []:
        assert before.get("devices") == after.get("devices")
    assert _promises(run.state) == _promises(engine.state)


def _follows(one: e.Transition, again: set[str]) -> bool:
    """Whether a restart may take the step: `again` are claims (uids) that are ordered for again."""
    if isinstance(one, e.DeviceMoved):
        return one.trigger == "unmarked"
    return isinstance(one, e.ClaimMoved) and one.trigger == "ordered" and one.claim in again


def _promises(state: State) -> dict[str, Any]:
    return {key: row.promises for key, row in state.hand_over.reservations.rows.items()}


def _something_missed(run: Run, missed: list[Move]) -> None:
    """What was reserved stays so, as long as the claim still waits for it and the device is still there and free."""
    engine = restarted(run)
    cluster: Cluster = run.cluster
    known = dict(cluster.objects)
    for move in missed:
        do(cluster, move)
    for fact in differences(known, cluster.objects):
        engine.feed(fact, run.now)
    engine.feed(e.Synced(), run.now)
    old, new = run.state, engine.state
    for key, row in old.hand_over.reservations.rows.items():
        claim = new.demand.claims.get(row.claim)
        same = claim is not None and claim == old.demand.claims.get(row.claim)
        promised = {promise.uuid for promise in row.promises}
        if same and new.live and not _touched(known, cluster):
            kept = new.hand_over.reservations.get(key)
            assert kept is not None and {p.uuid for p in kept.promises} == promised, (
                f"the promise to {key} was not kept"
            )


def _touched(known: dict[Any, Observed], cluster: Cluster) -> bool:
    """Whether anything but claims and pods has changed: then it may be right to break the promise."""
    changed = {key for key in known.keys() | cluster.objects.keys() if known.get(key) != cluster.objects.get(key)}
    return any(kind not in (Claim, Pod) for kind, _ in changed)


@QUICK
@given(mode=modes, policy=policies, before=cooperation(25), missed=objects(6))
def test_a_restart_is_not_special(mode: str, policy: int, before: list[Move], missed: list[Move]) -> None:
    cut(mode, policy, before, missed)


# --- soak --------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, moves=objects(100), number=numbers)
def test_lists_and_repetitions_of_long_histories(mode: str, policy: int, moves: list[Move], number: int) -> None:
    told_twice(mode, policy, moves)
    facts = history(moves)
    assert listed(mode, policy, shuffled(facts, Random(number))) == listed(mode, policy, facts)


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, moves=st.one_of(chaos(100), cooperation(60)))
def test_level_passes_over_long_streams(mode: str, policy: int, moves: list[Move]) -> None:
    Settled(mode, policy).play(moves)


@pytest.mark.soak
@SOAK
@given(sizes=sizes, bound=st.integers(0, 6), number=numbers, missed=st.integers(0, 100))
def test_many_orders_and_gaps(sizes: list[Size], bound: int, number: int, missed: int) -> None:
    any_order(sizes, bound, number, missed)


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, before=st.one_of(chaos(80), cooperation(60)), missed=objects(10))
def test_many_restarts(mode: str, policy: int, before: list[Move], missed: list[Move]) -> None:
    cut(mode, policy, before, missed)
