"""Makes a scenario of the lab from what `derive` read: the same fleet, pods and changes, with a fabric that behaves as recorded.

The result is an ordinary scenario: it can be written to a file, changed, and played by `dds lab run`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dds_core.errors import InputError
from dds_core.model import Model as Described
from dds_core.model import Node
from dds_core.scaler.policy import Policy
from dds_core.timeline.instants import rfc3339
from dds_lab.api.gates import known_as
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import Class, Cluster, Fabric, Limit, Model, Nodes, NodeTaint
from dds_lab.scenario.parts import (
    Fabrics,
    OperatorPart,
    Parts,
    Profile,
    PublisherPart,
    ScalerPart,
    SchedulerPart,
    VendorPart,
)
from dds_lab.scenario.scenario import Resize, Run, Step
from dds_lab.scenario.trouble import FabricFault, Faults
from dds_lab.scenario.values import Delay, between
from dds_lab.scenario.workload import Arrival
from dds_whatif.derive import Behaviour, Derived, PodRow, Samples

QUICK = 1.0
"""A publisher that reacts in less than so many seconds acts on changes and does not poll."""
MOST_SAMPLES = 10_000
UNNUMBERED = "node-of-source"
"""Prefix of the lab's names for nodes whose own names do not end in a letter or digit and four digits."""
MOST_PRIORITY = 1_000_000_000
_SHORT = re.compile(r"[^a-z0-9-]+")


class TooShort(InputError):
    """The source does not have all that a model needs."""


@dataclass(frozen=True)
class Fitted:
    """A scenario with its pods. `rests_on`: name, number of samples and words for the value of each fitted property. `guarded`:
    the scaler can hold devices."""

    scenario: Scenario
    arrivals: tuple[Arrival, ...]
    rests_on: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]
    guarded: bool = True


def fitted(source: Derived, behaviour: Behaviour, policy: Policy, *, label: str) -> Fitted:
    """The scenario of a source, with the fabric's `behaviour`. `policy`: the schedulers' binding timeouts, and the times of the
    reference scaler. Raises TooShort, and InputError for a source that no scenario can describe."""
    _enough(source, behaviour, label)
    try:
        return _fitted(source, behaviour, policy, label)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"cannot be told as a scenario of the lab: {place}: {first['msg']}, not {str(first['input'])[:100]!r}",
            where=label,
            fix="leave such objects out of the source, or cut it into parts",
        ) from None


def _fitted(source: Derived, behaviour: Behaviour, policy: Policy, label: str) -> Fitted:
    notes = list(source.notes)
    classes = _classes(source)
    fabrics = _fabrics(source)
    arrivals = tuple(_arrivals(source, {one.name for one in classes}, notes))
    last = (source.end - source.begin) / 1_000_000
    scenario = Scenario(
        name=_SHORT.sub("-", label.lower()).strip("-")[:80] or "source",
        about=f"Fitted from {label}",
        start=rfc3339(source.begin),  # type: ignore[arg-type]  # as it is written
        duration=max(1.0, last),
        cluster=Cluster(
            version=known_as(source.version),  # type: ignore[arg-type]  # one of those that a scenario can name
            prefix=source.config.prefix or "cohdi.io",
            models=tuple(
                _model(one, source.sights.get(one.model, {}), source.config.models) for one in source.config.models
            ),
            classes=classes,
            fabrics=tuple(Fabric(id=_number_of(name, label), devices=pool) for name, pool in fabrics.items()),
            nodes=tuple(_node(one, source) for one in source.nodes),
            namespaces=tuple(
                sorted({row.namespace for row in source.pods} - {"default", "kube-system", "composable-dra"})
            ),
        ),
        parts=_parts(source, behaviour, policy),
        steps=tuple(_steps(source)),
        faults=Faults(fabric=tuple(_refusals(source, behaviour))),
    )
    return Fitted(
        scenario,
        arrivals,
        (*_rests_on(source, behaviour), *source.conduct.rests_on(policy)),
        tuple(notes),
        source.guarded,
    )


def _enough(source: Derived, behaviour: Behaviour, label: str) -> None:
    if not source.config.models:
        raise TooShort("no device-info is seen in it", where=label, fix="give a source that begins with the ConfigMap")
    if not source.nodes:
        raise TooShort("no node is seen in it", where=label, fix="give a longer source")
    if not source.pods:
        raise TooShort("no pod with a claim is seen in it", where=label, fix="give a longer source")
    if not source.pools:
        raise TooShort(
            "it never tells how many devices a pool has: something waits or moves in every instant of it",
            where=label,
            fix="give a longer source, one that begins or ends at rest",
        )
    if not behaviour.attach:
        raise TooShort(
            "no attach is seen, so that nothing can be fitted",
            where=label,
            fix="give a longer source, or --fit ANOTHER",
        )


# -- the cluster


def _model(one: Described, told: Mapping[str, str], all_of_them: Sequence[Described]) -> Model:
    given: dict[str, Any] = {
        name: told[attribute]
        for name, attribute in (
            ("brand", "brand"),
            ("architecture", "architecture"),
            ("compute", "cudaComputeCapability"),
        )
        if told.get(attribute)
    }
    if told.get("memory"):
        given["memory"] = told["memory"]
    attributes = dict(one.attributes)
    return Model(
        model=one.model,
        device=one.device,
        driver=one.driver or "gpu.nvidia.com",
        product=attributes.pop("productName", one.model)[:64],
        pool_attributes=attributes,
        index=one.index,
        not_with=tuple(other.model for other in all_of_them if other.index in one.conflicts),
        request_type=one.type or None,  # type: ignore[arg-type]
        **given,
    )


def _classes(source: Derived) -> tuple[Class, ...]:
    if not source.classes:
        return tuple(
            Class(
                name=one.device,
                selectors=(
                    f'device.driver == "{one.driver}" && device.attributes["{one.driver}"].productName == '
                    f'"{one.attributes.get("productName", one.model)}"',
                ),
            )
            for one in source.config.models
        )
    return tuple(
        Class(name=one.name, selectors=one.selectors, extended_resource=one.extended_resource or None)
        for one in source.classes
    )


def _number_of(fabric: str, label: str) -> int:
    if not fabric.isdigit():
        raise InputError(f"the fabric {fabric!r} is no number", where=label, fix="the lab knows fabrics by number only")
    return int(fabric)


def _fabrics(source: Derived) -> dict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (fabric, model), number in sorted(source.pools.items()):
        found[fabric][model] = number
    return dict(found)


def _node(node: Node, source: Derived) -> Nodes:
    """A group of one node, with the node's labels except those of fabric and models. Its name stays if it ends in four digits."""
    prefix = f"{source.config.prefix}/"
    head, number = _numbered(node.name, source)
    fabric = node.labels.get(f"{prefix}fabric", "")
    limits: dict[str, Limit] = {}
    for model in source.config.models:
        most, least = (node.labels.get(f"{prefix}{model.device}-size-{end}", "") for end in ("max", "min"))
        if most.isdigit() or least.isdigit():
            limits[model.model] = Limit(
                **{end: int(text) for end, text in (("max", most), ("min", least)) if text.isdigit()}
            )
    return Nodes(
        name=head,
        first=number,
        fabric=int(fabric) if fabric.isdigit() else None,
        limits=limits,
        labels={k: v for k, v in node.labels.items() if not k.startswith(prefix) and k != "kubernetes.io/hostname"},
        taints=tuple(
            NodeTaint(key=taint.key, value=taint.value, effect=taint.effect)  # type: ignore[arg-type]
            for taint in node.taints
            if node.name not in source.taken and not taint.key.startswith("node.kubernetes.io/")
        ),
    )


def _numbered(name: str, source: Derived) -> tuple[str, int]:
    """A node's name in the lab, as prefix and number: from its own name if that ends in four digits, else its index."""
    if name[-4:].isdigit() and name[-5:-4].isalnum():
        return name[:-4], int(name[-4:])
    return UNNUMBERED, [one.name for one in source.nodes].index(name)


def _named(name: str, source: Derived) -> str:
    head, number = _numbered(name, source)
    return f"{head}{number:04}"


# -- parts


def _delay(found: Samples) -> Delay:
    step = max(1, found.number // MOST_SAMPLES)
    return Delay(measured=found.seconds[::step])


def _parts(source: Derived, behaviour: Behaviour, policy: Policy) -> Parts:
    everything = Samples(tuple(sorted(each for one in behaviour.attach.values() for each in one.seconds)))
    back = Samples(tuple(sorted(each for one in behaviour.detach.values() for each in one.seconds)))
    fabric: dict[str, Any] = {
        "attach": _delay(everything),
        "attach_of": {model: _delay(found) for model, found in behaviour.attach.items()},
    }
    known = {one.model for one in source.config.models}
    fabric["attach_of"] = {model: delay for model, delay in fabric["attach_of"].items() if model in known}
    if back.number:
        fabric["detach"] = _delay(back)
        fabric["detach_of"] = {model: _delay(one) for model, one in behaviour.detach.items() if model in known}
    return Parts(
        scheduler=SchedulerPart(
            profiles=profiles_of(
                policy, {"default-scheduler"} | {row.scheduler for row in source.pods if row.scheduler}
            ),
            choice=source.conduct.choice,
            lead=source.conduct.lead,
        ),
        fabric=Fabrics(**fabric),
        operator=OperatorPart(kind="real" if behaviour.one_worker else "ideal", sync=0.0),
        vendor=_vendor(behaviour.listing),
        publisher=_publisher(behaviour),
        scaler=ScalerPart(
            interval=float(max(1, policy.scan_interval_seconds)),
            removal=float(policy.no_removal_seconds),
            allocation=float(policy.no_allocation_seconds),
            timers=_timers(source.conduct.timers(policy)),
            early=source.conduct.early / max(1, source.conduct.listings),
        ),
    )


def _timers(begin: tuple[float, ...] | None) -> Delay | None:
    if begin is None:
        return None
    return Delay(measured=begin) if begin else between(0.01, 0.2)


def profiles_of(policy: Policy, names: Iterable[str]) -> dict[str, Profile]:
    """Scheduler profiles with the binding timeouts that the policy names."""
    return {
        name: Profile(binding_timeout=float(policy.scheduler_of(name).binding_timeout_seconds))
        for name in sorted(names)
    }


def _vendor(listing: Samples) -> VendorPart:
    """Without samples the plugin lists a device as soon as the operator restarts it, else after the observed delay."""
    return VendorPart(start=_delay(listing)) if listing.number else VendorPart()


def _publisher(behaviour: Behaviour) -> PublisherPart:
    late = behaviour.publishing.at(0.5)
    interval = 0.0 if late < QUICK else 2 * late  # on average half an interval passes until the next poll
    reaction = {"reaction": _delay(behaviour.publishing)} if behaviour.publishing.number and interval == 0.0 else {}
    return PublisherPart(interval=interval, stable_names=behaviour.keeps_names, **reaction)


# -- arrivals and steps


def _arrivals(source: Derived, classes: set[str], notes: list[str]) -> Iterator[Arrival]:
    taken: set[tuple[str, str]] = set()
    left = again = 0
    for row in source.pods:
        devices = {name: min(32, count) for name, count in row.devices if name in classes}
        if not devices:
            left += 1
            continue
        name = row.name
        while (row.namespace, name) in taken:
            again += 1
            name = f"{row.name}.{again}"
        taken.add((row.namespace, name))
        yield _arrival(row, name, devices)
    if left:
        notes.append(f"{left} pods ask for classes that are not seen: left out")


def _arrival(row: PodRow, name: str, devices: dict[str, int]) -> Arrival:
    run = Run(
        name=name,
        namespace=row.namespace or "default",
        devices=devices,
        lasts=row.ran if row.ended else None,
        delete_after=row.ran,
        scheduler=row.scheduler or "default-scheduler",
        priority=min(MOST_PRIORITY, row.priority),
    )
    return Arrival(at=row.at, run=run, withdraw_after=row.withdrawn)


def _steps(source: Derived) -> Iterator[Step]:
    known = {one.name for one in source.nodes}
    for change in sorted(source.changes, key=lambda one: one.at):
        if change.kind == "resize":
            yield Step(at=change.at, resize=Resize(fabric=int(change.fabric), model=change.model, by=change.by))
        elif change.node in known:
            yield Step.model_validate({"at": change.at, change.kind: _named(change.node, source)})


def _refusals(source: Derived, behaviour: Behaviour) -> Iterator[FabricFault]:
    """Faults that refuse attaches as often as the fabric did."""
    where = defaultdict[str, list[str]](list)
    for node in source.nodes:
        where[node.labels.get(f"{source.config.prefix}/fabric", "")].append(_named(node.name, source))
    known = {one.model for one in source.config.models}
    for (fabric, model), (refused, of, words) in behaviour.errors.items():
        if model in known and where[fabric]:
            yield FabricFault(
                kind="refuse",
                models=(model,),
                nodes=tuple(where[fabric]),
                share=round(refused / of, 4),
                words=words[:1000] or "refused",
            )


def _rests_on(source: Derived, behaviour: Behaviour) -> Iterator[tuple[str, int, str]]:
    def words(found: Samples) -> str:
        return f"p50 {found.at(0.5):.2f} s, p95 {found.at(0.95):.2f} s"

    yield "nodes", len(source.nodes), ""
    yield "pods", len(source.pods), f"{sum(row.withdrawn is not None for row in source.pods)} withdrawn"
    for (fabric, model), number in sorted(source.pools.items()):
        yield f"pool of {model} in fabric {fabric}", number, "devices"
    for model, found in behaviour.attach.items():
        yield f"attach of {model}", found.number, words(found)
    for model, found in behaviour.detach.items():
        yield f"detach of {model}", found.number, words(found)
    yield "listing of an arrival", behaviour.listing.number, words(behaviour.listing)
    yield "publishing", behaviour.publishing.number, words(behaviour.publishing)
    for (fabric, model), (refused, of, said) in behaviour.errors.items():
        yield f"refusals of {model} in fabric {fabric}", of, f"{refused} of {of}: {said}"
    yield "changes of the fleet", len(source.changes), ""
    if not source.guarded:
        yield (
            "holds",
            0,
            "devices were detached without: the admission policy dds-guard is not installed in the model either",
        )
