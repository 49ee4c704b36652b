"""The threads that ask: a fabric round after round, the API server for what it keeps; and the answers until they are taken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest

from dds_adapters.fabric.provider import FabricError, FabricUnreachable, Provider
from dds_adapters.fabric.survey import LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer
from dds_adapters.kubernetes.cluster import Answer, Unreachable
from dds_adapters.runtime import publishing as probing
from dds_adapters.runtime.polling import PollingThread
from dds_adapters.runtime.publisher import Answered, Answers, Pollers, Probed, PublisherController, RoundEnded
from dds_adapters.runtime.publishing import ApiProbe, FabricPoller
from dds_core.errors import DdsError
from dds_core.log import MemoryLog
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from dds_core.publisher.policy import PublishPolicy
from tests.support.live_lab import eventually

A100, H100 = (PoolModel(n, name, name.lower(), "gpu.nvidia.com") for n, name in enumerate(("A100", "H100")))
T = TypeVar("T")
MACHINES = tuple(Machine(f"m{n}", f"n{n}", str(n % 2)) for n in range(4))


class Fabric(Provider):
    """Answers at once, or when it may; remembers who asked what, and how many at a time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.pause = 0.0
        self.broken = False
        self._running = 0
        self._lock = threading.Lock()

    def machines(self) -> Sequence[Machine]:
        return self._answer("machines", MACHINES)

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        return self._answer(f"stock/{machine.fabric}/{model.model}", Stock(machine.fabric, model.model, 3))

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        none: Mapping[str, Limit] | None = None
        return self._answer(f"limits/{machine.uuid}", none)

    def close(self) -> None: ...

    def _answer(self, of: str, answer: T) -> T:
        with self._lock:
            self.asked.append(of)
            self._running += 1
            self.at_once = max(self.at_once, self._running)
        time.sleep(self.pause)
        with self._lock:
            self._running -= 1
        if self.broken:
            raise FabricUnreachable("too slow", where=of)
        return answer


class Asking:
    """A surveyor with its answers, and what became of it."""

    def __init__(self, **more: Any) -> None:
        self.fabric = Fabric()
        self.instants = iter(range(10**9))
        self.answers = Answers(lambda: next(self.instants), lambda: None)
        self.surveyor = FabricPoller(self.fabric, self.answers, **more)
        self.surveyor.start()


@pytest.fixture
def asking() -> Any:
    made: list[Asking] = []

    def make(**more: Any) -> Asking:
        made.append(Asking(**more))
        return made[-1]

    yield make
    for one in made:
        assert one.surveyor.stop(5)


Make = Callable[..., Asking]


def test_nothing_is_asked_before_it_is_known_what_for(asking: Make) -> None:
    one = asking(interval=0.05)
    time.sleep(0.3)
    assert one.fabric.asked == []
    one.surveyor.look_for((A100,), ())
    eventually(lambda: one.surveyor.rounds >= 2)


def test_a_round_asks_everything_and_says_when_it_is_over(asking: Make) -> None:
    one = asking(interval=60)
    one.surveyor.look_for((A100, H100), ())
    eventually(lambda: one.surveyor.rounds == 1)
    eventually(lambda: len(one.answers.ages()) == 1 + 4 + 4)
    taken = one.answers.take()
    assert len([item for item in taken if isinstance(item, Answered)]) == 1 + 4 + 4
    assert [item for item in taken if isinstance(item, RoundEnded)] == [taken[-1]]
    assert taken[-1].models == (A100, H100)  # type: ignore[union-attr]
    assert [item.at for item in taken] == sorted(item.at for item in taken)
    assert one.answers.take() == []


def test_other_models_begin_a_round_at_once(asking: Make) -> None:
    one = asking(interval=60)
    one.surveyor.look_for((A100,), ())
    eventually(lambda: one.surveyor.rounds == 1)
    one.surveyor.look_for((A100,), ())
    time.sleep(0.2)
    assert one.surveyor.rounds == 1, "the same ones do not"
    one.surveyor.look_for((H100,), ())
    eventually(lambda: one.surveyor.rounds == 2)
    assert one.fabric.asked[-1].startswith("limits/") and "stock/0/H100" in one.fabric.asked


def test_so_many_questions_run_side_by_side_and_rounds_never_overlap(asking: Make) -> None:
    one = asking(interval=0.01, connections=3)
    one.fabric.pause = 0.02
    one.surveyor.look_for((A100, H100), ())
    eventually(lambda: one.surveyor.rounds >= 3)
    assert one.fabric.at_once == 3
    asked = list(one.fabric.asked)
    rounds = [n for n, of in enumerate(asked) if of == "machines"]
    assert all(b - a == 9 for a, b in pairwise(rounds))


def test_an_end_does_not_wait_for_a_question_that_hangs() -> None:
    one = Asking(interval=0.01)
    one.surveyor.look_for((A100,), ())
    eventually(lambda: one.surveyor.rounds >= 1)
    one.fabric.pause = 5.0
    time.sleep(0.1)
    began = time.monotonic()
    one.surveyor.stop(1.0)
    assert time.monotonic() - began < 4.0


def test_who_waits_for_stock_does_not_wait_for_limits(asking: Make) -> None:
    """A cluster manager that hangs would keep back everything that is to be published."""
    made, told = asking(interval=60.0), threading.Event()
    fabric: Any = made.fabric
    answer = fabric.limits

    def limits(machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        told.wait(30)
        found: Mapping[str, Limit] | None = answer(machine, models)
        return found

    fabric.limits = limits
    made.surveyor.look_for((A100,), ())
    heard: list[object] = []

    def ended() -> bool:
        heard.extend(made.answers.take())
        return any(isinstance(one, RoundEnded) for one in heard)

    eventually(ended)
    assert made.surveyor.rounds == 0 and not any(
        isinstance(one, Answered) and isinstance(one.answer, LimitsAnswer) for one in heard
    )
    told.set()


def test_two_questions_that_hang_are_waited_for_as_one() -> None:
    class Hanging(PollingThread):
        def _run(self) -> None:
            time.sleep(6)

    hanging: Any = Pollers(Answers(int, lambda: None), Hanging("fabric"), Hanging("probe"))  # type: ignore[arg-type]
    publisher = PublisherController(
        MemoryLog("c/publisher", cluster="uid", recorded_at=0), PublishPolicy(), code="code", pollers=hanging
    )
    publisher.begin()
    began = time.monotonic()
    assert publisher.end() == ["fabric", "probe"]
    assert time.monotonic() - began < 3


def test_machines_of_the_log_speak_for_their_fabrics_while_the_list_is_away(asking: Make) -> None:
    one = asking(interval=60)
    one.fabric.broken = True
    one.surveyor.look_for((A100,), MACHINES)
    eventually(lambda: one.surveyor.rounds == 1)
    failed = {item.answer.of for item in one.answers.take() if isinstance(item, Answered)}  # type: ignore[union-attr]
    assert {"machines", "stock/0/A100", "stock/1/A100"} <= failed


def test_a_fault_of_the_program_ends_a_round_and_not_the_asking() -> None:
    told: list[DdsError] = []
    one = Asking(interval=0.05, on_error=told.append)

    one.fabric.machines = lambda: [None]  # type: ignore[method-assign,list-item]
    one.surveyor.look_for((A100,), ())
    eventually(lambda: told)
    assert "please report it" in str(told[0])
    eventually(lambda: one.surveyor.rounds >= 2)
    assert one.surveyor.stop(5)


def test_while_nobody_takes_them_only_the_newest_answers_are_kept() -> None:
    answers = Answers(iter(range(100)).__next__, lambda: None)
    for free in range(10):
        answers.put(StockAnswer(Stock("1", "A100", free)))
        answers.put(NoAnswer("limits/m0", FabricError("no")))
        answers.ended((A100,))
    stock, limits, ended = answers.take()
    assert isinstance(stock, Answered) and stock.answer == StockAnswer(Stock("1", "A100", 9))
    assert isinstance(limits, Answered) and isinstance(limits.answer, NoAnswer)
    assert isinstance(ended, RoundEnded)


def test_of_a_model_that_is_not_asked_about_any_more_no_answer_grows_old() -> None:
    answers = Answers(lambda: 0, lambda: None)
    answers.put(MachinesAnswer(MACHINES))
    answers.put(StockAnswer(Stock("1", "A100", 1)))
    answers.put(StockAnswer(Stock("1", "H100", 1)))
    answers.ended((A100,))
    assert answers.ages().keys() == {"machines", "stock/1/A100"}


def test_how_old_the_last_good_answers_are() -> None:
    answers = Answers(lambda: 0, lambda: None)
    answers.put(MachinesAnswer(MACHINES))
    answers.put(StockAnswer(Stock("1", "A100", 1)))
    answers.put(LimitsAnswer("m0", None))
    answers.put(NoAnswer("stock/0/A100", FabricError("no")))
    assert answers.ages().keys() == {"machines", "stock/1/A100", "limits/m0"}
    answers.put(MachinesAnswer(MACHINES[2:3]))
    assert answers.ages().keys() == {"machines"}, "nobody asks how old an answer about what is gone is"


# -- the probe


class Api:
    """An API server that keeps what it is told to keep."""

    def __init__(self) -> None:
        self.asked = 0
        self.code = 201
        self.away = False

    def ask(self, method: str, path: str, *, body: bytes | None = None, **more: Any) -> Answer:
        self.asked += 1
        assert (method, more["query"]["dryRun"]) == ("POST", "All")
        if self.away:
            raise Unreachable("does not answer")
        return Answer(self.code, body or b"")


class Probing:
    def __init__(self, version: str = "resource.k8s.io/v1") -> None:
        self.api, self.version = Api(), version
        self.told: list[DdsError] = []
        self.answers = Answers(lambda: 0, lambda: None)
        self.prober = ApiProbe(self.api, lambda: self.version, self.answers, on_error=self.told.append)
        self.prober.start()

    def taken(self) -> Any:
        return eventually(self.answers.take)[0]


@pytest.fixture
def asked() -> Any:
    one = Probing()
    yield one
    assert one.prober.stop(5)


def test_it_is_asked_once_and_again_only_while_something_is_dropped(
    asked: Probing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "AGAIN_SECONDS", 0.1)
    asked.prober.look("gpu.nvidia.com", dropped=False)
    assert asked.taken().capabilities.binding_conditions
    time.sleep(0.4)
    assert asked.api.asked == 1
    asked.prober.look("gpu.nvidia.com", dropped=True)
    eventually(lambda: asked.api.asked >= 3)


def test_an_api_that_does_not_say_is_asked_again_and_keeps_nobody_waiting(
    asked: Probing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "FAILED_SECONDS", 0.1)
    asked.api.code = 403
    asked.prober.look("gpu.nvidia.com", dropped=False)
    assert asked.taken() == Probed(None, 0)
    assert "403" in str(asked.told[0])
    asked.api.code = 201
    assert eventually(lambda: any(one.capabilities for one in asked.answers.take() if isinstance(one, Probed)))


def test_an_api_that_is_away_is_waited_for(asked: Probing) -> None:
    asked.api.away = True
    asked.prober.look("gpu.nvidia.com", dropped=False)
    eventually(lambda: asked.told)
    assert asked.answers.take() == []
    asked.api.away = False
    assert asked.taken().capabilities is not None


def test_before_the_version_is_known_nothing_is_asked() -> None:
    one = Probing(version="")
    one.prober.look("gpu.nvidia.com", dropped=False)
    time.sleep(0.4)
    assert one.api.asked == 0
    one.version = "resource.k8s.io/v1"
    assert one.taken().capabilities is not None
    assert one.prober.stop(5)
    assert msgspec.json.encode(one.api.asked) == b"1"
