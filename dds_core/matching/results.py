"""What a search found, as status.allocation has it: results, configuration, and the nodes where the claim can be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from dds_core.matching.claims import Alternative, Claim
from dds_core.matching.errors import AllocationError
from dds_core.matching.nodes import NodeSelector, Object, merged, only
from dds_core.matching.objects import DeviceClass, Gates
from dds_core.matching.quantities import Quantity
from dds_core.matching.search import Plan, Taken, Wanted
from dds_core.model import DeviceKey

MOST_ALTERNATIVES = 8
"""Alternatives that a request can have; the first of them scores so many points (FirstAvailableDeviceRequestMaxSize)."""


class Result(Struct, frozen=True):
    """A device given to a request. `share` and `consumed` only where it is shared."""

    request: str
    device: DeviceKey
    admin: bool = False
    tolerations: tuple[Object, ...] = ()
    conditions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    share: str = ""
    consumed: dict[str, Quantity] = {}

    def to_object(self) -> Object:
        """The entry of status.allocation.devices.results."""
        driver, pool, device = self.device
        written: Object = {"request": self.request, "driver": driver, "pool": pool, "device": device}
        if self.admin:
            written["adminAccess"] = True
        if self.tolerations:
            written["tolerations"] = list(self.tolerations)
        if self.conditions:
            written["bindingConditions"] = list(self.conditions)
        if self.failures:
            written["bindingFailureConditions"] = list(self.failures)
        if self.share:
            written["shareID"] = self.share
        if self.consumed:
            written["consumedCapacity"] = {name: str(amount) for name, amount in self.consumed.items()}
        return written


class Allocation(Struct, frozen=True):
    """The allocation of one claim. Without a `selector` it can be used on every node."""

    claim: Claim
    results: tuple[Result, ...]
    config: tuple[Object, ...] = ()
    selector: NodeSelector | None = None

    def to_object(self) -> Object:
        """status.allocation, without the allocationTimestamp that the scheduler adds."""
        devices: Object = {"results": [result.to_object() for result in self.results]}
        if self.config:
            devices["config"] = list(self.config)
        written: Object = {"devices": devices}
        if self.selector is not None:
            written["nodeSelector"] = self.selector.to_object()
        return written


def allocation(
    plan: Plan, taken: Sequence[Taken], chosen: Sequence[Wanted], node: str, gates: Gates, share_id: Callable[[], str]
) -> Allocation:
    """Write down what was taken for one claim; `chosen` names the alternative of each of its requests."""
    results = tuple(_result(each, gates, share_id) for each in taken)
    config = _config(plan.claim, [(wanted.asked, wanted.device_class) for wanted in chosen])
    return Allocation(plan.claim, results, config, _selector(taken, node))


def chosen_of(claim: Claim, names: Collection[str]) -> tuple[Alternative, ...]:
    """By request the alternative that is chosen where results have these names. AllocationError when they do not tell it."""
    found = []
    for request in claim.requests:
        named = [one for one in request.alternatives if one.name in names]
        if len(named) != 1:
            what = f"{len(named)} of the alternatives of request {request.name} are chosen, and not one"
            raise AllocationError(what, claim=str(claim), request=request.name)
        found += named
    return tuple(found)


def configuration(claim: Claim, names: Collection[str], classes: Iterable[DeviceClass]) -> tuple[Object, ...]:
    """status.allocation.devices.config for a claim whose results have these names, as the allocator writes it. AllocationError
    when the names do not fit the claim, or a class that is needed is not among these."""
    by_name = {one.name: one for one in classes}
    chosen = []
    for asked in chosen_of(claim, names):
        device_class = by_name.get(asked.device_class)
        if device_class is None:
            what = f"could not retrieve device class {asked.device_class}: not found"
            raise AllocationError(what, claim=str(claim), request=asked.name)
        chosen.append((asked, device_class))
    return _config(claim, chosen)


def score(plans: Sequence[Plan], chosen: Mapping[tuple[int, int], int]) -> int:
    """Points for early choices: of each request with firstAvailable 8 less the index of the alternative (KEP-4816)."""
    return sum(
        MOST_ALTERNATIVES - index
        for (claim, request), index in chosen.items()
        if plans[claim].claim.requests[request].prioritized
    )


def _result(taken: Taken, gates: Gates, share_id: Callable[[], str]) -> Result:
    asked, device = taken.wanted.asked, taken.candidate.device
    shared = taken.amounts is not None
    return Result(
        request=asked.name,
        device=taken.candidate.key,
        admin=asked.admin,
        tolerations=asked.written_tolerations,
        conditions=device.conditions if gates.binding_conditions else (),
        failures=device.failures if gates.binding_conditions else (),
        share=share_id() if shared else "",
        consumed=taken.amounts or {},
    )


def _config(claim: Claim, chosen: Sequence[tuple[Alternative, DeviceClass]]) -> tuple[Object, ...]:
    """The configuration of each class, once, then that of the claim as far as it concerns what was chosen: an entry for each
    request that it concerns, with the names of all of them."""
    by_class: dict[str, list[str]] = {}
    of_class: list[Object] = []
    for asked, device_class in chosen:
        names = by_class.setdefault(device_class.name, [])
        if not names:
            of_class += [_configuration("FromClass", names, entry) for entry in device_class.config]
        names.append(asked.name)
    of_claim: list[Object] = []
    for entry in claim.config:
        named = list(entry.get("requests") or ())
        concerned = sum(bool({asked.name, asked.request} & set(named)) for asked, _ in chosen)
        of_claim += [_configuration("FromClaim", named, entry)] * (concerned if named else 1)
    return (*of_class, *of_claim)


def _configuration(source: str, names: list[str], entry: Object) -> Object:
    """`names` may grow until all requests are known."""
    found: Object = {"source": source, "requests": names} if source == "FromClass" or names else {"source": source}
    return found | {kind: value for kind, value in entry.items() if kind != "requests"}


def _selector(taken: Sequence[Taken], node: str) -> NodeSelector | None:
    """This node alone when a device is its own or binds to it; else all that the devices' selectors ask for."""
    selectors: list[NodeSelector] = []
    for each in taken:
        device, slice_ = each.candidate.device, each.candidate.slice
        place = device if slice_.per_device else slice_
        if place.node or device.binds_to_node:
            return only(node)
        if place.selector is not None:
            selectors.append(place.selector)
    return merged(selectors)
