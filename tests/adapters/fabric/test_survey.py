"""Rounds: what is asked, in which order, and how far an error reaches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dds_adapters.fabric import FabricAway, FabricDenied, FabricError, FabricOdd, FabricUnreachable, Provider
from dds_adapters.fabric.provider import FabricBusy, FabricLate, FabricPartly
from dds_adapters.fabric.survey import Answer, LimitsAnswer, MachinesAnswer, NoAnswer, Question, StockAnswer, survey
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from tests.adapters.fabric.rig import A100, H100

MACHINES = tuple(Machine(f"m-{number}", fabric=str(number // 3)) for number in range(6))


class Played(Provider):
    """A provider whose answers may be put wrong: by the question's name, an error or a function that makes the answer."""

    def __init__(self, machines: Sequence[Machine] = MACHINES) -> None:
        self.listed = machines
        self.wrong: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.moved: dict[str, str] = {}
        self.lists: list[Sequence[Machine]] = []

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        for prefix, error in self.wrong.items():
            if what.startswith(prefix):
                raise error

    def machines(self) -> Sequence[Machine]:
        self._ask("machines")
        return self.lists.pop(0) if self.lists else self.listed

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        self._ask(f"stock {machine.uuid} {model.device}")
        return Stock(self.moved.get(machine.uuid, machine.fabric), model.model, 1)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        self._ask(f"limits {machine.uuid}")
        return {model.model: Limit(4) for model in models}

    def close(self) -> None:
        """Nothing is open."""


def asked(
    provider: Provider,
    *models: PoolModel,
    round: int = 0,
    known: Sequence[Machine] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> list[Answer]:
    answers: list[Answer] = []
    survey(provider, models, round, answers.append, stopping, known=known)
    return answers


def failed(answers: Iterable[Answer]) -> list[str]:
    return [one.of for one in answers if isinstance(one, NoAnswer)]


def counted(answers: Iterable[Answer]) -> list[tuple[str, str]]:
    return [(one.stock.fabric, one.stock.model) for one in answers if isinstance(one, StockAnswer)]


def test_machines_come_first_then_stock_then_limits() -> None:
    provider = Played()
    answers = asked(provider, A100, H100)
    assert answers[0] == MachinesAnswer(MACHINES)
    assert counted(answers) == [(f, m.model) for m in (A100, H100) for f in ("0", "1")]
    assert [one.machine for one in answers if isinstance(one, LimitsAnswer)] == [one.uuid for one in MACHINES]
    assert len(provider.asked) == 1 + 4 + 6


def test_a_model_that_is_named_twice_is_asked_for_once() -> None:
    assert len(counted(asked(Played(), A100, A100))) == 2


def test_machines_in_no_fabric_are_listed_and_not_asked_by() -> None:
    provider = Played((Machine("m-0"),))
    assert asked(provider, A100) == [MachinesAnswer((Machine("m-0"),))]


def test_machines_speak_for_their_fabric_in_turn() -> None:
    provider = Played()
    for round in range(4):
        asked(provider, A100, round=round)
    first = [one.split()[1] for one in provider.asked if one.startswith("stock") and one[8] in "012"]
    assert first == ["m-0", "m-1", "m-2", "m-0"]


def test_another_machine_is_asked_when_one_fails() -> None:
    provider = Played()
    provider.wrong["stock m-0"] = FabricOdd("odd")
    provider.wrong["stock m-1"] = FabricUnreachable("slow")
    answers = asked(provider, A100)
    assert not failed(answers)
    assert [one.split()[1] for one in provider.asked if one.startswith("stock")] == ["m-0", "m-1", "m-2", "m-3"]
    assert len(counted(answers)) == 2


def test_three_machines_are_asked_at_most() -> None:
    provider = Played([Machine(f"m-{number}", fabric="0") for number in range(5)])
    provider.wrong["stock"] = FabricOdd("odd")
    answers = asked(provider, A100, round=3)
    assert failed(answers) == ["stock/0/NVIDIA A100"]
    assert [one for one in provider.asked if one.startswith("stock")] == [f"stock m-{n} nvidia-a100" for n in (3, 4, 0)]


def test_an_answer_about_another_fabric_is_not_taken() -> None:
    provider = Played()
    provider.moved = {"m-0": "1", "m-1": "", "m-2": "7"}
    answers = asked(provider, A100)
    [bad] = [one for one in answers if isinstance(one, NoAnswer)]
    assert bad.of == "stock/0/NVIDIA A100"
    assert str(bad.error).startswith("machine m-2: the answer is about NVIDIA A100 in fabric 7, not in fabric 0; ")
    assert counted(answers) == [("1", A100.model)]


def test_each_error_is_its_own_questions() -> None:
    provider = Played()
    provider.wrong["limits m-2"] = FabricOdd("odd")
    provider.wrong["stock m-0 nvidia-a100"] = provider.wrong["stock m-1 nvidia-a100"] = FabricOdd("odd")
    provider.wrong["stock m-2 nvidia-a100"] = FabricOdd("odd")
    answers = asked(provider, A100, H100)
    assert failed(answers) == ["stock/0/NVIDIA A100", "limits/m-2"]
    assert len(answers) == 1 + 4 + 6


def test_without_a_list_the_machines_of_before_are_asked() -> None:
    provider = Played()
    provider.wrong["machines"] = FabricOdd("odd")
    answers = asked(provider, A100, known=MACHINES)
    assert failed(answers) == ["machines"]
    assert len(counted(answers)) == 2
    assert failed(asked(provider, A100)) == ["machines"]


def test_that_there_are_no_machines_any_more_is_believed_the_second_time() -> None:
    provider = Played()
    provider.lists = [(), MACHINES]
    assert asked(provider, A100, known=MACHINES)[0] == MachinesAnswer(MACHINES)
    provider.lists = [(), ()]
    assert asked(provider, A100, known=MACHINES) == [MachinesAnswer(())]
    provider.lists = [()]
    assert asked(provider, A100) == [MachinesAnswer(())]
    assert provider.asked.count("machines") == 5


@pytest.mark.parametrize("error", [FabricAway("away"), FabricDenied("denied"), FabricBusy("busy", code=429)])
def test_a_manager_that_is_away_is_asked_three_questions(error: FabricError) -> None:
    provider = Played()
    provider.wrong[""] = error
    answers = asked(provider, A100, H100, known=MACHINES)
    assert failed(answers) == ["machines", "stock/0/NVIDIA A100", "stock/1/NVIDIA A100"]
    assert len(provider.asked) == 3


def test_a_fabric_that_is_too_slow_is_left_for_this_round() -> None:
    provider = Played()
    for number in range(3):
        provider.wrong[f"stock m-{number}"] = FabricUnreachable("no whole answer")
    answers = asked(provider, A100, H100)
    assert failed(answers) == ["stock/0/NVIDIA A100"]
    assert counted(answers) == [("1", A100.model), ("1", H100.model)]
    assert len([one for one in provider.asked if one.startswith("stock")]) == 3 + 2


def test_a_fabric_that_took_all_its_time_is_not_given_it_three_times() -> None:
    provider = Played()
    provider.wrong["stock m-1"] = FabricLate("no whole answer within 60 s")
    answers = asked(provider, A100, H100, round=1)
    assert failed(answers) == ["stock/0/NVIDIA A100"]
    assert [one for one in provider.asked if one.startswith("stock")] == [
        "stock m-4 nvidia-a100",
        "stock m-1 nvidia-a100",
        "stock m-4 nvidia-h100",
    ]


def test_stock_does_not_wait_for_limits_that_nobody_tells() -> None:
    """Each costs a minute, and there may be thousands."""
    provider = Played()
    provider.wrong["limits"] = FabricLate("no whole answer within 60 s")
    assert failed(asked(provider, A100)) == ["limits/m-0", "limits/m-1", "limits/m-2"]
    assert len([one for one in provider.asked if one.startswith("limits")]) == 3
    provider.asked.clear()
    provider.wrong = {f"limits m-{number}": FabricLate("no whole answer") for number in (0, 1, 3, 5)}
    assert failed(asked(provider, A100)) == ["limits/m-0", "limits/m-1", "limits/m-3", "limits/m-5"]


def test_a_fault_of_our_own_is_one_questions_error() -> None:
    provider = Played()
    provider.wrong["limits m-3"] = KeyError("password=hunter2")
    answers = asked(provider, A100)
    [bad] = [one for one in answers if isinstance(one, NoAnswer)]
    assert bad.of == "limits/m-3"
    assert "KeyError" in str(bad.error) and "hunter2" not in str(bad.error)


def test_nothing_is_asked_once_it_is_to_end() -> None:
    provider = Played()
    assert asked(provider, A100, stopping=lambda: True) == []
    assert asked(provider, A100, H100, stopping=lambda: len(provider.asked) >= 3) != []
    assert len(provider.asked) == 3


def test_questions_may_be_asked_by_several_threads() -> None:
    provider, answers, threads = Played(), list[Answer](), set[str]()

    def run(questions: Iterable[Question]) -> None:
        def one(question: Question) -> None:
            threads.add(threading.current_thread().name)
            question()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(one, questions))

    survey(provider, [A100, H100], 0, answers.append, lambda: False, run=run)
    assert not failed(answers)
    assert len(answers) == 1 + 4 + 6
    assert threading.current_thread().name not in threads


def test_a_list_that_is_not_whole_speaks_for_those_that_it_has() -> None:
    provider = Played()
    fault = FabricPartly("field data.machines.3.mach_uuid is missing", machines=MACHINES[:1], where="fm.machines")
    provider.wrong["machines"] = fault
    answers = asked(provider, A100, known=MACHINES)
    assert answers[0] == MachinesAnswer(MACHINES[:1], fault)
    assert {fabric for fabric, _ in counted(answers)} == {"0", "1"}, "who was known before is asked all the same"
