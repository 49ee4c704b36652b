"""The result of a search in the form of status.allocation: results, configuration, and the nodes where the claim can be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from dds_core.matching.errors import AllocationError
from dds_core.matching.from_api import asked_by, read_claim
from dds_core.matching.gates import Gates
from dds_core.matching.node_selectors import NodeSelector, Object, merged, only
from dds_core.matching.quantities import parse
from dds_core.matching.search import PreparedClaim, Taken
from dds_core.model import Result

MOST_ALTERNATIVES = 8
"""Most alternatives of a request (FirstAvailableDeviceRequestMaxSize), and the score of the first of them."""


class Allocation(Struct, frozen=True):
    """The allocation of one claim. Without a `selector` it can be used on every node."""

    results: tuple[Result, ...]
    selector: NodeSelector | None = None

    def to_object(self, claim: Object | None = None, classes: Mapping[str, Object] | None = None) -> Object:
        """status.allocation, without the allocationTimestamp that the scheduler adds. With the claim given, also the tolerations
        and the configuration that are copied from it and from its classes (by name)."""
        names = dict.fromkeys(one.request for one in self.results)
        asked = {one.name: one.asked for one in chosen_of(claim, names)} if claim is not None else {}
        devices: Object = {"results": [written(one, asked.get(one.request, {})) for one in self.results]}
        if claim is not None and (config := configuration(claim, names, classes or {})):
            devices["config"] = config
        made: Object = {"devices": devices}
        if self.selector is not None:
            made["nodeSelector"] = self.selector.to_object()
        return made


def allocation(taken: Sequence[Taken], node: str, gates: Gates, share_id: Callable[[], str]) -> Allocation:
    """The allocation of one claim from its taken devices."""
    return Allocation(tuple([_result(each, gates, share_id) for each in taken]), _selector(taken, node))


def score(prepared: Sequence[PreparedClaim], chosen: Mapping[tuple[int, int], int]) -> int:
    """The score of the chosen alternatives: for each request with firstAvailable 8 less the index of its choice (KEP-4816)."""
    return sum(
        MOST_ALTERNATIVES - index
        for (claim, request), index in chosen.items()
        if prepared[claim].claim.requests[request].prioritized
    )


def _result(taken: Taken, gates: Gates, share_id: Callable[[], str]) -> Result:
    device, key = taken.candidate.device, taken.candidate.key
    return Result(
        taken.wanted.name,
        *key,
        binding=device.binding if gates.binding_conditions else (),
        failure=device.failure if gates.binding_conditions else (),
        share=share_id() if taken.amounts is not None else "",
        consumed={name: str(amount) for name, amount in (taken.amounts or {}).items()},
        admin=taken.wanted.asked.admin,
    )


def _selector(taken: Sequence[Taken], node: str) -> NodeSelector | None:
    """This node alone when a device belongs or binds to it; otherwise the merged selectors of the devices."""
    selectors: list[NodeSelector] = []
    for each in taken:
        device, slice_ = each.candidate.device, each.candidate.slice
        place = device if slice_.per_device else slice_
        if place.node or device.binds_to_node:
            return only(node)
        if place.selector:
            selectors.append(NodeSelector.of(place.selector))
    return merged(selectors)


# -- what is copied from the claim and its classes ---------------------------------------------------------------------


class Chosen(Struct, frozen=True):
    """What a request of a claim asks for (`asked`), where results have this `name`."""

    name: str
    request: str
    asked: Object


def written(result: Result, asked: Object) -> Object:
    """The entry of status.allocation.devices.results, for a result of what is asked for."""
    made: Object = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin:
        made["adminAccess"] = True
    if asked.get("tolerations"):
        made["tolerations"] = list(asked["tolerations"])
    if result.binding:
        made["bindingConditions"] = list(result.binding)
    if result.failure:
        made["bindingFailureConditions"] = list(result.failure)
    if result.share:
        made["shareID"] = result.share
    if result.consumed:
        made["consumedCapacity"] = {name: str(parse(amount)) for name, amount in result.consumed.items()}
    return made


def choices(claim: Object) -> Iterator[list[Chosen]]:
    """For each request of the claim what it asks for: one, or the entries of firstAvailable."""
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        name, several = request["name"], bool(request.get("firstAvailable"))
        yield [Chosen(f"{name}/{one['name']}" if several else name, name, one) for one in asked_by(request)]


def chosen_of(claim: Object, names: Collection[str]) -> list[Chosen]:
    """For each request the alternative that results with these names chose. AllocationError when that is not exactly one."""
    found = []
    for options in choices(claim):
        named = [one for one in options if one.name in names]
        if len(named) != 1:
            what = f"{len(named)} of the alternatives of request {options[0].request} are chosen, and not one"
            raise AllocationError(what, claim=read_claim(claim).path, request=options[0].request)
        found += named
    return found


def configuration(claim: Object, names: Collection[str], classes: Mapping[str, Object]) -> list[Object]:
    """status.allocation.devices.config for a claim whose results have these names, as the allocator writes it. AllocationError
    when the names do not fit the claim or a class is missing.

    First the entries of each class, once, with the names of its requests. Then the entries of the claim, each once for every
    chosen request that it names, or once when it names none."""
    chosen = chosen_of(claim, names)
    by_class: dict[str, list[str]] = {}
    made: list[Object] = []
    for one in chosen:
        device_class = one.asked.get("deviceClassName") or ""
        if device_class not in classes:
            what = f"could not retrieve device class {device_class}: not found"
            raise AllocationError(what, claim=read_claim(claim).path, request=one.name)
        concerned = by_class.setdefault(device_class, [])
        if not concerned:  # the list still grows
            made += [_entry("FromClass", concerned, each) for each in _config(classes[device_class].get("spec"))]
        concerned.append(one.name)
    for entry in _config(claim["spec"]["devices"]):
        named = list(entry.get("requests") or ())
        times = sum(bool({one.name, one.request} & set(named)) for one in chosen) if named else 1
        made += [_entry("FromClaim", named, entry)] * times
    return made


def _config(of: Object | None) -> Iterable[Object]:
    return (of or {}).get("config") or ()


def _entry(source: str, names: list[str], entry: Object) -> Object:
    made: Object = {"source": source, "requests": names} if source == "FromClass" or names else {"source": source}
    return made | {kind: value for kind, value in entry.items() if kind != "requests"}
