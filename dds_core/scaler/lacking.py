"""What claims without an allocation lack, computed by the allocator over all that is listed and in use.

Of all nodes the one counts that is nearest to serving the claim: a cordon on a node with a free device is the reason, though
another node has no device at all, and a full node that takes the pod is, though one with a cordon has room. Claims are looked at
by what their pods ask for, and devices and nodes by kind, so that thousands that are alike cost hardly more than one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from dds_core.lifecycle import DEVICE_DETACHING, MARKED
from dds_core.matching.allocator import MOST_STEPS, TIMED_OUT, AllocationError, Allocator, InUse, Steps
from dds_core.matching.counters import left
from dds_core.matching.node_selectors import NodeSelector, node_matches
from dds_core.matching.search import prevented
from dds_core.model import Alternative, Claim, Device, DeviceKey, Model, Node, Pod, Slice, Taint, TaintRule
from dds_core.scaler.model import PoolKey
from dds_core.scaler.rules.orders import (
    apart_words,
    cell_of,
    conflicting_model,
    limit_words,
    limits_of,
    rival_words,
)
from dds_core.scaler.state import State
from dds_core.scaler.waiting import cool_down_words
from dds_core.timeline.instants import rfc3339

# Why a claim waits, what lacks least last. A node that does not take the pod ranks elsewhere: `_kept_from`.
NO_CLASS, NONE, REFUSED, TOO_FEW = "no-class", "no-device", "selector", "too-few"
IN_USE, TAINTED = "in-use", "device-taint"
COUNTERS, CONSTRAINT, CAPACITY, TOGETHER = "counters", "constraint", "capacity", "together"
COOL_DOWN, COEXISTENCE, LIMIT, NODE, UNTRIED = "cool-down", "coexistence", "limit", "node", "untried"
NOT_COMPUTED: Final = "not-computed"
PLACED: Final = "placed"
"""Of a pod that was put on a node past the scheduler: nobody looks for a device."""
# fmt: off
REASONS: Final = (
    NOT_COMPUTED, PLACED, NO_CLASS, NONE, REFUSED, TOO_FEW, IN_USE, TAINTED, COUNTERS, CONSTRAINT, CAPACITY, TOGETHER,
    COOL_DOWN, COEXISTENCE, LIMIT, NODE, UNTRIED,
)
# fmt: on

MOST_SHAPES = 64
"""Of so many different kinds of pods the reason is computed, those that wait longest first."""
MOST_SEARCHES = 64
"""On so many nodes the allocator searches for one kind of pod."""
MOST_LOOKS = 1_000_000
"""So many looks at a device all its searches may take, some seconds at most: the thread that decides counts who waits, too."""
MOST_SHOWN = 3
"""By so many listed devices of a model it is judged whether a class accepts the model."""


# -- what a claim asks for -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ask:
    """One alternative of a request: `alone` is the claim with nothing else in it, `by_class` without its own selectors."""

    alone: Claim
    by_class: Claim
    asked: Alternative


@dataclass(frozen=True, slots=True)
class Want:
    """What claims with the same requests want: the alternatives of each request, the models that may serve them."""

    requests: tuple[tuple[_Ask, ...], ...]
    models: tuple[str, ...]
    asked: int
    unknown: str = ""
    """A class that does not exist: one with the name of a model's, or else anybody's."""
    served: tuple[frozenset[str], ...] = ()
    """For each request that only models of dds may serve, these."""


@dataclass(slots=True)
class _Tally:
    """Of one alternative in some pools: devices that the class accepts, that the selectors select, that are not in use, and of
    these those without a taint; a selector that refused a device, a taint that closes one."""

    accepted: int = 0
    selected: int = 0
    free: int = 0
    open: int = 0
    refused: str = ""
    taint: str = ""
    keys: list[DeviceKey] = field(default_factory=list)
    """The open ones; not of a sum."""

    def add(self, other: _Tally) -> None:
        self.accepted += other.accepted
        self.selected += other.selected
        self.free += other.free
        self.open += other.open
        self.refused = self.refused or other.refused
        self.taint = self.taint or other.taint


class _Moving(NamedTuple):
    """Devices that no slice lists, and how many of those that are listed, or not, go back to the pool. `failing`: an error of
    an order that has brought none, and of how many."""

    coming: int = 0
    returning: int = 0
    hidden: int = 0
    failing: int = 0
    error: str = ""

    @property
    def words(self) -> str:
        told = {"attached or on their way": self.coming, "going back to the pool": self.returning}
        return ", ".join(f"{what}: {number}" for what, number in told.items() if number)


class Verdict(NamedTuple):
    """One of `REASONS`, in words, and how many devices are free in spite of it. `beside`: the reason with which it ranks, "" for
    its own."""

    reason: str
    why: str
    free: int = 0
    beside: str = ""

    @property
    def rank(self) -> int:
        """How near the node is to serving the claim."""
        return REASONS.index(self.beside or self.reason) if self.reason else -1


_Kind = tuple[object, ...]
"""What selectors and tolerations see of a device; devices of one kind are alike for all that is asked."""


class _Alike(NamedTuple):
    """The devices of one kind in a pool: how many, one of them, and those that are not in use."""

    kind: _Kind
    taints: tuple[Taint, ...]
    number: int
    example: DeviceKey
    free: tuple[DeviceKey, ...]


_WHOLE_MAP = re.compile(r"[.](all|exists|exists_one|filter|map)\b|\bsize\b|[.]bind\b")
"""In a selector that may look at attributes without naming them."""


class Survey:
    """One look at the whole state, with what it has computed so far."""

    def __init__(self, state: State, special: Mapping[str, Claim]) -> None:
        """`special`: by pod the claim that it will have for the extended resources that it asks for."""
        self._state, self._special = state, special
        inventory = state.inventory
        self._in_use = _in_use(state)
        gates = inventory.allocator("").gates  # as the allocators of the nodes have them
        rules = [one for one in inventory.taint_rules.rows.values() if one.selects or gates.taint_without_selector]
        self._rules: dict[str, list[TaintRule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.pool, []).append(rule)
        self._classes = {one.name: one for one in inventory.classes.rows.values()}
        self._choosing = (gates, rules)
        self._allocators: dict[tuple[PoolKey, ...], Allocator] = {}
        self._nodes = sorted(state.fleet.nodes.rows.values(), key=lambda one: one.name)
        self._shared = [
            (key, NodeSelector.of(pool.selector) if pool.selector else None)
            for key, pool in sorted(inventory.pools.items())
            if not pool.node
        ]
        self._wants: dict[bytes, Want] = {}
        self._verdicts: dict[bytes, Verdict] = {}
        self._tallies: dict[tuple[int, PoolKey], _Tally] = {}
        self._judged: dict[tuple[int, _Kind], tuple[bool, str]] = {}
        self._selectors: set[str] = set()
        self._attributes: tuple[str, ...] | None = ()
        self._alike: dict[PoolKey, tuple[_Alike, ...]] = {}
        self._all: tuple[_Alike, ...] = ()
        self._groups: list[list[Node]] = []
        self._everywhere: dict[int, _Tally] = {}
        self._moves: dict[int, _Moving] = {}
        self._reached: dict[str, list[PoolKey]] = {}
        self._looks = MOST_LOOKS

    def _allocator(self, *pools: PoolKey) -> Allocator:
        """The allocator over these pools alone; one over all takes long to make in a large fleet."""
        found = self._allocators.get(pools)
        if found is None:
            inventory, (gates, rules) = self._state.inventory, self._choosing
            slices = [inventory.slices.rows[uid] for key in pools for uid in sorted(inventory.slices_of[key])]
            found = self._allocators[pools] = Allocator(
                slices, self._classes.values(), self._in_use, gates, rules, share_id=lambda: "shared"
            )
        return found

    # -- what it wants -----------------------------------------------------------------------------------------------------

    def want_of(self, claim: Claim) -> Want:
        key = _encoded(claim.requests)
        found = self._wants.get(key)
        if found is None:
            found = self._wants[key] = self._want(claim)
            self._learn(found)
        return found

    def _learn(self, want: Want) -> None:
        """Note what the selectors of a claim name: devices that differ in nothing else are alike."""
        asks = [ask for ways in want.requests for ask in ways]
        classes = (self._classes.get(ask.asked.device_class) for ask in asks)
        texts = {text for one in classes if one is not None for text in one.selectors}
        texts.update(text for ask in asks for text in ask.asked.selectors)
        if not texts <= self._selectors:
            self._selectors |= texts
            self._attributes = None
            self._alike.clear()
            self._tallies.clear()
            self._everywhere.clear()
            self._judged.clear()
            self._all, self._groups = (), []

    def _named_attributes(self) -> tuple[str, ...]:
        """The attributes and capacities, of all that devices have, that a selector names; all if one may look at others too."""
        if self._attributes is None:
            pools = self._state.inventory.pools.values()
            known = {
                name for pool in pools for one in pool.devices.values() for name in (*one.attributes, *one.capacity)
            }
            text = "\n".join(self._selectors)
            every = _WHOLE_MAP.search(text) is not None
            self._attributes = tuple(sorted(name for name in known if every or name.rpartition("/")[2] in text))
        return self._attributes

    def _want(self, claim: Claim) -> Want:
        requests, models, asked, unknown = [], dict[str, None](), 0, ""
        only = list[frozenset[str]]()
        devices = {model.device for model in self._state.settings.config.models}
        for request in claim.requests:
            ways = []
            for one in request.alternatives:
                alone = replace(claim, requests=(replace(request, alternatives=(one,)),), constraints=())
                bare = replace(one, selectors=())
                by_class = replace(alone, requests=(replace(request, alternatives=(bare,)),))
                ways.append(_Ask(alone, by_class, one))
                if one.device_class not in self._classes and (not unknown or unknown not in devices):
                    unknown = one.device_class
            served = [(way, self._models(way)) for way in ways]
            models.update(dict.fromkeys(name for _, names in served for name in names))
            asked += next((way.asked.count for way, names in served if (names or unknown) and not way.asked.admin), 0)
            requests.append(tuple(ways))
            if all(names for _, names in served):
                only.append(frozenset(name for _, names in served for name in names))
        order = (one for one in self._state.settings.config.models if one.model in models or one.device == unknown)
        return Want(tuple(requests), tuple(one.model for one in order), asked, unknown, tuple(only))

    def _models(self, ask: _Ask) -> list[str]:
        """The models that the alternative selects; those that its class accepts if it selects none of them."""
        judged = [(model.model, *self._suits(model, ask)) for model in self._state.settings.config.models]
        accepted = [name for name, by_class, _ in judged if by_class]
        return [name for name, _, selected in judged if selected] or accepted

    def _suits(self, model: Model, ask: _Ask) -> tuple[bool, bool]:
        """Whether class, and class with selectors, accept devices of the model: by some that are listed, or if there are none by
        what device-info says of them, and then what cannot be judged counts as accepted."""
        if ask.asked.device_class not in self._classes:
            return False, False
        shown = self._shown(model)
        if shown:
            by_class = [key for key in shown if self._allocator(key[:2]).refusal(ask.by_class, key, doubt=True) is None]
            return bool(by_class), any(self._allocator(key[:2]).refusal(ask.alone, key) is None for key in by_class)
        device = Device({name: value for name, value in model.attributes.items() if value})
        alike = Slice("alike", "alike", model.driver, "alike", devices={"device": device})
        allocator, key = Allocator([alike], self._classes.values(), forgiving=True), (model.driver, "alike", "device")
        return allocator.selects(ask.by_class, key), allocator.selects(ask.alone, key)

    def _shown(self, model: Model) -> list[DeviceKey]:
        """Some devices of the model: of each pool the first, and the first on nodes."""
        inventory, state = self._state.inventory, self._state
        found = [
            (*key, min(pool.devices))
            for key in sorted(inventory.pools_of_model[model.model])
            if (pool := inventory.pools[key]).devices
        ]
        for resource in state.fleet.resources.rows.values():
            if len(found) >= MOST_SHOWN:
                break
            if resource.model == model.model:
                found += [key for key in sorted(state.names_of(resource)) if not inventory.face(key).part][:1]
        return found

    # -- why it waits ------------------------------------------------------------------------------------------------------

    def verdict(self, pod: Pod) -> Verdict:
        """Why the scheduler has no devices for all claims of the pod, and for the extended resources that it asks for."""
        claims = self._state.demand.claims_of(pod)
        if pod.uid in self._special:
            claims.append(self._special[pod.uid])
        asking = [one for one in claims if one.allocation is None and one.known]
        pinned = {one.allocation.node for one in claims if one.allocation is not None and one.allocation.node}
        told = [(one.requests, one.constraints) for one in asking]
        key = _encoded((told, pod.tolerations, sorted(pinned), bool(pod.waiting)))
        found = self._verdicts.get(key)
        if found is None:
            if len(self._verdicts) < MOST_SHAPES:
                found = self._judge(pod, asking, pinned)
            else:
                found = Verdict(NOT_COMPUTED, f"not computed: more than {MOST_SHAPES} kinds of pods wait")
            self._verdicts[key] = found
        return found

    def _judge(self, pod: Pod, claims: list[Claim], pinned: set[str]) -> Verdict:
        wants = [self.want_of(claim) for claim in claims]
        unknown = next((want.unknown for want in wants if want.unknown), "")
        if unknown:
            return Verdict(NO_CLASS, f"the DeviceClass {unknown} does not exist")
        groups = self._groups_of_nodes()
        if pinned:
            groups = [some for group in groups if (some := [node for node in group if node.name in pinned])]
        if not groups:
            where = (
                f"node {min(pinned)}, on which its pod has another claim, is not known"
                if pinned
                else "there is no node"
            )
            return Verdict(NONE, where)
        best, enough = _Best(), list[Node]()
        for group in groups:
            verdict = self._of_devices(group[0], wants)
            if verdict is None:
                enough += group
            else:
                best.add(verdict, len(group))
        enough.sort(key=lambda node: (bool(node.against(pod.tolerations)), self._closed(node, wants) is not None))
        failed: dict[tuple[int, ...], str] = {}
        for node in enough[:MOST_SEARCHES]:
            verdict = self._of_node(node, pod, claims, wants, failed)
            best.add(verdict)
            if verdict.reason in (UNTRIED, NOT_COMPUTED):
                break
        apart = apart_words(self._state.settings.rivals, (models for want in wants for models in want.served))
        if apart and best.reason != UNTRIED:  # whatever lacks besides may come; this does not
            return Verdict(COEXISTENCE, apart)
        if best.reason in (TOO_FEW, IN_USE):
            never = self._fits_nowhere([node for group in groups for node in group], wants)
            if never:
                return Verdict(LIMIT, never)
        return best.told(self._broken(), max(0, len(enough) - MOST_SEARCHES))

    def _of_devices(self, node: Node, wants: Sequence[Want]) -> Verdict | None:
        """Of the requests that the devices that the node has and reaches cannot serve, what lacks most: what is in use is waited
        for in vain as long as something else never comes there. None if each has enough."""
        requests = [ways for want in wants for ways in want.requests]
        nearest = []
        for ways in requests:
            verdicts = [self._of_request(ask, node, TOGETHER if len(requests) > 1 else NODE) for ask in ways]
            lacking = [one for one in verdicts if one is not None]
            if len(lacking) == len(verdicts):
                nearest.append(max(lacking, key=lambda one: one.rank))
        return min(nearest, key=lambda one: one.rank, default=None)

    def _of_request(self, ask: _Ask, node: Node, elsewhere: str) -> Verdict | None:
        """What the node's pools lack for the alternative, in words about all pools; None if they have enough. `elsewhere`: the
        reason if there are such devices, but only where they can never come from to this node."""
        pools = self._pools_of(node)
        here, asked = self._total(ask, pools), ask.asked
        needed = max(1, here.selected) if asked.all else asked.count
        if here.open >= needed:
            return None
        there = self._everywhere.get(id(ask))
        if there is None:
            there = self._everywhere[id(ask)] = self._count(ask, self._all_alike())
        moving = self._moving(ask)
        if not there.accepted:
            if moving.words:
                return Verdict(IN_USE, f"no device of class {asked.device_class} is listed; {moving.words}")
            failing = f"; ordered in vain so far: {moving.failing}, {moving.error}" if moving.failing else ""
            return Verdict(NONE, f"there is no device of class {asked.device_class}{failing}")
        if not there.selected:
            return Verdict(REFUSED, f"a selector refuses each of {there.accepted}: {there.refused}")
        if not here.selected and not self._may_come(ask, pools):
            where = f"such as it asks for is on {node.name} or in a pool that it reaches"
            words = f"no device of class {asked.device_class} {where}; elsewhere: {there.selected}"
            return Verdict(elsewhere, words, beside=NONE)
        if here.free >= needed:
            return Verdict(TAINTED, f"the taint {here.taint} closes what is free", here.open)
        known = there.selected + moving.hidden
        if known < needed:
            used = known - there.free
            return Verdict(TOO_FEW, f"it asks for {needed} on one node; devices in all: {known}, in use: {used}")
        if there.free:
            return Verdict(IN_USE, f"it asks for {needed} on one node, and {here.free} are free there", here.free)
        if known == moving.returning == 1:
            return Verdict(IN_USE, "the only device is going back to the pool")
        back = f"; going back to the pool: {moving.returning}" if moving.returning else ""
        return Verdict(IN_USE, (f"all {known} are in use" if known > 1 else "the only device is in use") + back)

    def _may_come(self, ask: _Ask, pools: Iterable[PoolKey]) -> bool:
        """Whether one of the pools is of a model that the alternative selects: devices come back to it from other nodes."""
        known = self._state.inventory.pools_of_model
        return any(key in known[model] for model in self._models(ask) for key in pools)

    def _moving(self, ask: _Ask) -> _Moving:
        """The devices of the models that the alternative selects that are on their way. One that is ordered stands for a device
        that a claim has in the pool until the publisher takes that off its list."""
        found = self._moves.get(id(ask))
        if found is None:
            state, models = self._state, self._models(ask)
            told, hidden, errors = Counter[str](), 0, list[str]()
            for one in state.fleet.resources.rows.values():
                if one.model not in models:
                    continue
                life, listed = state.lifecycle.devices.get(one.uid), state.is_listed(one)
                if one.leaving or (life is not None and life.state in (MARKED, DEVICE_DETACHING)):
                    told["returning"] += bool(one.uuid)
                    hidden += bool(one.uuid) and not listed
                elif one.error and not one.uuid:
                    errors.append(one.error)
                else:
                    told["coming"] += 1
                    hidden += not listed
            held = self._total(ask, (key for key, _ in self._shared))
            hidden = max(0, hidden - (held.selected - held.free))
            error = errors[0] if errors else ""
            found = _Moving(told["coming"], told["returning"], hidden, len(errors), error)
            self._moves[id(ask)] = found
        return found

    def _total(self, ask: _Ask, pools: Iterable[PoolKey]) -> _Tally:
        total = _Tally()
        for key in pools:
            total.add(self._tally(ask, key))
        return total

    def _of_node(
        self, node: Node, pod: Pod, claims: list[Claim], wants: Sequence[Want], failed: dict[tuple[int, ...], str]
    ) -> Verdict:
        """What else keeps the pod from a node that has enough devices for each of its requests. `failed`: why the search failed
        over the same pools for other nodes; it would again."""
        allocator = self._allocator(*self._pools_of(node))
        reached = allocator.reachable(node)
        same = tuple(map(id, reached))
        kept = _kept_from(node, pod)
        if same in failed:
            return self._unfit(node, claims, wants, failed[same], kept)
        # A search looks at each device once, and with constraints once again for each that it tries.
        devices = sum(len(pool.candidates) for pool in reached)
        looks = devices * (devices if any(one.constraints for one in claims) else 1)
        if looks > self._looks:
            return Verdict(NOT_COMPUTED, "not computed: the search among so many devices takes too long")
        self._looks -= looks
        try:
            fit = allocator.allocate(node, claims, steps=Steps(MOST_STEPS))
        except AllocationError as error:
            return Verdict(REFUSED, error.what)
        if not fit:
            failed[same] = fit.reason
            return self._unfit(node, claims, wants, fit.reason, kept)
        chosen = [result.key for one in fit.allocations for result in one.results]
        return kept or self._full(node, chosen) or self._untried(node, pod, chosen)

    def _unfit(
        self, node: Node, claims: Sequence[Claim], wants: Sequence[Want], reason: str, kept: Verdict | None
    ) -> Verdict:
        """Why what the node has and reaches does not serve the claims; `kept`: what keeps the pod from it."""
        closed = self._closed(node, wants)
        return (closed and kept) or closed or self._jointly(node, claims, wants, reason)

    def _closed(self, node: Node, wants: Sequence[Want]) -> Verdict | None:
        """Why the pools of a model that is wanted are closed to the node; None if they are open."""
        state = self._state
        for model in (state.settings.models[name] for want in wants for name in want.models):
            label = f"{state.settings.config.prefix}/{model.device}"
            if node.labels.get(label) == "true":
                continue
            cooling = state.failing.cooling.get((node.name, model.model))
            if cooling is not None:
                return Verdict(COOL_DOWN, cool_down_words(model.model, node.name, cooling))
            rival = conflicting_model(state, node.name, model)
            if rival:
                return Verdict(COEXISTENCE, rival_words(model.model, node.name, rival))
            why = f"{node.name} lacks the label {label}=true, which opens the pool to it"
            asked = sum(want.asked for want in wants if want.models == (model.model,))
            return self._beyond_limit(node, model, max(1, asked)) or Verdict(NODE, why)
        return None

    def _full(self, node: Node, keys: Iterable[DeviceKey]) -> Verdict | None:
        """Whether dds would refuse the order for what the scheduler would choose."""
        state, models, there = self._state, Counter[str](), Counter[str]()
        for key in keys:
            found, resource = state.inventory.model_of_pool(key[:2]), state.resource_of(key)
            if found is not None:
                models[found.model] += 1
            elif resource is not None:
                there[resource.model] += 1
        apart = apart_words(state.settings.rivals, ((one,) for one in models))
        if apart:
            return Verdict(COEXISTENCE, apart)
        settings = state.settings.models
        against = (self._beyond_limit(node, settings[name], count, there[name]) for name, count in models.items())
        return next(filter(None, against), None)

    def _beyond_limit(self, node: Node, model: Model, count: int, there: int = 0) -> Verdict | None:
        """Whether the node would have more of the model than it may with so many more. `there`: how many of those that it has are
        for the same pod."""
        top = limits_of(self._state, node.name, model.model)[1]
        filled = cell_of(self._state, node.name, model).filled
        if filled + count <= top:
            return None
        needs = count if count + there <= top else count + there
        return Verdict(LIMIT, limit_words(model.model, node.name, top, filled, needs))

    def _fits_nowhere(self, nodes: Sequence[Node], wants: Sequence[Want]) -> str:
        """Words on what the pod asks for if that is more than any of the nodes may ever have, whatever is in use now; else "".
        Devices that are fixed in a node do not count in its limit."""
        state, needs = self._state, Counter[str]()
        for want in wants:
            if len(want.models) == 1 and len(want.served) == len(want.requests):
                least = (min(0 if one.asked.admin else one.asked.count for one in ways) for ways in want.requests)
                needs[want.models[0]] += sum(least)
        for name, count in needs.items():
            top, node = max((limits_of(state, one.name, name)[1], one.name) for one in nodes)
            fixed = (state.inventory.model_of_uuid(uuid) for uuid in state.health.fixed.rows if top < count)
            if top < count and not any(one is not None and one.model == name for one in fixed):
                return limit_words(name, node, top, 0, count) + (", no other node more" if len(nodes) > 1 else "")
        return ""

    def _untried(self, node: Node, pod: Pod, keys: Sequence[DeviceKey]) -> Verdict:
        lives = [
            self._state.lifecycle.devices.get(uid) for key in keys for uid in sorted(self._state.devices_named(key))
        ]
        since = max((life.since for life in lives if life is not None), default=0)
        when = f" since {rfc3339(since)}" if since else ""
        there = f"what it asks for is free for {node.name}{when}"
        if not pod.waiting:
            return Verdict(UNTRIED, f"{there}: the scheduler has not tried its pod yet")
        return Verdict(UNTRIED, f"{there}: the scheduler has not tried since, or its pod lacks something else there")

    def _jointly(self, node: Node, claims: Sequence[Claim], wants: Sequence[Want], reason: str) -> Verdict:
        """Why devices that would do one by one do not do together."""
        if reason == TIMED_OUT:
            why = f"devices that satisfy its constraints together were not found in {MOST_STEPS} steps"
            return Verdict(CONSTRAINT, why)
        asks, pools = [ask for want in wants for ways in want.requests for ask in ways], self._pools_of(node)
        opened = {key for ask in asks for pool in pools for key in self._tally(ask, pool).keys}
        for pool in self._allocator(*self._pools_of(node)).reachable(node):
            rest = left(pool, self._in_use)
            for candidate in (one for one in pool.consumers if one.key in opened):
                for name, counters in candidate.consumes.items():
                    short = next((counter for counter, amount in counters.items() if amount > rest[name][counter]), "")
                    if short:
                        why = f"what is in use leaves too little of the counter {short} of {name} in pool {pool.key[1]}"
                        return Verdict(COUNTERS, why)
        rules = [one for claim in claims for one in claim.constraints]
        if rules:
            first = f"one value of {rules[0].match}" if rules[0].match else f"different values of {rules[0].distinct}"
            return Verdict(CONSTRAINT, f"no free devices of one node have {first}, as it asks for")
        devices = (self._state.inventory.device(key) for key in opened)
        if any(device is not None and device.shared for device in devices):
            return Verdict(CAPACITY, "the shared devices have too little capacity left")
        return Verdict(TOGETHER, "the requests of its pod together ask for more than is free for one node")

    # -- what is there -----------------------------------------------------------------------------------------------------

    def _pools_of(self, node: Node) -> list[PoolKey]:
        """The node's own pools and those that it reaches, as if no pool were closed to it."""
        found = self._reached.get(node.name)
        if found is None:
            inventory, config = self._state.inventory, self._state.settings.config
            labels = {**node.labels, **{f"{config.prefix}/{one.device}": "true" for one in config.models}}
            shared = (key for key, to in self._shared if to is None or node_matches(to, node.name, labels))
            found = self._reached[node.name] = [*sorted(inventory.pools_at[node.name]), *shared]
        return found

    def _tally(self, ask: _Ask, key: PoolKey) -> _Tally:
        found = self._tallies.get((id(ask), key))
        if found is None:
            found = self._tallies[id(ask), key] = self._count(ask, self._alike_in(key))
        return found

    def _count(self, ask: _Ask, devices: Iterable[_Alike]) -> _Tally:
        tally = _Tally()
        for some in devices:
            accepted, refused = self._judge_kind(ask, some)
            tally.accepted += some.number * accepted
            if refused:
                tally.refused = tally.refused or (refused if accepted else "")
                continue
            tally.selected += some.number
            free = some.number if ask.asked.admin else len(some.free)
            tally.free += free
            taint = next((one for one in some.taints if prevented((one,), ask.asked.tolerations)), None)
            if taint is None:
                tally.open += free
                tally.keys += some.free
            elif free:
                tally.taint = tally.taint or f"{taint.key}:{taint.effect}"
        return tally

    def _judge_kind(self, ask: _Ask, some: _Alike) -> tuple[bool, str]:
        """Whether the class accepts such devices, and which selector refuses them."""
        found = self._judged.get((id(ask), some.kind))
        if found is None:
            allocator = self._allocator(some.example[:2])
            refused = allocator.refusal(ask.alone, some.example, doubt=True)
            accepted = refused is None or allocator.refusal(ask.by_class, some.example, doubt=True) is None
            found = self._judged[id(ask), some.kind] = (accepted, refused or "")
        return found

    def _alike_in(self, pool: PoolKey) -> tuple[_Alike, ...]:
        """The devices of a pool by kind; none of a pool that cannot be used."""
        found = self._alike.get(pool)
        if found is None:
            by_kind: dict[_Kind, list[DeviceKey]] = {}
            there = self._state.inventory.pools[pool]
            for name, device in there.devices.items() if there.usable else ():
                by_kind.setdefault(self._kind((*pool, name), device), []).append((*pool, name))
            found = self._alike[pool] = tuple(self._some_alike(kind, keys) for kind, keys in by_kind.items())
        return found

    def _all_alike(self) -> tuple[_Alike, ...]:
        """The devices of all pools by kind."""
        if not self._all:
            found: dict[_Kind, list[_Alike]] = {}
            for pool in self._state.inventory.pools:
                for some in self._alike_in(pool):
                    found.setdefault(some.kind, []).append(some)
            self._all = tuple(
                parts[0]._replace(
                    number=sum(one.number for one in parts), free=tuple([key for one in parts for key in one.free])
                )
                for parts in found.values()
            )
        return self._all

    def _some_alike(self, kind: _Kind, keys: list[DeviceKey]) -> _Alike:
        whole, shares = self._in_use.devices, self._in_use.shares
        device = self._state.inventory.device(keys[0])
        assert device is not None, "its pool was just looked at"
        free = tuple(key for key in keys if key not in whole and (device.shared or key not in shares))
        return _Alike(kind, self._taints(keys[0], device), len(keys), keys[0], free)

    def _kind(self, key: DeviceKey, device: Device) -> _Kind:
        names = self._named_attributes()
        attributes = tuple([device.attributes.get(name) for name in names])
        capacity = tuple([device.capacity.get(name) for name in names]) if device.capacity else ()
        return key[0], attributes, capacity, device.versions, device.shared, self._taints(key, device)

    def _taints(self, key: DeviceKey, device: Device) -> tuple[Taint, ...]:
        rules = (one for pool in ("", key[1]) for one in self._rules.get(pool, ()))
        return (*device.taints, *(one.taint for one in rules if one.covers(key))) if self._rules else device.taints

    def _groups_of_nodes(self) -> list[list[Node]]:
        """The nodes with the same numbers of devices of each kind, together."""
        if not self._groups:
            found: dict[object, list[Node]] = {}
            for node in self._nodes:
                pools = self._pools_of(node)
                own = (some for key in pools if self._state.inventory.pools[key].node for some in self._alike_in(key))
                told = (tuple((one.kind, one.number, len(one.free)) for one in own), tuple(self._shared_of(pools)))
                found.setdefault(told, []).append(node)
            self._groups = list(found.values())
        return self._groups

    def _shared_of(self, pools: Iterable[PoolKey]) -> Iterator[PoolKey]:
        return (key for key in pools if not self._state.inventory.pools[key].node)

    def _broken(self) -> str:
        """A pool of a model that cannot be used as it is published; "" if all can."""
        inventory = self._state.inventory
        return next(
            (
                key[1]
                for keys in inventory.pools_of_model.values()
                for key in sorted(keys)
                if not inventory.pools[key].usable
            ),
            "",
        )


def _kept_from(node: Node, pod: Pod) -> Verdict | None:
    """What keeps the pod from the node, whatever is free there. A taint of its owner, which the pod does not tolerate, says that
    the node is for others: what lacks on any node that the pod may use counts more, devices in use too. A cordon, or a taint of
    the control plane, passes: a device that is free there lacks less than one that is not. But nodes that take the pod and only
    wait for their turn (cool-down, limit) are nearer still; they stand before it, as the search looks at them first."""
    against = node.against(pod.tolerations)
    if not against:
        return None
    for_others = replace(node, unschedulable=False).against(pod.tolerations, passing=False)
    return Verdict(NODE, against, beside=TOO_FEW if for_others else COOL_DOWN)


class _Best:
    """The reason of the node that lacks least, and how many nodes have the same."""

    def __init__(self) -> None:
        self._best = Verdict("", "")
        self._nodes = 0

    @property
    def reason(self) -> str:
        return self._best.reason

    def add(self, verdict: Verdict, nodes: int = 1) -> None:
        now, best = verdict.rank, self._best.rank
        self._nodes = nodes if now > best else self._nodes + nodes * (now == best)
        if (now, verdict.free) > (best, self._best.free):
            self._best = verdict

    def told(self, broken: str, unsearched: int) -> Verdict:
        """The verdict; a pool that cannot be used explains why devices lack."""
        one, others = self._best, self._nodes - 1 + unsearched
        many = others > 0 and one.reason in (COOL_DOWN, COEXISTENCE, LIMIT, NODE)
        nodes = f"{others} other nodes take" if others > 1 else "1 other node takes"
        more = f"; {nodes} none either" if many else ""
        lacks = (
            f"; pool {broken} is incomplete or faulty"
            if broken and one.reason in (NONE, REFUSED, TOO_FEW, IN_USE)
            else ""
        )
        return one._replace(why=f"{one.why}{more}{lacks}")


def _in_use(state: State) -> InUse:
    """What claims have, holds included, and what is reserved for a claim that is about to get it."""
    found = InUse.by(state.demand.claims.rows.values())
    for uid in (uid for uids in state.lifecycle.idle_at.values() for uid in uids):
        resource = state.fleet.resources.get(uid)
        if resource is not None and resource.uuid and state.promised(resource.uuid):
            for key in state.names_of(resource):
                found.count(key, None)
    return found


def _encoded(what: object) -> bytes:
    return msgspec.json.encode(what, order="deterministic")
