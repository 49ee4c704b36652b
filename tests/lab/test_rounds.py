"""Rounds of questions on virtual time: one after the other, as many questions at once as there are connections, and what a client
waits within a question passes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dds_adapters.fabric import FabricAway, Provider
from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.survey import Answer, MachinesAnswer, NoAnswer, StockAnswer
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from dds_lab.driver import Pace, Rounds
from dds_lab.latency import Fixed
from dds_lab.time import VirtualTime

A, B = (PoolModel(place, name, name.lower(), "gpu.example.com") for place, name in enumerate("AB"))
MACHINES = (Machine("m-1", fabric="1"), Machine("m-2", fabric="2"))
SECOND = 1_000_000


class Fabric(Provider):
    """Answers at once, after a client that waited `waits` seconds within each question for stock."""

    def __init__(self, outside: Outside, waits: float = 0.0) -> None:
        self.outside = outside
        self.waits = waits
        self.away = False
        self.asked: list[tuple[float, str]] = []

    def machines(self) -> Sequence[Machine]:
        self._ask("machines")
        return MACHINES

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        self._ask(f"stock {machine.fabric} {model.model}")
        self.outside.sleep(self.waits)
        return Stock(machine.fabric, model.model, 1)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        self._ask(f"limits {machine.uuid}")
        return None

    def close(self) -> None:
        """Nothing is open."""

    def _ask(self, what: str) -> None:
        self.asked.append((self.outside.clock(), what))
        if self.away:
            raise FabricAway("nobody is there")


class Room:
    """Virtual time from 0, rounds, and what was heard when."""

    def __init__(self, interval: float = 10.0, connections: int = 1, waits: float = 0.0) -> None:
        self.time = VirtualTime(1, 0)
        self.heard: list[tuple[float, Answer]] = []
        self.ended: list[tuple[float, tuple[PoolModel, ...]]] = []
        pace = Pace(interval, Fixed(0.5), connections)
        self.fabric: Fabric
        self.rounds = Rounds(
            self.time,
            lambda outside: self._made(outside, waits),
            pace,
            lambda answer: self.heard.append((self.now, answer)),
            lambda models: self.ended.append((self.now, models)),
        )

    def _made(self, outside: Outside, waits: float) -> Fabric:
        self.fabric = Fabric(outside, waits)
        return self.fabric

    @property
    def now(self) -> float:
        return self.time.now() / SECOND

    def run(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * SECOND))


def test_a_round_asks_one_question_after_the_other_and_the_next_begins_in_time() -> None:
    room = Room()
    room.rounds.look_for((A,), ())
    room.run(9.9)
    assert room.fabric.asked == [
        (0.0, "machines"),
        (0.5, "stock 1 A"),
        (1.0, "stock 2 A"),
        (1.5, "limits m-1"),
        (2.0, "limits m-2"),
    ]
    assert [at for at, _ in room.heard] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert room.ended == [(2.5, (A,))]
    room.run(10)
    assert [at for at, _ in room.ended] == [2.5, 12.5]


def test_connections_ask_side_by_side() -> None:
    room = Room(connections=4)
    room.rounds.look_for((A, B), ())
    room.run(5)
    assert [at for at, what in room.fabric.asked if what.startswith("stock")] == [0.5] * 4
    assert [at for at, _ in room.ended] == [1.5]


def test_what_the_client_waits_passes_and_a_late_round_makes_the_next_one_late() -> None:
    room = Room(interval=5.0, waits=20.0)
    room.rounds.look_for((A,), ())
    room.run(100)
    stock = [at for at, answer in room.heard if isinstance(answer, StockAnswer)]
    assert stock[:2] == [21.0, 41.5]
    assert room.rounds.begun == 3, "never two at once"
    assert [at for at, what in room.fabric.asked if what == "machines"] == [0.0, 42.5, 85.0]


def test_other_models_are_asked_about_as_soon_as_the_round_is_over() -> None:
    room = Room(interval=60.0)
    room.rounds.look_for((A,), ())
    room.run(1.2)
    room.rounds.look_for((A, B), ())
    room.rounds.look_for((A, B), ())
    room.run(20)
    assert [models for _, models in room.ended] == [(A,), (A, B)]
    assert room.rounds.begun == 2


def test_machines_that_were_known_speak_for_their_fabrics_and_after_the_end_nothing_comes() -> None:
    room = Room()
    room.fabric.away = True
    room.rounds.look_for((A,), MACHINES)
    room.run(5)
    assert [type(answer) for _, answer in room.heard] == [NoAnswer] * 3
    room.fabric.away = False
    room.run(5.2)
    room.rounds.end()
    room.run(60)
    assert not any(isinstance(answer, MachinesAnswer | StockAnswer) for _, answer in room.heard)
    assert len(room.ended) == 1
