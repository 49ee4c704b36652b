"""Which devices satisfy which claims, by the rules of Kubernetes (KEP-4815, 4816, 5055, 5075) and what docs/rules.md adds, each
way judged on its own: no search but trying everything. Of the product only single expressions, quantities and the forms of rows
are used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product
from math import ceil
from typing import Any

from dds_core.lifecycle import DEVICE_DETACHING
from dds_core.matching.cel import DeviceView, compile
from dds_core.matching.errors import SelectorError
from dds_core.matching.quantities import NANO, parse
from dds_core.matching.versions import Version
from dds_core.model import Alternative, CapacityPolicy, Claim, Device, DeviceKey, FabricResource, Result, Slice, Taint
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.model import DEPARTED
from tests.property.fleets import BUS, MODELS, NODE, ROOT, Case

PARTS = ("mig", "vf", "amdgpu-partition")
OURS = {model.driver for model in MODELS}


@dataclass(frozen=True, eq=False)
class Way:
    """One of the ways to satisfy a request, by the name that a result has then. `everything`: all devices, not `count`."""

    claim: str
    request: str
    name: str
    asked: Alternative
    count: int
    everything: bool = False


@dataclass(frozen=True)
class Pick:
    """A device for a request."""

    way: Way
    key: DeviceKey


@dataclass
class Wanted:
    """What a claim waits for: by request the ways to satisfy it, the places that wait, and what it keeps (for its
    constraints)."""

    claim: Claim
    ways: dict[str, list[Way]] = field(default_factory=dict)
    now: dict[str, Way] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    kept: list[Result] = field(default_factory=list)


@dataclass
class Usage:
    """What is in use: devices as a whole, and of shares what they take together (None: no share is out)."""

    whole: Counter[DeviceKey] = field(default_factory=Counter)
    shares: dict[DeviceKey, Counter[str]] = field(default_factory=dict)

    def add(self, key: DeviceKey, consumed: dict[str, int] | None) -> None:
        if consumed is None:
            self.whole[key] += 1
        else:
            self.shares.setdefault(key, Counter()).update(consumed)

    def copy(self) -> Usage:
        return Usage(self.whole.copy(), {key: amounts.copy() for key, amounts in self.shares.items()})

    @property
    def keys(self) -> set[DeviceKey]:
        return set(self.whole) | set(self.shares)


class Judge:
    """What may be given on the node as it is."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.unsound = False
        """Whether a pool is incomplete or invalid: then nobody gets all devices of anything."""
        self.listed: dict[DeviceKey, Device] = {}
        self.known: dict[DeviceKey, Device] = {}
        """As the newest generation shows it that lists it."""
        self.usable: dict[DeviceKey, Device] = {}
        self.counters: dict[tuple[str, str, str, str], int] = {}
        pools: dict[tuple[str, str], list[Slice]] = defaultdict(list)
        for one in case.rows("slices").values():
            pools[one.driver, one.pool].append(one)
        for pool, slices in pools.items():
            self._read_pool(pool, slices)
        self.faces = _faces(self.listed)
        self.given: list[tuple[DeviceKey, dict[str, int] | None]] = []
        self.served: set[str] = set()
        """Who was given that: shares that stand ready for them are theirs no more."""
        self._accepted: dict[tuple[int, DeviceKey], bool] = {}

    def _read_pool(self, pool: tuple[str, str], slices: list[Slice]) -> None:
        newest = max(one.generation for one in slices)
        current = [one for one in slices if one.generation == newest]
        for one in sorted(slices, key=lambda one: one.generation):
            self.known |= {(*pool, name): device for name, device in one.devices.items()}
        names = [name for one in current for name in one.devices]
        devices = {(*pool, name): device for one in current for name, device in one.devices.items()}
        self.listed |= devices
        sets = {name: each for one in current for name, each in one.counters.items()}
        drawn = [(s, c) for device in devices.values() for s, each in device.consumes.items() for c in each]
        sound = len(current) == current[0].slices and len(names) == len(set(names))
        if not sound or not all(counter in sets.get(name, {}) for name, counter in drawn):
            self.unsound = True
            return
        self.usable |= devices
        self.counters |= {(*pool, name, c): number(text) for name, each in sets.items() for c, text in each.items()}

    # -- what is free ---------------------------------------------------------------------------------------------------

    def free(self, group: set[str]) -> list[DeviceKey]:
        """The devices that the claims of this group may have."""
        usage, others = self.held(), self.promised(but=group)
        lives = (self.case.rows("lives").get(uid) for uid in group)
        vain = {identity for life in lives if life is not None for identity in life.excluded}
        return [key for key in self.usable if not self.why_not(key, usage, others, vain)]

    def why_not(self, key: DeviceKey, usage: Usage, others: list[ReservedDevice], vain: set[str]) -> str:
        """Why nobody, or not this group, may have the device; "" when it may."""
        device, hardware = self.usable[key], self.faces[key]
        if key[0] not in OURS or device.binding or self.is_part(key):
            return "not for us to give, or a part"
        resource = self.resource_of(key)
        if (resource is not None and resource.node != NODE) or not self.is_there(key, resource):
            return "not there"
        if self.identity(key, resource) in vain:
            return "handed over in vain"
        used = usage.keys
        if hardware & used or (not device.shared and self._names(key, resource) & used):
            return "another face of it is held, or it is"
        for taken, amounts in self.given:
            if taken in hardware or (taken == key and amounts is None):
                return "given to an earlier group"
        for promise in others:
            known = promise.uuid in self.uuids(key) or promise.key in hardware
            if (known and promise.key != key) or (promise.key == key and not (device.shared and promise.share)):
                return "promised to others"
        return ""

    def _names(self, key: DeviceKey, resource: FabricResource | None) -> set[DeviceKey]:
        """Under which the device is taken, or was."""
        life = self.case.rows("devices").get(resource.uid) if resource is not None else None
        return {key} if life is None or life.key is None else {key, life.key}

    def identity(self, key: DeviceKey, resource: FabricResource | None) -> str:
        return resource.uuid if resource is not None else (self.uuids(key) or ["/".join(key)])[0]

    def resource_of(self, key: DeviceKey) -> FabricResource | None:
        rows = self.case.rows("resources")
        for uuid in self.uuids(key):
            found = [uid for uid, one in rows.items() if one.uuid == uuid]
            if found:
                one: FabricResource = rows[min(found)]
                return one
        return None

    def uuids(self, key: DeviceKey) -> list[str]:
        """By which the hardware may be known, its own first."""
        rows = (self.listed[one].attributes for one in (key, *sorted(self.faces[key])))
        return [uuid for row in rows if (uuid := str(row.get("parentUUID") or row.get("uuid") or ""))]

    def is_there(self, key: DeviceKey, resource: FabricResource | None) -> bool:
        case = self.case
        if resource is None:
            uuid = (self.uuids(key) or [""])[0]
            return (DEPARTED, uuid) not in case.rows("fired_deadlines") and not self._may_be_coming(key)
        life, fence = case.rows("devices").get(resource.uid), case.rows("fences").get(resource.uid)
        holders = [*case.rows("reservations").values(), *case.rows("lives").values()]  # in observe the lives
        promises = [one for row in holders for one in row.promises]
        waited_out = any(one.uuid == resource.uuid for one in promises)  # an error of what is promised may pass
        if resource.state not in ("Online", "Attaching") or resource.deleting:
            return False
        if resource.error and not (waited_out and resource.state == "Online"):
            return False
        if fence is not None and fence.ordered:
            return False
        return life is None or life.state != DEVICE_DETACHING

    def _may_be_coming(self, key: DeviceKey) -> bool:
        device = self.usable[key]
        mine = next(
            (m for m in MODELS if m.driver == key[0] and m.attributes.items() <= device.attributes.items()), None
        )
        for one in self.case.rows("resources").values():
            if one.node != NODE or one.uuid or one.deleting or one.state not in ("", "Attaching"):
                continue
            model = next(m for m in MODELS if m.model == one.model)
            if model == mine or (mine is None and model.driver == key[0]):
                return True
        return False

    def is_part(self, key: DeviceKey) -> bool:
        """Less than another face of its hardware, or called a part."""
        device = self.listed[key]
        if device.attributes.get("type") in PARTS or device.attributes.get("parentUUID"):
            return True
        return any(
            number(self.listed[other].consumes.get(name, {}).get(counter, "0")) > number(text)
            for other in self.faces[key]
            for name, each in device.consumes.items()
            for counter, text in each.items()
        )

    def held(self) -> Usage:
        """By claims, whoever they are; who only looks on holds nothing."""
        usage = Usage()
        for claim in self.case.rows("claims").values():
            for result in claim.allocation.results if claim.allocation is not None else ():
                if not result.admin:
                    usage.add(result.key, numbers(result.consumed) if result.share else None)
        return usage

    def promised(self, but: set[str]) -> list[ReservedDevice]:
        """What stands ready for others."""
        case = self.case
        if case.live:
            rows = case.rows("reservations").items()
            return [one for key, row in rows if key not in but for one in row.promises]
        return [one for uid, life in case.rows("lives").items() if uid not in but for one in life.promises]

    def in_use(self, group: set[str]) -> Usage:
        """What is taken of capacities and counters before the group gets anything."""
        usage = self.held()
        for promise in self.promised(but=group | self.served):
            usage.add(promise.key, numbers(promise.consumed) if promise.share else None)
        for key, amounts in self.given:
            usage.add(key, amounts)
        return usage

    # -- what is asked for ----------------------------------------------------------------------------------------------

    def wanted(self, claim: Claim) -> Wanted | None:
        """None where it is not known."""
        assert claim.allocation is not None
        results = claim.allocation.results
        waiting = [place for place, result in enumerate(results) if result.binding and not result.admin]
        wanted = Wanted(claim)
        if not claim.known:
            return None
        for request in claim.requests:
            mine = [place for place, one in enumerate(results) if one.request.split("/")[0] == request.name]
            places = [place for place in mine if place in waiting]
            if not places:
                continue
            rows = {one.name: one for one in request.alternatives}
            chosen = results[places[0]].request.partition("/")[2]
            if chosen not in rows:
                return None
            no_worse = request.alternatives[: [*rows].index(chosen) + 1]
            ways = [_way(claim, request.name, one, one.count, everything=one.all) for one in no_worse]
            now = _way(claim, request.name, rows[chosen], len(places))
            wanted.now[request.name] = now
            wanted.ways[request.name] = [now] if rows[chosen].all or len(places) < len(mine) else ways
            wanted.places[request.name] = places
        if {place for places in wanted.places.values() for place in places} != set(waiting):
            return None
        wanted.kept = [result for result in results if not result.binding]
        return wanted

    # -- what is allowed ------------------------------------------------------------------------------------------------

    def accepts(self, asked: Alternative, key: DeviceKey) -> bool:
        """By class, selectors and taints."""
        known = self._accepted.get((id(asked), key))
        if known is None:
            known = self._accepted[id(asked), key] = self._selects(asked, key) and not self._is_tainted(asked, key)
        return known

    def _selects(self, asked: Alternative, key: DeviceKey) -> bool:
        classes = {one.name: one.selectors for one in self.case.rows("classes").values()}
        if asked.device_class not in classes:
            return False
        device = self.usable[key]
        return all(evaluated(one, key[0], device) for one in (*classes[asked.device_class], *asked.selectors))

    def _is_tainted(self, asked: Alternative, key: DeviceKey) -> bool:
        taints = [*self.usable[key].taints]
        for rule in self.case.rows("taint_rules").values():
            wanted = (rule.driver, rule.pool, rule.device)
            if all(not want or want == have for want, have in zip(wanted, key, strict=True)):
                taints.append(rule.taint)
        return any(one.effect in ("NoSchedule", "NoExecute") and not _tolerated(one, asked) for one in taints)

    def takes(self, asked: Alternative, key: DeviceKey) -> dict[str, int] | None:
        """What of each capacity goes to who asks so; None where the device cannot give it."""
        device = self.usable[key]
        if not asked.capacity.keys() <= device.capacity.keys():
            return None
        amounts = {}
        for name, text in device.capacity.items():
            wanted = asked.capacity.get(name)
            amount = consumed(number(wanted) if wanted else None, number(text), device.policies.get(name))
            if amount is None or amount > number(text):
                return None
            amounts[name] = amount
        return amounts

    def faults(self, picks: Sequence[Pick], group: Sequence[Wanted], usage: Usage) -> Iterator[str]:
        """What is wrong with giving these devices, all of which are free and accepted."""
        now, charged = usage.copy(), Counter[tuple[str, str, str, str]]()
        for key in sorted(usage.keys & self.usable.keys()):
            self._charge(charged, key)
        together: set[DeviceKey] = set()
        new: set[DeviceKey] = set()
        for pick in picks:
            key, device = pick.key, self.usable[pick.key]
            amounts = self.takes(pick.way.asked, key)
            if amounts is None:
                yield f"{key} cannot give {pick.way.asked.capacity}"
                return
            if key in now.whole or (not device.shared and key in now.shares):
                yield f"{key} is taken twice"
            if together & self.faces[key]:
                yield f"{key} is taken with another face of it"
            if key not in now.keys:
                self._charge(charged, key)
                new.add(key)
            now.add(key, amounts if device.shared else None)
            together.add(key)
            if device.shared and any(now.shares[key][n] > number(text) for n, text in device.capacity.items()):
                yield f"more of {key} than there is"
        if any(charged[counter] > self.counters[counter] and self._draws(new, counter) for counter in charged):
            yield "more of a counter than there is"
        once = Counter((pick.way, pick.key) for pick in picks)
        yield from (f"{key} twice for {way.name}" for (way, key), times in once.items() if times > 1)
        for wanted in group:
            mine = [pick for pick in picks if pick.way.claim == wanted.claim.uid]
            yield from self._broken(wanted, mine) if mine else ()

    def _charge(self, charged: Counter[tuple[str, str, str, str]], key: DeviceKey) -> None:
        for set_, each in self.usable[key].consumes.items():
            charged.update({(*key[:2], set_, counter): number(text) for counter, text in each.items()})

    def _draws(self, keys: Iterable[DeviceKey], counter: tuple[str, str, str, str]) -> bool:
        return any(key[:2] == counter[:2] and counter[2] in self.usable[key].consumes for key in keys)

    def _broken(self, wanted: Wanted, picks: list[Pick]) -> Iterator[str]:
        """The constraints that these devices, with those that the claim keeps, do not satisfy."""
        for constraint in wanted.claim.constraints:
            named = set(constraint.requests)
            all_ = [(one.request, one.key) for one in wanted.kept] + [(one.way.name, one.key) for one in picks]
            keys = [key for name, key in all_ if not named or {name, name.split("/")[0]} & named]
            values = [self.value(key, constraint.match or constraint.distinct) for key in keys]
            if None in values:
                yield f"{constraint}: one lacks it"
            if len(set(values)) > 1 if constraint.match else len(set(values)) < len(values):
                yield f"{constraint}: {values}"

    def value(self, key: DeviceKey, name: str) -> tuple[str, object] | None:
        """With its type: 1 is not True, and a version is no string."""
        device = self.known.get(key)
        if device is None:
            return None
        domain, _, plain = name.partition("/")
        for known in (name, plain if domain == key[0] else name):
            if known in device.attributes:
                value = device.attributes[known]
                return ("version" if known in device.versions else type(value).__name__, value)
        return None

    # -- everything tried -----------------------------------------------------------------------------------------------

    def solvable(self, group: Sequence[Wanted], free: Sequence[DeviceKey], usage: Usage) -> bool:
        """Whether there are devices for everything."""
        asked = [ways for wanted in group for ways in wanted.ways.values()]
        if self._is_hopeless(asked) or not free:
            return False
        return self._try(asked, [], group, free, usage)

    def _is_hopeless(self, asked: list[list[Way]]) -> bool:
        """What ends the pod's allocation whatever is free."""
        classes = {one.name for one in self.case.rows("classes").values()}
        ways = [way for each in asked for way in each]
        return any(way.asked.device_class not in classes or (way.everything and self.unsound) for way in ways)

    def _try(
        self,
        asked: list[list[Way]],
        picks: list[Pick],
        group: Sequence[Wanted],
        free: Sequence[DeviceKey],
        usage: Usage,
    ) -> bool:
        if not asked:
            return True
        for way in asked[0]:
            for keys in self._sets(way, free, usage):
                more = [*picks, *(Pick(way, key) for key in keys)]
                if not next(self.faults(more, group, usage), "") and self._try(asked[1:], more, group, free, usage):
                    return True
        return False

    def _sets(self, way: Way, free: Sequence[DeviceKey], usage: Usage) -> Iterator[tuple[DeviceKey, ...]]:
        if way.everything:
            everything = self.all_of(way, usage)
            if everything and set(everything) <= set(free) and all(self.accepts(way.asked, key) for key in everything):
                yield everything
            return
        yield from combinations([key for key in free if self.accepts(way.asked, key)], way.count)

    def all_of(self, way: Way, usage: Usage) -> tuple[DeviceKey, ...]:
        """Every device that is selected and can give what is asked for, whoever has it."""
        found = []
        for key, device in self.usable.items():
            amounts = self.takes(way.asked, key) if self._selects(way.asked, key) else None
            if amounts is None:
                continue
            taken = usage.shares.get(key, Counter()) if device.shared else Counter[str]()
            if not device.shared or all(taken[n] + a <= number(device.capacity[n]) for n, a in amounts.items()):
                found.append(key)
        return tuple(found)


def _way(claim: Claim, request: str, asked: Alternative, count: int, *, everything: bool = False) -> Way:
    name = f"{request}/{asked.name}" if asked.name else request
    return Way(claim.uid, request, name, asked, count, everything)


def _tolerated(taint: Taint, asked: Alternative) -> bool:
    for one in asked.tolerations:
        same = (one.operator == "Exists" or one.value == taint.value) and one.key in ("", taint.key)
        if same and one.effect in ("", taint.effect):
            return True
    return False


def number(text: str) -> int:
    return parse(text).nanos


def numbers(texts: dict[str, str]) -> dict[str, int]:
    return {name: number(text) for name, text in texts.items()}


def consumed(wanted: int | None, value: int, policy: CapacityPolicy | None) -> int | None:
    """KEP-5075: nothing asked is the default, else all; what is asked for is rounded up to what the policy has."""
    if wanted is None:
        return number(policy.default) if policy is not None and policy.default else value
    if policy is None:
        return wanted
    if policy.values:
        return min((number(one) for one in policy.values if number(one) >= wanted), default=None)
    amount = max(wanted, number(policy.min))
    if policy.step and wanted > number(policy.min):
        low, step = number(policy.min) // NANO, number(policy.step) // NANO
        amount = (low + ceil((ceil(wanted / NANO) - low) / step) * step) * NANO
    return None if policy.max and amount > number(policy.max) else amount


_views: dict[int, tuple[Device, DeviceView]] = {}


def evaluated(expression: str, driver: str, device: Device) -> bool:
    """What fails on a device does not select it."""
    known = _views.get(id(device))
    if known is None or known[0] is not device or known[1].driver != driver:
        known = _views[id(device)] = (device, _view(driver, device))
        if len(_views) > 1000:
            _views.clear()
    try:
        return compiled(expression) and compile(expression).matches(known[1])
    except SelectorError:
        return False


@lru_cache
def compiled(expression: str) -> bool:
    try:
        compile(expression)
    except SelectorError:
        return False
    return True


def _view(driver: str, device: Device) -> DeviceView:
    attributes: dict[str, Any] = {
        name: Version(value) if name in device.versions else value for name, value in device.attributes.items()
    }
    return DeviceView(driver, attributes, {n: parse(text) for n, text in device.capacity.items()}, device.shared)


def _faces(devices: dict[DeviceKey, Device]) -> dict[DeviceKey, set[DeviceKey]]:
    """By device the others of its pool that are the same hardware, or may be."""
    groups = {key: {key} for key in devices}
    tokens = {key: _tokens(device) for key, device in devices.items()}
    pairs = [(one, other) for one, other in product(devices, devices) if one[:2] == other[:2]]
    for one, other in pairs:
        if tokens[one] & tokens[other] and groups[one] is not groups[other]:
            groups[one] |= groups[other]
            for each in groups[one]:
                groups[each] = groups[one]
    faces = {key: groups[key] - {key} for key in devices}
    for one, other in pairs:
        root = devices[one].attributes.get(ROOT)
        function, owner = (devices[key].attributes.get("type") == "vf" for key in (one, other))
        if root and function and not owner and root == devices[other].attributes.get(ROOT):
            faces[one].add(other)
            faces[other].add(one)
    return faces


def _tokens(device: Device) -> set[str]:
    named = {str(device.attributes.get(name) or "") for name in ("uuid", "parentUUID", BUS)} - {""}
    return named | {f"counters/{name}" for name in device.consumes}
