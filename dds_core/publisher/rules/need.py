"""Which devices a pool lists: those that claims hold, and as many others as the fabric can still give. Arithmetic on the state.

A device is listed under a name that a claim can hold. From the claim's allocation until a device arrives, the fabric still counts
that device as free. From its arrival until the claim has moved to it, the claim still holds the name. So the pool may offer to
others: free - (held - arrived). While an attach is under way, and from an arrival until the fabric's next answer, it is unknown
whether the fabric has counted it. The truth is then between two numbers, and the offer stays as it was if it is between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dds_core.model import GOING, RESOURCE_DETACHING, FabricResource
from dds_core.publisher.describe import name_of, name_of_id, number_of, stem_of
from dds_core.publisher.model import PoolKey, PoolModel, Stock
from dds_core.publisher.rooms import has_arrived, is_under_way
from dds_core.publisher.state import PoolState


class Offer(NamedTuple):
    """How many devices may be listed beside those that claims hold."""

    least: int
    most: int

    def nearest(self, number: int) -> int:
        """`number`, or the bound that it exceeds."""
        return min(max(number, self.least), self.most)


def offer(state: PoolState, fabric: str, model: PoolModel, stock: Stock, promised: Sequence[str]) -> Offer:
    """How much of the stock may be offered beside what claims hold; `promised`: the nodes of the claims that hold some of it."""
    waiting = Counter(promised)
    uncounted = {uid for uid, key in state.fabric.uncounted.rows.items() if key == (fabric, model.model)}
    coming = attached = 0
    doubt = len(uncounted)
    nodes = {node for node in waiting if node} | {state.cluster.resources.rows[uid].node for uid in uncounted}
    ordered = {state.cluster.resources.rows[uid].node for uid in state.cluster.under_way[model.model]}
    nodes |= {node for node in ordered if state.fabric_of(node) == fabric}
    if stock.whole:
        nodes |= {host.name for host in state.hosts_in(fabric)}
        nodes |= {node for node in state.cluster.resources_on if state.host(node) is None}  # gone before its devices
    for node in nodes:
        there = _devices_on(state, node, model.model)
        idle = _idle(state, node, model.driver, there.arrived)
        under_way = there.under_way + min(there.refused, max(0, waiting[node] - idle - there.under_way))
        attached += len(there.arrived) + there.leaving + under_way
        coming += min(waiting[node], idle + under_way)
        doubt += under_way
    free = healthy(stock)
    if stock.whole:  # arrivals do not change this number
        free, doubt = free - attached, 0
    most = free - (len(promised) - coming)
    least = most - doubt
    return Offer(max(0, least), max(0, most))


def _idle(state: PoolState, node: str, driver: str, arrived: Sequence[FabricResource]) -> int:
    """How many of the arrived devices no claim has. Of those in no slice, as many are in use as claims hold names in no slice."""
    listed = [one for one in arrived if state.cluster.keys_of[one.uuid]]
    unlisted = len(arrived) - len(listed)
    return sum(not state.used(one.uuid) for one in listed) + max(0, unlisted - state.held_unlisted(node, driver))


class There(NamedTuple):
    """The devices of a model on a node. `refused`: orders with an error of the fabric; how often the operator tries again is
    unknown, so they count only for a claim that waits on the node. `leaving`: on their way back, no claim's, and not free yet."""

    arrived: list[FabricResource]
    under_way: int
    refused: int
    leaving: int


def _devices_on(state: PoolState, node: str, model: str) -> There:
    arrived: list[FabricResource] = []
    under_way = refused = leaving = 0
    for uid in state.cluster.resources_on[node]:
        one = state.cluster.resources.rows[uid]
        if one.model != model:
            continue
        if one.state in GOING:
            leaving += one.state == RESOURCE_DETACHING
        elif has_arrived(one):
            arrived.append(one)
        elif is_under_way(one):
            under_way += not one.error
            refused += bool(one.error)
    return There(arrived, under_way, refused, leaving)


def healthy(stock: Stock) -> int:
    """How many of the stock may be given out."""
    if stock.devices is None:
        return stock.free
    return sum(one.healthy for one in stock.devices)


def names(
    stock: Stock, allowed: Offer, held: dict[str, str], listed: tuple[str, ...], stem: str, offered: int | None
) -> set[str]:
    """The names of a pool: all that are held, and others up to the offer. Listed names stay before new ones come. `offered`: as
    many of them were offered until now, None if unknown; what claims give back is not among them."""
    mine = [name for name in listed if name not in held]
    until_now = len(mine) if offered is None else min(len(mine), offered)
    if stock.devices is None:
        number = allowed.nearest(until_now)
        return {*held, *_counted(mine, number, held, stem)}
    free = [name for one in stock.devices if one.healthy and (name := name_of_id(stem, one.id)) not in held]
    staying = [name for name in mine if name in set(free)]
    number = min(len(free), allowed.nearest(min(len(staying), until_now)))
    others = [name for name in free if name not in set(staying)]
    return {*held, *(staying + others)[:number]}


def _counted(mine: list[str], number: int, held: dict[str, str], stem: str) -> list[str]:
    """`number` names: the lowest numbers among those listed, then the lowest unused ones."""
    known = sorted((found, name) for name in mine if (found := number_of(stem, name)) is not None)
    staying = [name for _, name in known][:number]
    taken = {*staying, *held}
    fresh: list[str] = []
    candidate = 0
    while len(staying) + len(fresh) < number:
        name = name_of(stem, candidate)
        if name not in taken:
            fresh.append(name)
        candidate += 1
    return staying + fresh


def stem(state: PoolState, key: PoolKey, model: PoolModel, listed: tuple[str, ...]) -> str:
    """What the names of this pool begin with; a pool that has names keeps it."""
    if listed:
        pooled = stem_of(model.device, (name_of(model.device, 0),))
        return pooled if any(name.startswith(f"{pooled}-") for name in listed) else model.device
    return stem_of(model.device, state.local_names(model.driver))
