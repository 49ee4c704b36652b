"""A cluster that only grows: every object goes forward through its life, and each claim wants one device of its cell.

What the engine makes of it at the end must not depend on the order in which the objects' changes are told, as long as each
object's own order is kept, nor on how many of them are missed before the next list. Left out on purpose is what is told for
good when it is first seen: a device that comes and goes, a claim that somebody else calls ready.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from dds_core import events as e
from dds_core.events import difference
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    ClaimRequest,
    Consumer,
    Device,
    FabricResource,
    Observed,
    Pod,
    Result,
    Slice,
)
from tests.property.cluster import A100, H100, MI300, NODES, START
from tests.property.places import furnished
from tests.property.verbs import pool_result


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
            found += _waiting(f"{tag}-{i}", node, pool_result(model, 0, i))
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
    claim = Claim(f"claim-{name}", "default", name, START + len(name), requests=(ClaimRequest("r0", ("gpu",)),))
    pod = Pod(f"pod-{name}", "default", name, phase="Pending", scheduler="default", claims=(name,))
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
