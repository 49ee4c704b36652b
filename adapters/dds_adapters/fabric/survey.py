"""One round of questions to a fabric: all machines, then what each fabric has free of each model, then each machine's limits.

An error concerns one question; the others are still asked, and earlier answers remain valid. Free counts are asked through one
machine of a fabric, another one in each round, because a machine that does not answer must not hide its fabric. After an error
the next machine is asked, three at most, but not after one that took the whole time limit.

A manager that is away is not asked hundreds of times. After three general failures in a row the rest of the round is skipped;
after a question of stock without an answer in time, the rest of that fabric's stock; after three such questions of limits in a
row, all limits. What is skipped is not reported; it is asked in the next round.

Nothing here starts a thread, reads a clock, or is kept from round to round.
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
"""After so many general failures in a row the rest of the round is skipped."""

MACHINES = "machines"
ENTRIES = "entries"
"""Names of questions in facts; that about entries fails while some of them are left out."""


def limits_of(machine: str) -> str:
    """Name of a question about a machine's limits in facts."""
    return f"limits/{machine}"


@dataclass(frozen=True)
class MachinesAnswer:
    """All machines; with `fault` there may be others, which could not be read."""

    machines: tuple[Machine, ...]
    fault: FabricError | None = None

    @property
    def whole(self) -> bool:
        """Whether a machine that is not in the list is gone."""
        return self.fault is None


@dataclass(frozen=True)
class StockAnswer:
    """What a fabric has free of a model. `asked` is the instant of the question in microseconds; 0: unknown."""

    stock: Stock
    asked: int = 0


@dataclass(frozen=True)
class LimitsAnswer:
    """How many devices a machine (its UUID) may have; None: this API has no limits."""

    machine: str
    limits: dict[str, Limit] | None


@dataclass(frozen=True)
class EntriesAnswer:
    """No entry of the last answers was left out."""


@dataclass(frozen=True)
class NoAnswer:
    """A failed question. `of` is "machines", "stock/FABRIC/MODEL", "limits/MACHINE" or "entries"."""

    of: str
    error: FabricError


Answer = MachinesAnswer | StockAnswer | LimitsAnswer | EntriesAnswer | NoAnswer
T = TypeVar("T")
Question = Callable[[], None]


def in_order(questions: Iterable[Question]) -> None:
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
    """One whole round. `report` gets each answer as it comes; `stopping` is called before each question.

    `known` are the machines of the round before, used if no list of machines comes. `run` carries out the questions once the
    machines are known; if it uses threads, they call `report`. `instant` gives the instants of questions. `counted` is called
    once all stock was asked for, so that no one waits for the limits.
    """
    asked = _Round(provider, round, report, stopping, instant)
    machines = asked.machines(known)
    wanted = list({model.model: model for model in models}.values())
    reachable = _by_fabric(machines)
    fabrics = _turned(sorted(reachable), round)
    run(partial(asked.stock, fabric, reachable[fabric], model) for model in wanted for fabric in fabrics)
    counted()
    run(partial(asked.limits, machine, wanted) for fabric in fabrics for machine in reachable[fabric])


def entries(provider: Provider) -> Answer | None:
    """After a round: whether entries of its answers were left out. None without an answer."""
    try:
        odd = provider.left_out()
    except Exception as error:
        return NoAnswer(ENTRIES, _bug(error))
    if odd is None:
        return None
    return NoAnswer(ENTRIES, FabricOdd(odd)) if odd else EntriesAnswer()


def together(known: Iterable[Machine], read: Iterable[Machine]) -> tuple[Machine, ...]:
    """The known machines, updated by an incomplete list."""
    return tuple({one.uuid: one for one in (*known, *read)}.values())


def _by_fabric(machines: Iterable[Machine]) -> dict[str, list[Machine]]:
    """The machines of each fabric, sorted by UUID."""
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
    """The questions of one round. `failed`: general failures in a row; `unheard`: time-outs of limits in a row; `slow`: fabrics
    with a time-out."""

    provider: Provider
    round: int
    report: Callable[[Answer], None]
    stopping: Callable[[], bool]
    instant: Callable[[], int]
    failed: int = 0
    unheard: int = 0
    slow: set[str] = field(default_factory=set)

    def machines(self, known: Sequence[Machine]) -> Sequence[Machine]:
        """The machines now, or the `known` ones if there is no answer."""
        if self.stopping():
            return ()
        found = self._asked(self.provider.machines)
        if not isinstance(found, FabricError) and not found and known:
            # An empty list withdraws every pool. A manager that is starting may give one, but hardly twice.
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
        """Ask through one machine after the other, until one answers."""
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
        """The answer, or the error; an exception in a provider's own code concerns one question, too."""
        try:
            found = question()
        except FabricError as error:
            self.failed = self.failed + 1 if error.general else 0
            return error
        except Exception as error:
            return _bug(error)
        self.failed = 0
        return found


def _bug(error: Exception) -> FabricError:
    words = f"{type(error).__name__}: {scrub(str(error))[:200]}"
    return FabricError(words, where="the fabric's client", fix="please report it; everything else goes on")


# -- facts from answers --------------------------------------------------------------------------------------------------


class FabricKnowledge(Protocol):
    """What a state of the publisher knows of a fabric."""

    def machine(self, uuid: str) -> Machine | None: ...

    def machines(self) -> Iterable[str]:
        """UUIDs."""
        ...

    def stock(self, fabric: str, model: str) -> Stock | None: ...

    def in_doubt(self, fabric: str, model: str) -> bool:
        """Whether an answer is news even if it says what is known."""
        ...

    def failure(self, of: str) -> str:
        """Why the last such question failed; empty if it was answered or not asked yet."""
        ...

    @property
    def listed(self) -> bool:
        """Whether a list of machines has come since this process started."""
        ...


def facts_of(answer: Answer, view: FabricKnowledge) -> tuple[Event, ...]:
    """The news in an answer; an answer that repeats what is known gives no fact. A failing question is reported once, and again
    when it is answered. An inventory's fault is also reported when its text changes, because someone is editing the file."""
    match answer:
        case MachinesAnswer(machines, fault):
            if fault is not None:
                return (*_moved(machines, view), *_failed(MACHINES, fault, view))
            return (*_moved(machines, view), *_gone(machines, view), *_answered(MACHINES, view, first=not view.listed))
        case StockAnswer(stock):
            return (*_counted(stock, view), *_answered(stock_stream(stock.fabric, stock.model), view))
        case LimitsAnswer(uuid):
            return (*_limited(answer, view), *_answered(limits_of(uuid), view))
        case EntriesAnswer():
            return tuple(_answered(ENTRIES, view))
        case NoAnswer(of, error):
            return tuple(_failed(of, error, view))


def _failed(of: str, error: FabricError, view: FabricKnowledge) -> Iterable[Event]:
    text, known = scrub(str(error)), view.failure(of)
    if not known or (error.lasting and text != known):
        yield FabricFailed(of, text)


def _moved(machines: tuple[Machine, ...], view: FabricKnowledge) -> Iterable[Event]:
    """New or changed machines. A list has no limits: the known ones stay."""
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
    """Nothing for a machine that is gone by now."""
    known = view.machine(answer.machine)
    if known is not None and known.limits != answer.limits:
        yield MachineObserved(msgspec.structs.replace(known, limits=answer.limits))


def _answered(of: str, view: FabricKnowledge, first: bool = False) -> Iterable[Event]:
    if first or view.failure(of):
        yield FabricAnswered(of)
