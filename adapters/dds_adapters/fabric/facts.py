"""What is new in a fabric's answers, as facts.

An answer that says what is known already makes none: a fabric is asked every few seconds, and the log keeps what changed. A
question that fails is told once, and once more when it is answered again. A fault of an inventory is told too when it is another
one than before: somebody is at it. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from dds_adapters.fabric.provider import FabricError
from dds_adapters.fabric.survey import MACHINES, Answer, LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer, limits_of
from dds_core.events.base import Event
from dds_core.events.publishing import (
    FabricAnswered,
    FabricFailed,
    MachineGone,
    MachineObserved,
    StockObserved,
    stock_stream,
)
from dds_core.publishing.model import Machine, Stock
from dds_core.text import scrub


class View(Protocol):
    """What is known of a fabric: a picture of the publisher."""

    def machine(self, uuid: str) -> Machine | None: ...

    def machines(self) -> Iterable[str]:
        """UUIDs."""
        ...

    def stock(self, fabric: str, model: str) -> Stock | None: ...

    def in_doubt(self, fabric: str, model: str) -> bool:
        """Whether an answer is news even when it says what is known."""
        ...

    def failure(self, of: str) -> str:
        """Why this question was not answered the last time; empty when it was, or was not asked yet."""
        ...

    @property
    def listed(self) -> bool:
        """Whether a list of machines has come since the start of this process."""
        ...


def facts_of(answer: Answer, view: View) -> tuple[Event, ...]:
    """What is new against the view; empty when nothing is."""
    match answer:
        case MachinesAnswer(machines, fault):
            if fault is not None:
                return (*_moved(machines, view), *_failed(MACHINES, fault, view))
            return (*_moved(machines, view), *_gone(machines, view), *_answered(MACHINES, view, first=not view.listed))
        case StockAnswer(stock):
            return (*_counted(stock, view), *_answered(stock_stream(stock.fabric, stock.model), view))
        case LimitsAnswer(uuid):
            return (*_limited(answer, view), *_answered(limits_of(uuid), view))
        case NoAnswer(of, error):
            return tuple(_failed(of, error, view))


def _failed(of: str, error: FabricError, view: View) -> Iterable[Event]:
    text, known = scrub(str(error)), view.failure(of)
    if not known or (error.lasting and text != known):
        yield FabricFailed(of, text)


def _moved(machines: tuple[Machine, ...], view: View) -> Iterable[Event]:
    """Machines that are new or other than before. A list says nothing of limits: what is known of them stays."""
    for machine in machines:
        known = view.machine(machine.uuid)
        now = machine if known is None else msgspec.structs.replace(machine, limits=known.limits)
        if now != known:
            yield MachineObserved(now)


def _gone(machines: tuple[Machine, ...], view: View) -> Iterable[Event]:
    for uuid in sorted(set(view.machines()) - {machine.uuid for machine in machines}):
        yield MachineGone(uuid)


def _counted(stock: Stock, view: View) -> Iterable[Event]:
    if stock != view.stock(stock.fabric, stock.model) or view.in_doubt(stock.fabric, stock.model):
        yield StockObserved(stock.fabric, stock.model, stock.free, stock.devices, stock.whole)


def _limited(answer: LimitsAnswer, view: View) -> Iterable[Event]:
    """A machine that is gone meanwhile has no limits any more."""
    known = view.machine(answer.machine)
    if known is not None and known.limits != answer.limits:
        yield MachineObserved(msgspec.structs.replace(known, limits=answer.limits))


def _answered(of: str, view: View, first: bool = False) -> Iterable[Event]:
    if first or view.failure(of):
        yield FabricAnswered(of)
