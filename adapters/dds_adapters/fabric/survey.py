"""One round of questions to a fabric: all machines, then what each fabric has free of each model, then each machine's limits.

An error is the error of one question; the others are asked all the same, and what was answered before stands. Free counts are
asked by way of one machine of a fabric, another one each round, because a machine that cannot be asked must not hide its fabric;
after an error the next one is asked, three at most, but not after one that took all its time. A manager that is away altogether
is not asked hundreds of times for it: after three questions in a row that it is the manager's fault to fail, the rest of the
round is left, and so is the rest of a fabric that was too slow for a whole question, and of all limits after three in a row that
were: stock is not to wait for them. What is left is not reported: it is asked again in the next round.

No thread is started here, no clock read, nothing is kept from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from dds_adapters.fabric.provider import FabricError, FabricLate, FabricOdd, FabricPartly, FabricUnreachable, Provider
from dds_core.events.base import Event
from dds_core.publisher.events import (
    FabricAnswered,
    FabricFailed,
    MachineGone,
    MachineObserved,
    StockObserved,
    stock_stream,
)
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from dds_core.text import scrub

TRIES = 3
"""Machines of a fabric that are asked for its stock, one after the other, until one answers."""
AWAY = 3
"""Questions in a row that failed for the manager's sake; the rest of the round is left."""

MACHINES = "machines"


def limits_of(machine: str) -> str:
    """How a question about a machine's limits is named in facts."""
    return f"limits/{machine}"


@dataclass(frozen=True)
class MachinesAnswer:
    """All machines that there are; with `fault` there may be others, which could not be read."""

    machines: tuple[Machine, ...]
    fault: FabricError | None = None

    @property
    def whole(self) -> bool:
        """Whether who is not among them is not there."""
        return self.fault is None


@dataclass(frozen=True)
class StockAnswer:
    """What a fabric has free of a model. `asked` is the instant at which it was, in microseconds; 0: nobody knows."""

    stock: Stock
    asked: int = 0


@dataclass(frozen=True)
class LimitsAnswer:
    """How much a machine (its UUID) may have; None: this API knows of no limits."""

    machine: str
    limits: dict[str, Limit] | None


@dataclass(frozen=True)
class NoAnswer:
    """A question came to nothing. `of` is "machines", "stock/FABRIC/MODEL" or "limits/MACHINE"."""

    of: str
    error: FabricError


Answer = MachinesAnswer | StockAnswer | LimitsAnswer | NoAnswer
T = TypeVar("T")
Question = Callable[[], None]


def in_order(questions: Iterable[Question]) -> None:
    """Ask one after the other."""
    for question in questions:
        question()


def survey(
    provider: Provider,
    models: Sequence[PoolModel],
    round: int,
    report: Callable[[Answer], None],
    stopping: Callable[[], bool],
    *,
    known: Sequence[Machine] = (),
    run: Callable[[Iterable[Question]], None] = in_order,
    instant: Callable[[], int] = int,
    counted: Callable[[], None] = lambda: None,
) -> None:
    """One whole round. `report` is told each answer as it comes; `stopping` is asked before each question.

    `known` are the machines of the round before: they speak for their fabrics when no list of machines comes. `run` carries the
    questions out once the machines are known; one that uses threads makes `report` be called from them. `instant` gives the
    instants of questions. `counted` is called once all stock was asked for: nobody has to wait for limits to know it.
    """
    asked = _Round(provider, round, report, stopping, instant)
    machines = asked.machines(known)
    wanted = list({model.model: model for model in models}.values())
    reachable = _by_fabric(machines)
    fabrics = _turned(sorted(reachable), round)
    run(partial(asked.stock, fabric, reachable[fabric], model) for model in wanted for fabric in fabrics)
    counted()
    run(partial(asked.limits, machine, wanted) for fabric in fabrics for machine in reachable[fabric])


def together(known: Iterable[Machine], read: Iterable[Machine]) -> tuple[Machine, ...]:
    """Those that were known, as far as a list that is not whole says nothing newer of them."""
    return tuple({one.uuid: one for one in (*known, *read)}.values())


def _by_fabric(machines: Iterable[Machine]) -> dict[str, list[Machine]]:
    """Those that some fabric reaches, sorted by UUID."""
    found: dict[str, list[Machine]] = {}
    for machine in sorted(machines, key=lambda one: one.uuid):
        if machine.fabric:
            found.setdefault(machine.fabric, []).append(machine)
    return found


def _turned(items: list[Any], by: int) -> list[Any]:
    start = by % len(items) if items else 0
    return items[start:] + items[:start]


@dataclass
class _Round:
    """The questions of one round. `failed` counts those in a row that failed for the manager's sake, `unheard` those about
    limits to which nothing was said in time, `slow` are fabrics that nothing was heard of in time."""

    provider: Provider
    round: int
    report: Callable[[Answer], None]
    stopping: Callable[[], bool]
    instant: Callable[[], int]
    failed: int = 0
    unheard: int = 0
    slow: set[str] = field(default_factory=set)

    def machines(self, known: Sequence[Machine]) -> Sequence[Machine]:
        """Those that are there now, or else those that were `known`."""
        if self.stopping():
            return ()
        found = self._asked(self.provider.machines)
        if not isinstance(found, FabricError) and not found and known:
            # To believe that all are gone withdraws every pool; a manager that just starts may say so, but hardly twice.
            found = self._asked(self.provider.machines)
        if isinstance(found, FabricPartly):
            self.report(MachinesAnswer(found.machines, found))
            return together(known, found.machines)
        if isinstance(found, FabricError):
            self.report(NoAnswer(MACHINES, found))
            return known
        self.report(MachinesAnswer(tuple(found)))
        return found

    def stock(self, fabric: str, machines: list[Machine], model: PoolModel) -> None:
        """Ask by way of one machine after the other, until one answers."""
        if self._left() or fabric in self.slow:
            return
        for machine in _turned(machines, self.round)[:TRIES]:
            asked = self.instant()
            found = self._asked(partial(self._stock_by, machine, model))
            if not isinstance(found, FabricError):
                self.report(StockAnswer(found, asked))
                return
            error = found
            if error.general or isinstance(error, FabricLate) or self.stopping():
                break
        if isinstance(error, FabricUnreachable):
            self.slow.add(fabric)
        self.report(NoAnswer(stock_stream(fabric, model.model), error))

    def _stock_by(self, machine: Machine, model: PoolModel) -> Stock:
        found = self.provider.stock(machine, model)
        if (found.fabric, found.model) != (machine.fabric, model.model):
            raise FabricOdd(
                f"the answer is about {found.model} in fabric {found.fabric or '(none)'}, not in fabric {machine.fabric}",
                where=f"machine {machine.uuid}",
                fix="the machine has moved, or the manager mixes them up; it is asked again next time",
            )
        return found

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> None:
        if self._left() or self.unheard >= AWAY:
            return
        found = self._asked(lambda: self.provider.limits(machine, models))
        self.unheard = self.unheard + 1 if isinstance(found, FabricUnreachable) else 0
        if isinstance(found, FabricError):
            self.report(NoAnswer(limits_of(machine.uuid), found))
        else:
            self.report(LimitsAnswer(machine.uuid, None if found is None else dict(found)))

    def _left(self) -> bool:
        return self.failed >= AWAY or self.stopping()

    def _asked(self, question: Callable[[], T]) -> T | FabricError:
        """The answer, or why there is none; a fault of a provider's own code is one question's, too."""
        try:
            found = question()
        except FabricError as error:
            self.failed = self.failed + 1 if error.general else 0
            return error
        except Exception as error:
            words = f"{type(error).__name__}: {scrub(str(error))[:200]}"
            return FabricError(words, where="the fabric's client", fix="please report it; everything else goes on")
        self.failed = 0
        return found


# -- what is new in answers, as facts ------------------------------------------------------------------------------------


class FabricKnowledge(Protocol):
    """What is known of a fabric: a state of the publisher."""

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


def facts_of(answer: Answer, view: FabricKnowledge) -> tuple[Event, ...]:
    """What is new against the view; an answer that says what is known already makes no fact. A question that fails is told
    once, and once more when it is answered again; a fault of an inventory also when it is another one than before: somebody is
    at it."""
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


def _failed(of: str, error: FabricError, view: FabricKnowledge) -> Iterable[Event]:
    text, known = scrub(str(error)), view.failure(of)
    if not known or (error.lasting and text != known):
        yield FabricFailed(of, text)


def _moved(machines: tuple[Machine, ...], view: FabricKnowledge) -> Iterable[Event]:
    """Machines that are new or other than before. A list says nothing of limits: what is known of them stays."""
    for machine in machines:
        known = view.machine(machine.uuid)
        now = machine if known is None else msgspec.structs.replace(machine, limits=known.limits)
        if now != known:
            yield MachineObserved(now)


def _gone(machines: tuple[Machine, ...], view: FabricKnowledge) -> Iterable[Event]:
    for uuid in sorted(set(view.machines()) - {machine.uuid for machine in machines}):
        yield MachineGone(uuid)


def _counted(stock: Stock, view: FabricKnowledge) -> Iterable[Event]:
    if stock != view.stock(stock.fabric, stock.model) or view.in_doubt(stock.fabric, stock.model):
        yield StockObserved(stock.fabric, stock.model, stock.free, stock.devices, stock.whole)


def _limited(answer: LimitsAnswer, view: FabricKnowledge) -> Iterable[Event]:
    """A machine that is gone meanwhile has no limits any more."""
    known = view.machine(answer.machine)
    if known is not None and known.limits != answer.limits:
        yield MachineObserved(msgspec.structs.replace(known, limits=answer.limits))


def _answered(of: str, view: FabricKnowledge, first: bool = False) -> Iterable[Event]:
    if first or view.failure(of):
        yield FabricAnswered(of)
