"""What a fabric answers, and what the publisher decides; its facts about objects of the cluster are in `objects`."""

from __future__ import annotations

from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events.base import Decision, Fact
from dds_core.events.registry import register
from dds_core.publisher.model import FreeDevice, Machine, PoolModel, SliceLayout

# -- the fabric --------------------------------------------------------------------------------------------------------


class MachineObserved(Fact, frozen=True):
    """The fabric's answer about a machine is new: which fabric reaches it, how much it may have."""

    machine: Machine

    @property
    def subject(self) -> str:
        return self.machine.uuid


class MachineGone(Fact, frozen=True):
    """A whole list of machines did not have it any more."""

    machine: str

    @property
    def subject(self) -> str:
        return self.machine


class OfStock(Fact, frozen=True):
    fabric: str
    model: str

    @property
    def subject(self) -> str:
        return stock_stream(self.fabric, self.model)


class StockObserved(OfStock, frozen=True):
    """What a fabric has free of a model is new; `devices` where its API says which. `whole`: the attached ones count too."""

    free: int
    devices: tuple[FreeDevice, ...] | None = None
    whole: bool = False


class FabricFailed(Fact, frozen=True):
    """The fabric did not answer a question, or not as it should: told once until it answers again. `of` is what was asked about:
    "machines", "stock/FABRIC/MODEL" or "limits/MACHINE". What it answered before stands."""

    of: str
    text: str

    @property
    def subject(self) -> str:
        return FABRIC


class FabricAnswered(Fact, frozen=True):
    """A question that had failed is answered again; "machines" also the first time that it is, by this process."""

    of: str

    @property
    def subject(self) -> str:
        return FABRIC


FABRIC = "fabric"
"""The stream of everything that is about the fabric's API as a whole."""


def stock_stream(fabric: str, model: str) -> str:
    return f"stock/{fabric}/{model}"


def pool_stream(driver: str, pool: str) -> str:
    return f"pool/{driver}/{pool}"


# -- decisions ---------------------------------------------------------------------------------------------------------


class OfPool(Decision, frozen=True, kw_only=True):
    driver: str
    pool: str
    mode: str

    @property
    def subject(self) -> str:
        return pool_stream(self.driver, self.pool)


class PoolPublished(OfPool, frozen=True, kw_only=True):
    """A pool is to be so: these slices, with these devices, at this generation, each device described by `model`.

    `taint` is the key of a NoSchedule taint on every device, "" for none. `drop` are slices of the pool (name → uid) that have to
    go first. With `adopt` slices of these names that carry nobody's mark are taken over in place. `why` is for people.
    """

    fabric: str
    prefix: str
    model: PoolModel
    generation: int
    slices: tuple[SliceLayout, ...]
    taint: str = ""
    drop: dict[str, str] = {}
    adopt: bool = False
    why: str = ""


class PoolWithdrawn(OfPool, frozen=True, kw_only=True):
    """No slice of ours of this pool is to be there any more; `drop` are those that are (name → uid)."""

    drop: dict[str, str] = {}
    why: str = ""


EVENTS = register(
    MachineObserved,
    MachineGone,
    StockObserved,
    FabricFailed,
    FabricAnswered,
    PoolPublished,
    PoolWithdrawn,
)
