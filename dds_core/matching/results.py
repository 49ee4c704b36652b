"""The result of a search in the form of status.allocation: results, configuration, and the nodes where the claim can be used."""

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
"""Most alternatives of a request (FirstAvailableDeviceRequestMaxSize), and the score of the first of them."""


class Result(Struct, frozen=True):
    """A device allocated to a request. `share` and `consumed` are set only for a shared device."""

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
    """The allocation of one claim from its taken devices. `chosen` has the alternative of each of its requests."""
    results = tuple(_result(each, gates, share_id) for each in taken)
    config = _config(plan.claim, [(wanted.asked, wanted.device_class) for wanted in chosen])
    return Allocation(plan.claim, results, config, _selector(taken, node))


def chosen_of(claim: Claim, names: Collection[str]) -> tuple[Alternative, ...]:
    """For each request the alternative that results with these names chose. AllocationError when that is not exactly one."""
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
    when the names do not fit the claim or a class is missing."""
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
    """The score of the chosen alternatives: for each request with firstAvailable 8 less the index of its choice (KEP-4816)."""
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
    """First the entries of each class, once, with the names of its requests. Then the entries of the claim, each once for every
    chosen request that it names, or once when it names none."""
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
    """`names` is the caller's list and may still grow, if it is not copied."""
    found: Object = {"source": source, "requests": names} if source == "FromClass" or names else {"source": source}
    return found | {kind: value for kind, value in entry.items() if kind != "requests"}


def _selector(taken: Sequence[Taken], node: str) -> NodeSelector | None:
    """This node alone when a device belongs or binds to it; otherwise the merged selectors of the devices."""
    selectors: list[NodeSelector] = []
    for each in taken:
        device, slice_ = each.candidate.device, each.candidate.slice
        place = device if slice_.per_device else slice_
        if place.node or device.binds_to_node:
            return only(node)
        if place.selector is not None:
            selectors.append(place.selector)
    return merged(selectors)
