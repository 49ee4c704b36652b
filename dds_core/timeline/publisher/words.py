"""The publisher's facts and decisions in words. Nothing here decides whether a fact matters to anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dds_core import events as e
from dds_core.events import Decision, Event
from dds_core.publishing.model import FreeDevice, Host, Limit, PoolConfig, PoolSlice
from dds_core.timeline.phrases import labels, listed, spoken, taints

if TYPE_CHECKING:
    from dds_core.timeline.known import Known, Row


# -- objects of the cluster --------------------------------------------------------------------------------------------


def _host(before: Host | None, host: Host, known: Known) -> Iterator[str]:
    old = before if before is not None else Host(uid=host.uid)
    if before is None:
        yield f"node {host.name} is there"
    if host.machine != old.machine:
        yield f"node {host.name} is machine {host.machine}" if host.machine else f"node {host.name} names no machine"
    if before is not None:
        yield from labels(host.name, old.labels, host.labels)


def _slice(before: PoolSlice | None, row: PoolSlice, known: Known) -> Iterator[str]:
    old = before if before is not None else PoolSlice(uid=row.uid)
    where = row.node or f"pool {row.pool}"
    name = f"slice {row.name}"
    new = [device for device in row.devices if device not in old.devices]
    lost = [device for device in old.devices if device not in row.devices]
    if before is None:
        yield f"{name} of {where} is there" + (f", generation {row.generation}" if not row.node else "")
    if new:
        yield f"{name} of {where} lists {_with_uuids(row, new)}"
    if lost:
        yield f"{name} of {where} no longer lists {_with_uuids(old, lost)}"
    if before is not None and row.generation != old.generation and not row.node:
        yield f"{name} of {where} is of generation {row.generation}"
    if row.taints != old.taints:
        yield f"{name} of {where}: devices are tainted {taints(row.taints)}"
    if row.ordinary and row.ordinary != old.ordinary and not row.node:
        yield f"{name} of {where} lists {listed(row.ordinary)} without binding conditions"


def _with_uuids(row: PoolSlice, names: list[str]) -> str:
    return listed([f"{name} ({row.uuids[name]})" if row.uuids.get(name) else name for name in names])


def _config(before: PoolConfig | None, config: PoolConfig, known: Known) -> Iterator[str]:
    models = ", ".join(model.model for model in config.models) or "no model"
    yield f"the ConfigMap knows {models}" + (f"; mode {config.mode}" if config.mode else "")


OBJECTS: dict[type[Row], Callable[[Any, Any, Known], Iterator[str]]] = {
    Host: _host,
    PoolSlice: _slice,
    PoolConfig: _config,
}


# -- the fabric --------------------------------------------------------------------------------------------------------


def limits_words(limits: dict[str, Limit] | None) -> str:
    """Such as "at most 4 of A100 40G"; "" where the fabric names none."""
    found = []
    for model, limit in sorted((limits or {}).items()):
        most = f"at most {limit.most}" if limit.most is not None else ""
        least = f"at least {limit.least}" if limit.least is not None else ""
        if most or least:
            found.append(f"{' and '.join(filter(None, (most, least)))} of {model}")
    return ", ".join(found)


def broken(devices: tuple[FreeDevice, ...] | None) -> tuple[str, ...]:
    """The devices that the fabric names and that are not healthy."""
    return tuple(one.id for one in devices or () if not one.healthy)


def _machine(fact: e.MachineObserved, known: Known) -> str:
    machine = fact.machine
    named = f" ({machine.name})" if machine.name and machine.name != machine.uuid else ""
    where = f"in fabric {machine.fabric}" if machine.fabric else "in no fabric"
    limits = limits_words(machine.limits)
    return f"machine {machine.uuid}{named} is {where}" + (f", may have {limits}" if limits else "")


def _stock(fact: e.StockObserved, known: Known) -> str:
    bad = broken(fact.devices)
    counted = "has" if fact.whole else "has free"
    return f"fabric {fact.fabric} {counted} {fact.free} of {fact.model}" + (
        f", not healthy: {listed(bad)}" if bad else ""
    )


FACTS: dict[type[Event], Callable[[Any, Known], str]] = {
    e.MachineObserved: _machine,
    e.MachineGone: lambda fact, known: f"the fabric does not name machine {fact.machine} any more",
    e.StockObserved: _stock,
    e.FabricFailed: lambda fact, known: f"the fabric gave no good answer about {spoken(fact.of)}: {fact.text}",
    e.FabricAnswered: lambda fact, known: f"the fabric answers about {spoken(fact.of)}",
}


# -- decisions ---------------------------------------------------------------------------------------------------------


def _published(d: e.PoolPublished, known: Known) -> str:
    number = sum(len(one.devices) for one in d.slices)
    devices = "1 device" if number == 1 else f"{number} devices"
    slices = f" in {len(d.slices)} slices" if len(d.slices) > 1 else ""
    taint = f", tainted {d.taint}" if d.taint else ""
    closed = [name for one in d.slices for name in one.closed]
    taint += f", closed {listed(closed)}" if closed and not d.taint else ""
    why = f": {d.why}" if d.why else ""
    return f"publish pool {d.pool} with {devices}{slices} at generation {d.generation}{taint}{why}"


DECISIONS: dict[type[Decision], Callable[[Any, Known], str]] = {
    e.PoolPublished: _published,
    e.PoolWithdrawn: lambda d, known: f"withdraw pool {d.pool}" + (f": {d.why}" if d.why else ""),
}
