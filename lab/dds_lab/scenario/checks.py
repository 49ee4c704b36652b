"""Consistency checks of a scenario: every name in it must be defined, and nothing may be defined twice.

The checks give problems with their paths in the scenario; the reader adds line and column.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dds_core.errors import InputError
from dds_lab.api.gates import GATES, Gates
from dds_lab.scenario.lines import Path
from dds_lab.scenario.parts import PART_NAMES
from dds_lab.scenario.scenario import Ask, Run, Scenario, Step
from dds_lab.scenario.trouble import FabricFault, ManagerFault

MAX_NODES = 10_000
_SHOWN = 12


class Problem(NamedTuple):
    """What is wrong and where; `name`: the field's name is wrong, not its value."""

    path: Path
    what: str
    name: bool = False


def problems(scenario: Scenario) -> Iterator[Problem]:
    """All inconsistencies of a scenario whose fields are valid each by itself."""
    yield from _gates(scenario)
    yield from _models(scenario)
    yield from _nodes(scenario)
    yield from _speeds(scenario)
    yield from _manager(scenario)
    yield from _steps(scenario)
    yield from _mix(scenario)
    yield from _faults(scenario)


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """A message such as `no model 'A10' is known here: did you mean A100?`, or with a list of the known names."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    if near:
        return f"no {what} {name!r} is known here: did you mean {' or '.join(near)}?"
    if not known:
        return f"no {what} {name!r} is known here, nor any other"
    listed = sorted(known)
    more = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"no {what} {name!r} is known here; known: {', '.join(listed[:_SHOWN])}{more}"


def _unknown(
    at: Path, what: str, names: Collection[str], known: Collection[str], *, keys: bool = False
) -> Iterator[Problem]:
    """A problem for each name of a list (with `keys` of a table) at this place that is not known."""
    for place, name in enumerate(names):
        if name not in known:
            yield Problem((*at, name if keys else place), unknown(what, name, known), name=keys)


def _gates(scenario: Scenario) -> Iterator[Problem]:
    cluster = scenario.cluster
    for component, named in (("api", cluster.gates.api), ("scheduler", cluster.gates.scheduler)):
        strange = [gate for gate in named if gate not in GATES]
        for gate in strange:
            yield Problem(("cluster", "gates", component, gate), unknown("feature gate", gate, GATES), name=True)
        if not strange:
            try:
                Gates.for_version(cluster.version, named)
            except InputError as error:
                yield Problem(("cluster", "gates", component), f"{error.what}: {error.fix}")


def _twice(path: Path, names: Collection[str | int], field: str | None, what: str) -> Iterator[Problem]:
    seen: set[str | int] = set()
    for i, name in enumerate(names):
        if name in seen:
            yield Problem((*path, i) if field is None else (*path, i, field), f"another {what} before it is {name} too")
        seen.add(name)


def _models(scenario: Scenario) -> Iterator[Problem]:
    cluster = scenario.cluster
    models = [one.model for one in cluster.models]
    yield from _twice(("cluster", "models"), models, "model", "model")
    yield from _twice(("cluster", "models"), [one.device for one in cluster.models], "device", "model")
    numbers = [i if one.index is None else one.index for i, one in enumerate(cluster.models, start=1)]
    yield from _twice(("cluster", "models"), numbers, "index", "model's number")
    for i, one in enumerate(cluster.models):
        yield from _unknown(("cluster", "models", i, "not_with"), "model", one.not_with, models)
    yield from _twice(("cluster", "fabrics"), [one.id for one in cluster.fabrics], "id", "fabric")
    for i, fabric in enumerate(cluster.fabrics):
        yield from _unknown(("cluster", "fabrics", i, "devices"), "model", fabric.devices, models, keys=True)
    if cluster.classes is not None:
        yield from _twice(("cluster", "classes"), [one.name for one in cluster.classes], "name", "class")


def _nodes(scenario: Scenario) -> Iterator[Problem]:
    cluster = scenario.cluster
    models = {one.model for one in cluster.models}
    fabrics = {str(one.id) for one in cluster.fabrics}
    seen: set[str] = set()
    for i, group in enumerate(cluster.nodes):
        at: Path = ("cluster", "nodes", i)
        if (
            group.fabric is not None
            and str(group.fabric) not in fabrics
            and (fabrics or "fabric" in group.model_fields_set)
        ):
            yield Problem((*at, "fabric"), unknown("fabric", str(group.fabric), fabrics))
        for where in ("limits", "fixed"):
            yield from _unknown((*at, where), "model", getattr(group, where), models, keys=True)
        for model, limit in group.limits.items():
            if limit.min > limit.max:
                yield Problem((*at, "limits", model), "min is above max")
        both = seen.intersection(group.names())
        if both:
            yield Problem(at, f"a group before it has {min(both)} too: give them another `name` or `first`")
        seen.update(group.names())
    for i, driver in enumerate(cluster.drivers):
        yield from _unknown(("cluster", "drivers", i, "nodes"), "node", driver.nodes, seen)
    if len(seen) > MAX_NODES:
        yield Problem(("cluster", "nodes"), f"are {len(seen)} in all, {MAX_NODES} is the most")


def _speeds(scenario: Scenario) -> Iterator[Problem]:
    models = {one.model for one in scenario.cluster.models}
    for field in ("attach_of", "detach_of"):
        named = getattr(scenario.parts.fabric, field)
        yield from _unknown(("parts", "fabric", field), "model", named, models, keys=True)


def _manager(scenario: Scenario) -> Iterator[Problem]:
    knobs, models = scenario.parts.manager, {one.model for one in scenario.cluster.models}
    if knobs is None:
        if scenario.faults.manager:
            yield Problem(
                ("faults", "manager"), "there is no manager that they could befall: say `parts: {manager: {}}`"
            )
        return
    yield from _unknown(("parts", "manager", "quotas"), "model", knobs.quotas, models, keys=True)
    if knobs.api == "nec" and len(scenario.cluster.fabrics) > 1:
        yield Problem(("parts", "manager", "api"), "CDIM knows one fabric alone: name only one under cluster.fabrics")


def _steps(scenario: Scenario) -> Iterator[Problem]:
    nodes = set(scenario.cluster.node_names()) | _made(scenario, "Node")
    latest = 0.0
    for i, step in enumerate(scenario.steps):
        at: Path = ("steps", i)
        if step.at is not None:
            if step.at < latest:
                yield Problem((*at, "at"), f"a step before it has a later one ({latest:g}s): steps come in their order")
            latest = max(latest, step.at)
            if step.at > scenario.duration:
                yield Problem((*at, "at"), f"comes after the end of the scenario ({scenario.duration:g}s)")
        for path, node in _node_refs(step):
            if node not in nodes:
                yield Problem((*at, *path), unknown("node", node, nodes))
        yield from _step_names(scenario, step, at)


def _node_refs(step: Step) -> Iterator[tuple[Path, str]]:
    action = getattr(step, step.action)
    if step.action in ("cordon", "uncordon", "drain", "lose_node"):
        if isinstance(action, str):
            yield (step.action,), action
    elif isinstance(node := getattr(action, "node", None), str):
        yield (step.action, "node"), node


def _step_names(scenario: Scenario, step: Step, at: Path) -> Iterator[Problem]:
    """Classes, schedulers, models, fabrics and parts that a step names."""
    models = {one.model for one in scenario.cluster.models}
    if step.run is not None:
        classes = classes_of(scenario)
        yield from _asked((*at, "run"), step.run, classes)
        yield from _scheduler(scenario, step.run.scheduler, (*at, "run", "scheduler"))
    for action in ("attach", "detach", "resize", "drop_out", "partition"):
        found = getattr(step, action)
        if found is not None and found.model is not None and found.model not in models:
            yield Problem((*at, action, "model"), unknown("model", found.model, models))
    if step.resize is not None and str(step.resize.fabric) not in (known := _fabrics(scenario)):
        yield Problem((*at, "resize", "fabric"), unknown("fabric", str(step.resize.fabric), known))
    for action in ("restart", "relist"):
        found = getattr(step, action)
        if found is not None and getattr(scenario.parts, found.part) is None:
            running = [name for name in PART_NAMES if getattr(scenario.parts, name) is not None]
            yield Problem((*at, action, "part"), unknown("running part", found.part, running))


def _asked(at: Path, asked: Run | Ask, classes: set[str]) -> Iterator[Problem]:
    """Classes must exist, and shares must be of requested classes."""
    yield from _unknown((*at, "devices"), "class", asked.devices, classes, keys=True)
    yield from _unknown((*at, "shares"), "class among its devices", asked.shares, asked.devices, keys=True)


def _scheduler(scenario: Scenario, name: str, path: Path) -> Iterator[Problem]:
    if scenario.parts.scheduler is not None and name not in scenario.parts.scheduler.profiles:
        yield Problem(path, unknown("scheduler", name, scenario.parts.scheduler.profiles))


def _mix(scenario: Scenario) -> Iterator[Problem]:
    classes = classes_of(scenario)
    namespaces = {"default", "kube-system", "composable-dra", *scenario.cluster.namespaces} | _made(
        scenario, "Namespace"
    )
    for i, mix in enumerate(scenario.mix):
        for j, ask in enumerate(mix.asks):
            yield from _asked(("mix", i, "asks", j), ask, classes)
        yield from _unknown(("mix", i, "namespaces"), "namespace", mix.namespaces, namespaces)
    yield from _twice(("mix",), [mix.name for mix in scenario.mix], "name", "mix")


def _faults(scenario: Scenario) -> Iterator[Problem]:
    nodes = set(scenario.cluster.node_names())
    models = {one.model for one in scenario.cluster.models}
    planned: tuple[tuple[str, Sequence[FabricFault | ManagerFault]], ...] = (
        ("fabric", scenario.faults.fabric),
        ("manager", scenario.faults.manager),
    )
    for where, faults in planned:
        for i, one in enumerate(faults):
            yield from _unknown(("faults", where, i, "nodes"), "node", one.nodes, nodes)
            yield from _unknown(("faults", where, i, "models"), "model", one.models, models)
    for i, fault in enumerate(scenario.faults.fabric):
        if fault.kind == "wrong_device" and len(models) < 2:
            yield Problem(("faults", "fabric", i, "kind"), "a wrong device is one of another model: name a second one")
    yield from _wire(scenario)
    for part in ("scheduler", "operator", "vendor"):
        if getattr(scenario.faults.chaos, f"restart_{part}") is not None and getattr(scenario.parts, part) is None:
            running = [name for name in PART_NAMES if getattr(scenario.parts, name) is not None]
            what = unknown("running part", part, running)
            yield Problem(("faults", "chaos", f"restart_{part}"), what, name=True)


def _wire(scenario: Scenario) -> Iterator[Problem]:
    """The lab's own parts do not connect by HTTP: a wire fault that names one of them would have no effect."""
    users = {"admin", *(one.name for one in scenario.cluster.users)}
    for i, fault in enumerate(scenario.faults.wire):
        for j, user in enumerate(fault.users):
            if user not in users and not user.startswith("system:serviceaccount:"):
                yield Problem(("faults", "wire", i, "users", j), unknown("user", user, users))


def classes_of(scenario: Scenario) -> set[str]:
    """Names of the DeviceClasses that exist at the start or that the scenario creates."""
    classes = scenario.cluster.classes
    named = {one.device for one in scenario.cluster.models} if classes is None else {one.name for one in classes}
    return named | _made(scenario, "DeviceClass")


def _fabrics(scenario: Scenario) -> set[str]:
    return {str(one.id) for one in scenario.cluster.fabrics}


def _made(scenario: Scenario, kind: str) -> set[str]:
    """Names of the objects of a kind that the scenario creates by manifest."""
    manifests = [*scenario.cluster.objects, *(step.apply for step in scenario.steps if step.apply is not None)]
    found = (one.get("metadata") for one in manifests if one.get("kind") == kind)
    return {str(meta.get("name")) for meta in found if isinstance(meta, dict)}
