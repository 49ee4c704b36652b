"""Every order of facts in a tiny cluster: the others' steps (users, scheduler, operator, driver, the writer of our decisions)
and deadlines, interleaved in all ways with the pure core, until no state is new.

A step takes no time; time jumps to the next deadline when nothing else can happen, or whenever it likes (`hasty`). States are
told apart by all that is known and true in them, up to the numbers in names, the generations of slices, and instants, of which
only the order counts. In each state the invariants are looked at; over the whole graph it is asked from where a goal can be
reached.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dds_core.engine import Step
from dds_core.kit.state import scalars_of
from dds_core.kit.work import FAULTS
from dds_core.model import AttachRequest, Claim, Config, Device, FabricResource, Node, Pod, Slice
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.deadlines import KINDS
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.state import ORDER, State
from tests.property import actors
from tests.property.cluster import A100, NODES, NVIDIA, PREFIX, SECOND, START, Cluster, Kind
from tests.property.places import VERBS as PLACES
from tests.property.places import plug, unplug
from tests.property.run import WRITTEN, differences
from tests.property.run import _target as target_of
from tests.property.verbs import pods_of
from tests.support.world import asks

FIRST = 7001
"""Numbers in names begin here, so that they are known for such."""
POLICY: dict[str, Any] = {
    "mode": "detach",
    "scan_interval_seconds": 0,
    "detaches_per_hour": 100,
}


@dataclass(frozen=True)
class Size:
    """How large the cluster is. `refusals`, `restarts`: how many writes may come to nothing, how often the process may end;
    `late`: a kind of objects of which the watch may be behind; `parts`: a device is listed with its halves, and pods may take
    halves; `guards`: devices can be guarded; `hasty`: time may pass although there is something to do; `unsettled`: also the
    publisher and what the operator says of itself may be late; `policy`: knobs beside `POLICY`."""

    nodes: int = 2
    devices: int = 2
    jobs: int = 2
    refusals: int = 0
    restarts: int = 0
    late: Kind | None = None
    parts: bool = False
    guards: bool = True
    hasty: bool = False
    unsettled: bool = False
    policy: dict[str, Any] = field(default_factory=dict)


class Situation(NamedTuple):
    """All that there is: the truth, what was told of it, what the core knows, what it has decided and nobody has written yet."""

    objects: dict[tuple[Kind, str], Any]
    guarded: frozenset[Any]
    made: int
    told: dict[tuple[Kind, str], Any]
    state: dict[str, Any]
    now: int
    outbox: tuple[e.Decision, ...]
    submitted: int
    refusals: int
    restarts: int


class Tiny(Cluster):
    def number(self) -> int:
        self.made += 1
        return FIRST + self.made


# -- the core, taken apart and put together ----------------------------------------------------------------------------

_SCALARS = scalars_of(State)


def _parts(state: State) -> dict[str, Any]:
    parts: dict[str, Any] = {name: dict(table.rows) for name, table in state.tables.items()}
    scalars = {name: getattr(one.owner(state), name) for name, one in _SCALARS.items()}
    return parts | scalars | {"stale": frozenset(state.process.stale)}


def _engine(parts: dict[str, Any], policy: Any) -> Engine:
    state = State()
    state.policy = policy
    for name, one in _SCALARS.items():
        setattr(one.owner(state), name, parts[name])
    state.process.stale = set(parts["stale"])
    for name in ("configs", *ORDER):
        table = state.tables[name]
        for key, row in parts[name].items():
            if key not in table:
                table.put(key, row)
    state.rebuild()
    state.dirty.clear()
    return Engine(state)


# -- what may happen ---------------------------------------------------------------------------------------------------


class World:
    """A state, as somebody steps on from it."""

    def __init__(self, size: Size, policy: Any, state: Situation) -> None:
        self.size = size
        self.cluster = Tiny()
        self.cluster.objects, self.cluster.guarded = dict(state.objects), set(state.guarded)
        self.cluster.made, self.cluster.now = state.made, state.now
        self.engine = _engine(state.state, policy)
        self.state = state
        self.told = state.told
        self.outbox = list(state.outbox)
        self.steps: list[Step] = []
        self.now = state.now
        self.submitted, self.refusals, self.restarts = state.submitted, state.refusals, state.restarts

    def settle(self) -> None:
        """What is done at once, since it makes hardly a difference when: the pool is published, the operator says how far it is,
        labels and stamps are written."""
        while True:
            before = dict(self.cluster.objects)
            stamps = [
                number for number, one in enumerate(self.outbox) if isinstance(one, e.NodeLabelled | e.UsedStamped)
            ]
            if stamps:
                _write(self, str(stamps[0]))
            if not self.size.unsettled:
                _publish(self, "")
                for one in self.cluster.all(AttachRequest):
                    made = [
                        each
                        for each in self.cluster.all(FabricResource)
                        if each.request == one.name and not each.deleting
                    ]
                    if len(made) == one.size and not one.deleting:
                        _operate(self, one.uid)
            self.tell()
            if not stamps and before == self.cluster.objects:
                return

    def left(self) -> Situation:
        c = self.cluster
        parts = _parts(self.engine.state)
        counts = (self.submitted, self.refusals, self.restarts)
        return Situation(
            c.objects, frozenset(c.guarded), c.made, self.told, parts, self.now, tuple(self.outbox), *counts
        )

    def feed(self, fact: e.Event) -> None:
        step = self.engine.feed(fact, self.now)
        self.steps.append(step)
        for one in step.decisions:
            if isinstance(one, WRITTEN):  # what is not written yet is superseded
                self.outbox = [
                    each for each in self.outbox if (type(each), target_of(each)) != (type(one), target_of(one))
                ]
                self.outbox.append(one)

    def pass_until(self, instant: int) -> None:
        """Time passes, and deadlines with it."""
        while (deadline := self.engine.due(instant)) is not None:
            self.now = self.cluster.now = max(deadline.due, self.now)
            self.feed(deadline)
        self.now = self.cluster.now = instant

    def tell(self, *, late: bool = False) -> None:
        """Facts for all that has changed; of the kind that is late only when its watch catches up."""
        behind = self.size.late if not late else None
        shown = {key: one for key, one in self.cluster.objects.items() if key[0] is not behind}
        shown |= {key: one for key, one in self.told.items() if key[0] is behind}
        for fact in differences(self.told, shown):
            self.feed(fact)
        self.told = shown


def _submit(world: World, _: str) -> None:
    name = f"job{world.submitted}"
    world.submitted += 1
    claim = Claim(f"claim-{name}", "default", f"{name}-0", START, requests=(asks("r0", NVIDIA),))
    world.cluster.put(claim)
    world.cluster.put(
        Pod(f"pod-{name}", "default", name, phase="Pending", scheduler="default-scheduler", claims=(claim.name,))
    )


def _schedule(world: World, of: str) -> None:
    """One step of the scheduler for a pod, beginning with this node, a second later: its allocations tell when they were made."""
    world.pass_until(world.now + SECOND)
    pod, first, parts = of.split("/")
    cluster = world.cluster
    pending = [one.uid for one in cluster.all(Pod) if not one.node]
    guarded, cluster.guarded = cluster.guarded, cluster.guarded | _not_free(cluster, bool(parts))
    actors.schedule(cluster, pending.index(pod), int(first), 0)
    cluster.guarded = guarded


def _not_free(cluster: Cluster, parts: bool) -> set[tuple[str, str, str]]:
    """Devices that draw on what another one that is allocated draws on; for a pod that wants a part, wholes too."""
    taken = {one.key for claim in cluster.all(Claim) if claim.allocation for one in claim.allocation.results}
    found: set[tuple[str, str, str]] = set()
    for each in cluster.all(Slice):
        whole = {name: (each.driver, each.pool, name) for name in each.devices if not name.endswith(("-p0", "-p1"))}
        for name, key in whole.items() if each.node else ():
            halves = {(*key[:2], f"{name}-p{number}") for number in range(2)}
            found |= halves if key in taken else set()
            found |= {key} if halves & taken or parts else set()
    return found


def _finish(world: World, of: str) -> None:
    world.cluster.drop(world.cluster.get(Pod, of))


def _collect(world: World, of: str) -> None:
    """The claim of a pod that is gone is deallocated, then deleted."""
    claim = world.cluster.get(Claim, of)
    assert claim is not None
    if claim.allocation is None:
        world.cluster.drop(claim)
    else:
        world.cluster.update(claim, allocation=None, consumers=(), conditions=())


def _operate(world: World, of: str) -> None:
    uids = [one.uid for one in world.cluster.all(AttachRequest)]
    actors.operate(world.cluster, uids.index(of), 0, 0)


def _attach(world: World, of: str) -> None:
    """The next step of a device on its way: the fabric gives it, its driver lists it, the operator calls it Online; or it is
    being detached, its driver lists it no more, it is back."""
    cluster, one = world.cluster, world.cluster.get(FabricResource, of)
    assert one is not None
    name = f"gpu-{one.name}"
    listed = any(name in each.devices for each in cluster.all(Slice))
    if one.deleting:
        if one.state != "Detaching":
            cluster.update(one, state="Detaching")
        elif listed:
            unplug(cluster, one.node, one.uuid)
            for each in cluster.all(Slice):
                cluster.update(each, counters={key: row for key, row in each.counters.items() if key != name})
        else:
            cluster.drop(one)
    elif not one.uuid:
        if sum(bool(each.uuid) for each in cluster.all(FabricResource)) < world.size.devices:
            cluster.update(one, uuid=f"GPU-{one.name}")
    elif not listed:
        if world.size.parts:
            _cut(cluster, one, name)
        else:
            plug(cluster, one.node, name, one.uuid, A100)
    else:
        cluster.update(one, state="Online")


def _cut(cluster: Cluster, one: FabricResource, name: str) -> None:
    """The driver lists a device with its halves."""
    for suffix, drawn in (("", "2"), ("-p0", "1"), ("-p1", "1")):
        plug(cluster, one.node, f"{name}{suffix}", one.uuid, A100, consumes={name: {"memory": drawn}})
    local = next(each for each in cluster.all(Slice) if each.node == one.node)
    cluster.update(local, counters={**local.counters, name: {"memory": "2"}})


def _publish(world: World, _: str) -> None:
    """The publisher lists what the fabric has left."""
    free = world.size.devices - sum(bool(one.uuid) for one in world.cluster.all(FabricResource))
    pool = world.cluster.get(Slice, _POOL)
    assert pool is not None
    names = sorted(pool.devices)[:free] if free < len(pool.devices) else [f"{A100.device}-{i}" for i in range(free)]
    if names != sorted(pool.devices):
        world.cluster.update(pool, devices=dict.fromkeys(names, _pool_device()), generation=pool.generation + 1)


def _write(world: World, of: str) -> None:
    """A decision is carried out, and that is heard of."""
    decision = world.outbox.pop(int(of))
    if isinstance(decision, e.ClaimsListWanted):
        if world.size.late is Claim:
            world.tell(late=True)
        world.feed(e.ClaimsListed(resource=decision.resource, started=world.now))
        return
    before = world.cluster.objects.copy()
    actors.carry_out(world.cluster, decision)
    action, target = type(decision).__name__, target_of(decision)
    if isinstance(decision, _CONDITIONAL) and world.cluster.objects == before:
        world.feed(e.WriteObsolete(decision="", action=action, target=target))
        return
    if isinstance(decision, e.AttachOrdered) and not decision.uid:
        _named(world.cluster, decision.request)
    version = "1" if isinstance(decision, e.AllocationCleared) else ""
    world.feed(e.WriteDone(decision="", action=action, target=target, version=version))


_CONDITIONAL = (e.AttachOrdered, e.DetachOrdered, e.AllocationCleared, e.DevicesGiven, e.DeviceHeld, e.HandOver)
"""Written only where all is as it was when it was decided."""


def _named(cluster: Cluster, name: str) -> None:
    """A request is known by its name."""
    made = cluster.named(AttachRequest, name)
    assert made is not None
    cluster.drop(made)
    cluster.put(msgspec.structs.replace(made, uid=f"uid-{name}"))


def _refuse(world: World, of: str) -> None:
    decision = world.outbox.pop(int(of))
    world.refusals += 1
    action, target = type(decision).__name__, target_of(decision)
    world.feed(e.WriteObsolete(decision="", action=action, target=target))


def _restart(world: World, _: str) -> None:
    """The process ends, and the next one sees the whole cluster; what was not written is lost."""
    world.restarts += 1
    world.outbox.clear()
    world.feed(e.Started(code="test", fingerprint="test", projection=1, epoch=2, mode="detach"))
    world.tell(late=True)
    world.feed(e.Synced())


def _time(world: World, _: str) -> None:
    deadline = world.engine.due(world.now + 10**15)
    assert deadline is not None
    world.now = world.cluster.now = max(deadline.due, world.now)
    world.feed(deadline)


MOVES: dict[str, Callable[[World, str], None]] = {
    "submit": _submit,
    "schedule": _schedule,
    "finish": _finish,
    "collect": _collect,
    "operate": _operate,
    "attach": _attach,
    "publish": _publish,
    "write": _write,
    "refuse": _refuse,
    "restart": _restart,
    "time": _time,
    "catch up": lambda world, of: world.tell(late=True),
}


def moves(size: Size, world: World) -> Iterator[tuple[str, str]]:
    """What may happen next; some of it changes nothing."""
    cluster = world.cluster
    if world.submitted < size.jobs:
        yield "submit", ""
    for pod in cluster.all(Pod):
        if pod.node:
            yield "finish", pod.uid
        elif not any(_is_between(world, name) for name in pod.claims):
            for first in range(_places(world)):
                yield "schedule", f"{pod.uid}/{first}/"
                if size.parts:
                    yield "schedule", f"{pod.uid}/{first}/part"
    for claim in cluster.all(Claim):
        if not claim.hold and not pods_of(cluster, claim):
            yield "collect", claim.uid
    yield from (("operate", one.uid) for one in cluster.all(AttachRequest))
    yield from (("attach", one.uid) for one in cluster.all(FabricResource) if one.deleting or one.state != "Online")
    if size.unsettled:
        yield "publish", ""
    for number, one in enumerate(world.outbox):
        if any(target_of(one) == target_of(each) for each in world.outbox[:number]):
            continue  # one after the other
        yield "write", str(number)
        if world.refusals < size.refusals and not isinstance(one, e.ClaimsListWanted):  # that is tried until it is done
            yield "refuse", str(number)
    if world.restarts < size.restarts:
        yield "restart", ""
    if world.told.items() != cluster.objects.items():
        yield "catch up", ""


def _places(world: World) -> int:
    """At how many nodes the scheduler may begin: where nothing is on any yet, one is like the other."""
    requests = world.cluster.all(AttachRequest)
    claims = [one for one in world.cluster.all(Claim) if one.allocation is not None]
    return world.size.nodes if requests or claims else 1


def _is_between(world: World, name: str) -> bool:
    """Whether a claim is between the two writes of an exchange: its pod waits on."""
    claim = world.cluster.named(Claim, name)
    row = world.engine.state.hand_over.exchanges.get(claim.uid) if claim is not None else None
    return (
        claim is not None and claim.allocation is None and row is not None and row.stage != "left" and row.clear_begun
    )


# -- the beginning -----------------------------------------------------------------------------------------------------

_POOL = f"pool-{A100.device}-fabric0"


def _pool_device() -> Device:
    cluster = Cluster()
    PLACES["pool"](cluster, 0, 0, 1)
    pool = cluster.get(Slice, _POOL)
    assert pool is not None
    return next(iter(pool.devices.values()))


def beginning(size: Size) -> tuple[Situation, Any]:
    cluster = Tiny()
    cluster.put(Config("config", PREFIX, (A100,), (0,)))
    labels = {f"{PREFIX}/fabric": "0", f"{PREFIX}/{A100.device}": "true"}
    for name in NODES[: size.nodes]:
        cluster.put(Node(f"uid-{name}", name, labels))
    PLACES["pool"](cluster, 0, 0, size.devices)
    PLACES["class"](cluster, 0, 0, 0)
    engine = Engine()
    facts = [
        e.Started(code="test", fingerprint="test", projection=1, epoch=1, mode="detach"),
        e.PolicyChanged(policy=POLICY | size.policy),
        e.Capabilities(version="1.36", guards="dds" if size.guards else ""),
        *differences({}, cluster.objects),
        e.Synced(),
    ]
    for fact in facts:
        engine.feed(fact, START)
    told = dict(cluster.objects)
    state = Situation(cluster.objects, frozenset(), 0, told, _parts(engine.state), START, (), 0, 0, 0)
    return state, engine.state.policy


# -- states told apart -------------------------------------------------------------------------------------------------

_LEFT_OUT = (
    "counters",
    "rates",
    "last_emitted",
    "epoch",
    "configs",
    "classes",
    "marks",
    "fired_deadlines",
    "now",
    "timeouts",
)
_LONG = 700 * SECOND
"""What was so long ago is all one."""
_NUMBER = re.compile(r"-(7\d{3})(?![0-9a-f])")
_encode = msgspec.json.Encoder(order="sorted").encode


def key_of(world: World) -> bytes:
    """The same for states that differ in nothing that counts."""
    state = world.left()
    parts = {name: value for name, value in state.state.items() if name not in _LEFT_OUT}
    passed = state.state["fired_deadlines"].items()
    parts["fired_deadlines"] = {key: 0 if key[0] in KINDS else due for key, due in passed if key[0] != "retry"}
    rows = {
        name: sorted(map(_plain, value.items())) if isinstance(value, dict) else value for name, value in parts.items()
    }
    told = sorted(
        _plain((key[0].__name__, key[1], one)) for key, one in state.objects.items() if state.told.get(key) != one
    )
    late = sorted(key[1] for key in state.told if key not in state.objects)
    due = world.engine.deadline_queue.next()
    plain = [
        {name: value for name, value in rows.items() if name != "stale"},
        sorted(state.guarded),
        told,
        late,
        sorted(_plain(one) for one in state.outbox),
        state.submitted,
        state.refusals,
        state.restarts,
        sorted((one.due, one.kind, one.of) for one in world.engine.deadline_queue.deadlines(world.engine.state)),
        state.now,
        due is None,
    ]
    instants: set[int] = set()
    data = msgspec.to_builtins(plain)
    _gather(data, instants)
    old = {instant for instant in instants if instant < state.now - _LONG}
    ranks = dict.fromkeys(old, 0) | {instant: rank for rank, instant in enumerate(sorted(instants - old), 1)}
    text = json.dumps(_ranked(data, ranks), sort_keys=True)
    attempts = {found: str(rank) for rank, found in enumerate(sorted({*_ATTEMPT.findall(text)}, key=int))}
    text = _ATTEMPT.sub(lambda found: f'attempt\\":{attempts[found[1]]}', _CYCLE.sub("", text))
    numbers = {found: f"-n{rank}" for rank, found in enumerate(sorted({*_NUMBER.findall(text)}))}
    return _NUMBER.sub(lambda found: numbers[found[1]], text).encode()


def _plain(one: Any) -> str:
    return _encode([type(one).__name__, one]).decode() if isinstance(one, e.Event) else _encode(one).decode()


_INSTANT = re.compile(r"\b17\d{14}\b")
_ATTEMPT, _CYCLE = re.compile(r'attempt\\":(\d+)'), re.compile(r'cycle\\":\d+')
_GENERATION = re.compile(r'"generation":\d+')


def _gather(data: Any, instants: set[int]) -> None:
    if isinstance(data, dict):
        for value in data.values():
            _gather(value, instants)
    elif isinstance(data, list | tuple):
        for value in data:
            _gather(value, instants)
    elif isinstance(data, str):
        instants.update(int(found) for found in _INSTANT.findall(data))
    elif isinstance(data, int) and data >= START:
        instants.add(data)


def _ranked(data: Any, ranks: dict[int, int]) -> Any:
    if isinstance(data, dict):
        return {name: _ranked(value, ranks) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_ranked(value, ranks) for value in data]
    if isinstance(data, str):
        text = _GENERATION.sub("", data)
        return _INSTANT.sub(lambda found: f"t{ranks[int(found[0])]}", text)
    return f"t{ranks[data]}" if isinstance(data, int) and not isinstance(data, bool) and data >= START else data


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass
class Graph:
    """What was found. `how` is by which move, from where, each state was first reached; `after` the moves from each."""

    how: list[tuple[int, str]] = field(default_factory=list)
    after: list[list[tuple[str, int]]] = field(default_factory=list)
    bound: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def transitions(self) -> int:
        return sum(map(len, self.after))

    def path(self, number: int) -> list[str]:
        """How that state is reached, in words."""
        words: list[str] = []
        while number:
            number, move = self.how[number]
            words.append(move)
        return words[::-1]

    def cannot_reach(self, goal: list[bool], without: tuple[str, ...] = ()) -> list[int]:
        """The states from which no moves but these lead to a goal."""
        before: list[list[int]] = [[] for _ in self.after]
        for number, following in enumerate(self.after):
            for move, to in following:
                if move.split()[0] not in without:
                    before[to].append(number)
        reached, left = list(goal), deque(number for number, is_goal in enumerate(goal) if is_goal)
        while left:
            for number in before[left.popleft()]:
                if not reached[number]:
                    reached[number] = True
                    left.append(number)
        return [number for number, there in enumerate(reached) if not there]


def explored(size: Size, most: int = 10**9) -> Graph:
    """Every state that can be reached."""
    first, policy = beginning(size)
    graph, known, left = Graph(), dict[bytes, int](), deque[tuple[int, Situation]]()

    def number_of(world: World, by: tuple[int, str]) -> int:
        key = key_of(world)
        if key not in known:
            known[key] = len(known)
            graph.how.append(by)
            graph.after.append([])
            graph.bound.append(all(pod.node for pod in world.cluster.all(Pod)))
            graph.clean.append(_is_clean(world))
            left.append((known[key], world.left()))
        return known[key]

    number_of(World(size, policy, first), (0, ""))
    while left and len(known) < most:
        number, state = left.popleft()
        world = World(size, policy, state)
        ways = list(moves(size, world))
        changed = False
        for verb, of in ways:
            changed |= _go(graph, number_of, World(size, policy, state), number, verb, of)
        if (size.hasty or not changed) and world.engine.due(state.now + 10**15) is not None:
            _go(graph, number_of, World(size, policy, state), number, "time", "")
    return graph


def _go(
    graph: Graph, number_of: Callable[[World, tuple[int, str]], int], world: World, number: int, verb: str, of: str
) -> bool:
    before = (world.cluster.objects.copy(), len(world.outbox))
    said = f"{verb} {of}"
    if verb in ("write", "refuse"):
        said = f"{verb} {type(world.outbox[int(of)]).__name__} {world.outbox[int(of)].subject}"
    MOVES[verb](world, of)
    world.tell()
    world.settle()
    if not world.steps and world.cluster.objects == before[0] and len(world.outbox) == before[1]:
        return False
    following = number_of(world, (number, said))
    alerts = [one for step in world.steps for one in step.decisions if isinstance(one, e.Alerted)]
    wrong = [one.text for one in alerts if one.reason in (*FAULTS, *_NEVER)]
    wrong += [str(one) for one in INVARIANTS.everywhere(world.engine.state)]
    graph.wrong += [f"{one}, after {graph.path(number)} and {said}" for one in wrong]
    graph.after[number].append((said, following))
    return True


_NEVER = ("WrongVictim", "DetachedInUse", "DeviceTwice", "PodElsewhere")
"""Alerts that nobody here gives cause for."""


def _is_clean(world: World) -> bool:
    """Everybody is gone, and nothing of theirs or ours is left."""
    cluster, state = world.cluster, world.engine.state
    if {kind for kind, _ in cluster.objects} & {Pod, Claim, FabricResource} or cluster.guarded or world.outbox:
        return False
    if any(request.size for request in cluster.all(AttachRequest)):
        return False
    tables = ("reservations", "orders", "hand_overs", "exchanges", "guarded", "failures", "cooling", "holds", "fences")
    return not any(state.tables[name].rows for name in tables)
