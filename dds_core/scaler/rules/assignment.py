"""Which device is there for which waiting claim: a pure function of the picture, one node at a time.

The claims that wait on a node are served in order: those that already have their devices first, then by their pods' priority, by
age and by name. Each
unit (one pool device that the scheduler handed out) is covered by the best thing there is: a free device on the node, one
that is being attached, one that was ordered, one whose attach reports an error, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dds_core.lifecycle import ATTACHED, LEAVING, USED, WAITING
from dds_core.matching.quantities import amount
from dds_core.model import BLOCKING, OWNER, OWNER_LABEL, Claim, Device, DeviceKey, FabricResource, Model, Result
from dds_core.scaler.model import DEPARTED, is_tainted, model_of_device
from dds_core.scaler.rules.devices import BEING_ATTACHED, is_marked
from dds_core.scaler.state import Picture

NOBODY: frozenset[DeviceKey] = frozenset()
Way = Literal["attaching", "ordered", "erring", "missing", "sharing"]


@dataclass(slots=True)
class Found:
    """A device on the node: its name, its UUID, the resource behind it (None: fixed), and the other faces of its hardware."""

    key: DeviceKey
    uuid: str
    device: Device
    resource: FabricResource | None
    others: frozenset[DeviceKey] = NOBODY
    left: dict[str, Fraction] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """As that of a `Promise`."""
        return self.uuid or "/".join(self.key)


@dataclass(slots=True)
class Cover:
    """How one claim's units are covered. `ready` pairs the place of a result with its device; the others hold a model for
    each unit, `attaching` and `erring` the resource's uid as well. `sharing` units wait for the order of a device that
    another unit of the same pool device is missing."""

    claim: Claim
    ready: list[tuple[int, Found]] = field(default_factory=list)
    attaching: list[tuple[str, str]] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    erring: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    sharing: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Every unit has a device on the node."""
        return bool(self.ready) and self.asked and not (self.attaching or self.ordered or self.erring)

    @property
    def asked(self) -> bool:
        """Every unit is at least ordered."""
        return not (self.missing or self.sharing)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources concerned, those on the node first."""
        there = [found.resource.uid for _, found in self.ready if found.resource is not None]
        return tuple(dict.fromkeys([*there, *(uid for _, uid in self.attaching), *(uid for _, uid in self.erring)]))


class Supply:
    """What a node has for one model, handed out unit by unit."""

    def __init__(self, picture: Picture, node: str, model: Model) -> None:
        self._picture = picture
        self.free = _free_devices(picture, node, model)
        here = (picture.resources.rows[uid] for uid in picture.resources_at[node])
        under_way = sorted((r for r in here if r.model == model.model), key=lambda r: (r.created, r.name))
        coming = [r for r in under_way if _coming(picture, r)]
        unlisted = [r for r in under_way if _unlisted(picture, r)]
        self.unlisted = {r.uuid: r.uid for r in unlisted if r.uuid and picture.promised(r.uuid)}
        self.attaching = [r.uid for r in unlisted if r.uuid not in self.unlisted]
        self.attaching += [r.uid for r in coming if not r.error]
        self.erring = [r.uid for r in coming if r.error]
        self.ordered = _ordered_not_made(picture, node, model, under_way)
        self._shares: dict[DeviceKey, Found] = {}
        self._shared_ways: dict[DeviceKey, tuple[Way, str]] = {}

    def device_for(self, claim: Claim, result: Result, promised: str) -> Found | None:
        """Take the device promised to this result if it is still there, else a free one promised to nobody."""
        together = self._shares.get(result.key) if result.share else None
        if together is not None and _fits(together, result):
            _consume(together, result)
            return together
        there = promised and any(found.identity == promised for found in self.free)
        for place, found in enumerate(self.free):
            mine = found.identity == promised if there else not _is_promised(self._picture, found)
            if not mine or (found.device.shared and not _fits(found, result)):
                continue
            if found.device.shared:
                _consume(found, result)
                self._shares[result.key] = found
            else:
                del self.free[place]
                self.free = [one for one in self.free if one.key not in found.others]
            return found
        return None

    def way_for(self, result: Result, promised: str) -> tuple[Way, str]:
        """How a unit without a device will get one, and the resource that brings it: the one that was promised when it is
        only not listed now. The shares of one pool device come with one device."""
        if promised in self.unlisted:
            return "attaching", self.unlisted.pop(promised)
        if not result.share:
            return self._next_way()
        if result.key not in self._shared_ways:
            way = self._next_way()
            self._shared_ways[result.key] = ("sharing", "") if way[0] == "missing" else way
            return way
        return self._shared_ways[result.key]

    def _next_way(self) -> tuple[Way, str]:
        if self.attaching:
            return "attaching", self.attaching.pop(0)
        if self.ordered:
            self.ordered -= 1
            return "ordered", ""
        if self.erring:
            return "erring", self.erring.pop(0)
        return "missing", ""


def cover(picture: Picture, node: str) -> list[Cover]:
    """The covers of all claims that wait on `node`, in the order in which they are served."""
    covers: list[Cover] = []
    supplies: dict[str, Supply] = {}
    for claim in waiting_claims(picture, node):
        current = Cover(claim)
        promises = _promises(picture, claim)
        seen: set[DeviceKey] = set()
        for place, result, model in picture.pool_results(claim.allocation):
            supply = supplies.get(model.model)
            if supply is None:
                supply = supplies[model.model] = Supply(picture, node, model)
            if result.key in seen and not result.share:
                continue
            seen.add(result.key)
            _cover_unit(current, supply, model.model, place, result, promises.get(place, ""))
        covers.append(current)
    return covers


def _cover_unit(current: Cover, supply: Supply, model: str, place: int, result: Result, promised: str) -> None:
    found = supply.device_for(current.claim, result, promised)
    if found is not None:
        current.ready.append((place, found))
        return
    way, uid = supply.way_for(result, promised)
    match way:
        case "attaching":
            current.attaching.append((model, uid))
        case "erring":
            current.erring.append((model, uid))
        case "ordered":
            current.ordered.append(model)
        case "sharing":
            current.sharing.append(model)
        case "missing":
            current.missing.append(model)


def waiting_claims(picture: Picture, node: str) -> list[Claim]:
    """The claims whose current attempt waits for pool devices on `node`, in the order in which they are served."""
    found = []
    for uid in {*picture.waiting_at[node], *picture.claims_on[""]}:
        claim, life = picture.claims.get(uid), picture.lives.get(uid)
        if claim is None or life is None or life.state not in WAITING or life.allocation is None:
            continue
        if claim.allocation != life.allocation or uid in picture.failures or picture.node_of(claim) != node:
            continue
        if not all(_is_ready(claim, result) for _, result, _ in picture.pool_results(claim.allocation)):
            priority = max((pod.priority for pod in picture.pods_of(claim)), default=0) if picture.prioritized else 0
            found.append((life.state != ATTACHED, -priority, claim.created, claim.namespace, claim.name, uid, claim))
    found.sort(key=lambda row: row[:6])
    return [row[6] for row in found]


def _is_ready(claim: Claim, result: Result) -> bool:
    """Somebody says that the device is there: the scheduler binds, and nothing has to be found or asked for."""
    true = {c.type for c in claim.conditions if c.status == "True" and (c.driver, c.pool, c.device) == result.key}
    return true.issuperset(result.binding)


def _promises(picture: Picture, claim: Claim) -> dict[int, str]:
    """The device meant for each result of the claim; for an extended-resource claim by the pod that it serves."""
    if not picture.live:
        life = picture.lives.get(claim.uid)
        return {promise.result: promise.identity for promise in life.promises} if life is not None else {}
    keys = [claim.uid, *([f"pod:{claim.owner}"] if claim.extended and claim.owner else [])]
    for key in keys:
        row = picture.reservations.get(key)
        if row is not None:
            return {promise.result: promise.identity for promise in row.promises}
    return {}


def _devices_left(picture: Picture, node: str, model: Model) -> Iterator[Found]:
    """The devices of a model in the node's own slices that no claim has for itself or in parts, in the order of their names. A
    pool that is incomplete has none, and a part is never given for a whole."""
    held = picture.holders.sets
    for key in sorted(picture.pools_at[node]):
        pool = picture.pools[key]
        if key[0] != model.driver or not pool.usable:
            continue
        for name, device in pool.devices.items():
            full = (*key, name)
            face = picture.face(full)
            if face.part or (not device.shared and full in held):
                continue
            if face.others and any((*key, one) in held for one in face.others):
                continue
            resource = picture.resource_of(full)
            uuid = resource.uuid if resource is not None else face.uuid
            if resource is not None:
                if resource.model != model.model or resource.node != node:
                    continue
            elif model_of_device(picture.config, key[0], device) != model:
                continue
            others = frozenset((*key, one) for one in face.others) if face.others else NOBODY
            yield Found(full, uuid, device, resource, others)


def _free_devices(picture: Picture, node: str, model: Model) -> list[Found]:
    """Devices that a claim could have now: fixed ones first, then those not marked to go."""
    coming = any(
        not r.uuid and _coming(picture, r) and r.model == model.model
        for uid in picture.resources_at[node]
        if (r := picture.resources.get(uid)) is not None
    )
    free: list[tuple[bool, bool, DeviceKey, Found]] = []
    for found in _devices_left(picture, node, model):
        if not found.device.shared and _held_by_old_name(picture, found):
            continue
        if not _available(picture, found, coming):
            continue
        if found.device.shared:
            found.left = _left(picture, found)
        marked = found.resource is not None and is_marked(picture, found.resource.uid, found.resource)
        free.append((found.resource is not None, marked, found.key, found))
    free.sort(key=lambda row: row[:3])
    return [row[3] for row in free]


def _is_promised(picture: Picture, found: Found) -> bool:
    """Whether the device, or another face of its hardware, is meant for somebody."""
    if not found.others:
        return bool(picture.promised(found.identity))
    identities = {found.identity, *picture.face(found.key).uuids, *("/".join(key) for key in found.others)}
    return any(picture.promised(one) for one in identities)


def _held_by_old_name(picture: Picture, found: Found) -> bool:
    life = picture.devices.get(found.resource.uid) if found.resource is not None else None
    return life is not None and life.key is not None and bool(picture.holders[life.key])


def _available(picture: Picture, found: Found, coming: bool) -> bool:
    """Online, well and open to the scheduler. A device that no resource names yet is only fixed when none is still to say which
    device it got."""
    if is_tainted(found.device) or _ruled_out(picture, found):
        return False
    resource = found.resource
    if resource is None:
        return not coming and (DEPARTED, found.uuid) not in picture.passed
    life, fence = picture.devices.get(resource.uid), picture.fences.get(resource.uid)
    if fence is not None and fence.ordered:
        return False  # the operator may be taking it away at this moment; it is free again once its size is back
    there = resource.state == "Online" and not resource.error and not resource.deleting
    return there and (life is None or life.state != LEAVING)


def _ruled_out(picture: Picture, found: Found) -> bool:
    """A DeviceTaintRule of somebody else keeps the scheduler from the device; ours comes off when the mark does."""
    for rule in picture.rules.rows.values():
        matches = all(not a or a == b for a, b in zip((rule.driver, rule.pool, rule.device), found.key, strict=True))
        if matches and rule.taint.effect in BLOCKING and rule.labels.get(OWNER_LABEL) != OWNER:
            return True
    return False


def _coming(picture: Picture, resource: FabricResource) -> bool:
    return resource.state in BEING_ATTACHED and not resource.deleting


def _unlisted(picture: Picture, resource: FabricResource) -> bool:
    """Called Online, and the node's slices do not (or not as a whole) show it: told in another order, or the driver is
    publishing anew. Or its detach was ordered, and it stays if it is asked back in time. It is on its way to a claim like one
    that is being attached, and no reason to ask for another."""
    life = picture.devices.get(resource.uid)
    if life is not None and life.state in (USED, LEAVING):
        return False
    if resource.state != "Online" or resource.deleting:
        return False
    fence = picture.fences.get(resource.uid)
    if fence is not None:
        return fence.ordered
    faces = picture.keys_of[resource.uuid] if resource.uuid else frozenset()
    shown = (picture.pools[key[:2]] for key in faces if not picture.face(key).part)
    return not any(pool.usable and pool.node == resource.node for pool in shown)


def _ordered_not_made(picture: Picture, node: str, model: Model, resources: list[FabricResource]) -> int:
    """Units that a request asks for and the operator has made no resource for yet; our own standing order counts too."""
    total = 0
    kind = picture.request_type(model)
    for uid in picture.requests_at[node]:
        request = picture.requests.rows[uid]
        if request.model != model.model or request.type != kind or request.deleting:
            continue
        made = sum(r.request == request.name and not r.leaving for r in resources)
        total += max(0, size_wanted(picture, node, model.model, request.name, request.size) - made)
    order = picture.orders.get((node, model.model))
    if order is not None and order.request not in picture.request_named:
        total += order.size
    return total


def size_wanted(picture: Picture, node: str, model: str, request: str, size: int) -> int:
    """The size of a request once our standing order for it is carried out."""
    order = picture.orders.get((node, model))
    return order.size if order is not None and order.request == request else size


def _left(picture: Picture, found: Found) -> dict[str, Fraction]:
    """What is left of each capacity of a shared device."""
    only = picture.policy.driver_of(found.key[0]).capacities
    left = {name: value for name, text in found.device.capacity.items() if (value := amount(text)) is not None}
    if only:
        left = {name: value for name, value in left.items() if name in only}
    for uid in picture.holders[found.key]:
        claim = picture.claims.rows[uid]
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.key == found.key:
                _subtract(left, result)
    return left


def _subtract(left: dict[str, Fraction], result: Result) -> None:
    for name, text in result.consumed.items():
        value = amount(text)
        if value is not None and name in left:
            left[name] -= value


def _fits(found: Found, result: Result) -> bool:
    if not found.device.shared:
        return not result.share
    wanted = {name: value for name, text in result.consumed.items() if (value := amount(text)) is not None}
    return all(found.left.get(name, Fraction(0)) >= value for name, value in wanted.items() if name in found.left)


def _consume(found: Found, result: Result) -> None:
    _subtract(found.left, result)
