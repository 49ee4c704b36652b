"""What the publisher's log holds beside what all logs do: facts about its objects, what a fabric answers, and what it decides."""

from __future__ import annotations

from typing import Any, ClassVar

from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events import shared
from dds_core.events.base import Decision, Fact, Level, Names, observed, register
from dds_core.publisher.model import FreeDevice, Host, Limit, Machine, PoolConfig, PoolModel, PoolSlice, SliceLayout
from dds_core.timeline.phrases import listed, spoken

# -- objects -----------------------------------------------------------------------------------------------------------

HostObserved, HostGone = observed(
    Host,
    "A node appeared or changed.",
    "A node was deleted.",
)
PoolSliceObserved, PoolSliceGone = observed(
    PoolSlice,
    "A ResourceSlice appeared or changed.",
    "A ResourceSlice was deleted.",
)
PoolConfigObserved, PoolConfigGone = observed(
    PoolConfig,
    "The ConfigMap of the fabric appeared or changed.",
    "Older logs only: the ConfigMap was deleted; without it the publisher decided nothing.",
)


# -- the fabric --------------------------------------------------------------------------------------------------------

FABRIC = "fabric"
"""The stream of everything that is about the fabric's API as a whole."""


def stock_stream(fabric: str, model: str) -> str:
    return f"stock/{fabric}/{model}"


def pool_stream(driver: str, pool: str) -> str:
    return f"pool/{driver}/{pool}"


def pool_of(stream: str) -> tuple[str, str] | None:
    """The pool (driver, name) whose stream that is, None for another stream."""
    word, _, rest = stream.partition("/")
    driver, _, pool = rest.partition("/")
    return (driver, pool) if word == "pool" and pool else None


BEYOND_BELIEF = "StockBeyondBelief"
"""Reason of an alert: the fabric says that more is free than the policy believes."""
NOT_AS_WRITTEN = "ReadBackDiffers"
"""Reason of an alert: a pool is not seen as it was written, again and again."""
DROPPED = "BindingConditionsDropped"
"""Reason of a refusal: the API does not keep what makes a device wait for its attach."""


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


class MachineObserved(Fact, frozen=True):
    """The fabric's answer about a machine is new."""

    machine: Machine

    @property
    def subject(self) -> str:
        return self.machine.uuid

    def words(self, names: Names) -> str:
        machine = self.machine
        named = f" ({machine.name})" if machine.name and machine.name != machine.uuid else ""
        where = f"in fabric {machine.fabric}" if machine.fabric else "in no fabric"
        limits = limits_words(machine.limits)
        return f"machine {machine.uuid}{named} is {where}" + (f", may have {limits}" if limits else "")

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "machine": self.subject}


class MachineGone(Fact, frozen=True):
    """A complete list of machines no longer has it."""

    level: ClassVar[Level] = "info"

    machine: str

    @property
    def subject(self) -> str:
        return self.machine

    def words(self, names: Names) -> str:
        return f"the fabric does not name machine {self.machine} any more"

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "machine": self.subject}


class OfStock(Fact, frozen=True):
    fabric: str
    model: str

    @property
    def subject(self) -> str:
        return stock_stream(self.fabric, self.model)

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "fabric": self.fabric, "model": self.model}


class StockObserved(OfStock, frozen=True):
    """What a fabric has free of a model is new; `devices`: which, if its API says. `whole`: attached ones count too."""

    free: int
    devices: tuple[FreeDevice, ...] | None = None
    whole: bool = False

    def words(self, names: Names) -> str:
        bad = broken(self.devices)
        counted = f"fabric {self.fabric} {'has' if self.whole else 'has free'} {self.free} of {self.model}"
        return counted + (f", not healthy: {listed(bad)}" if bad else "")


class OfQuestion(Fact, frozen=True):
    """`of` is what the fabric was asked about: "machines", "stock/FABRIC/MODEL", "limits/MACHINE" or "entries"."""

    of: str

    @property
    def subject(self) -> str:
        return FABRIC

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "question": self.of}


class FabricFailed(OfQuestion, frozen=True):
    """The fabric did not answer a question correctly; reported once until it does. `of`: "machines",
    "stock/FABRIC/MODEL", "limits/MACHINE" (the last answer stays in force), or "entries": some of an answer's were left out."""

    level: ClassVar[Level] = "warning"

    text: str

    def words(self, names: Names) -> str:
        return f"the fabric gave no good answer about {spoken(self.of)}: {self.text}"


class FabricAnswered(OfQuestion, frozen=True):
    """A question that had failed is answered again; "machines" also at this process's first answer."""

    level: ClassVar[Level] = "info"

    def words(self, names: Names) -> str:
        return f"the fabric answers about {spoken(self.of)}"


# -- decisions ---------------------------------------------------------------------------------------------------------


class OfPool(Decision, frozen=True, kw_only=True):
    driver: str
    pool: str
    mode: str

    @property
    def subject(self) -> str:
        return pool_stream(self.driver, self.pool)

    @property
    def key(self) -> tuple[str, str]:
        return ("pool", self.subject)

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "driver": self.driver, "pool": self.pool}


class PoolPublished(OfPool, frozen=True, kw_only=True):
    """Write the pool: these slices and devices at this generation, each device described by `model`. `taint`: key of a
    NoSchedule taint on every device. `drop`: slices (name → uid) to delete first. `adopt`: take over slices of these
    names without an owner. `why`: for people."""

    fabric: str
    prefix: str
    model: PoolModel
    generation: int
    slices: tuple[SliceLayout, ...]
    taint: str = ""
    drop: dict[str, str] = {}
    adopt: bool = False
    why: str = ""

    def words(self, names: Names) -> str:
        number = sum(len(one.devices) for one in self.slices)
        devices = "1 device" if number == 1 else f"{number} devices"
        slices = f" in {len(self.slices)} slices" if len(self.slices) > 1 else ""
        closed = [name for one in self.slices for name in one.closed]
        taint = f", tainted {self.taint}" if self.taint else f", closed {listed(closed)}" if closed else ""
        why = f": {self.why}" if self.why else ""
        return f"publish pool {self.pool} with {devices}{slices} at generation {self.generation}{taint}{why}"


class PoolWithdrawn(OfPool, frozen=True, kw_only=True):
    """Delete all of the publisher's slices of the pool; `drop`: those that exist (name → uid)."""

    drop: dict[str, str] = {}
    why: str = ""

    def words(self, names: Names) -> str:
        return f"withdraw pool {self.pool}" + (f": {self.why}" if self.why else "")


EVENTS = (
    *shared.EVENTS,
    HostObserved,
    HostGone,
    PoolSliceObserved,
    PoolSliceGone,
    PoolConfigObserved,
    PoolConfigGone,
    *register(MachineObserved, MachineGone, StockObserved, FabricFailed, FabricAnswered, PoolPublished, PoolWithdrawn),
)
"""What the publisher's log may hold."""
