"""What came from the fabric, and from the question what the API server keeps of a slice, until the thread that decides takes it.

It never looks into an answer beyond which question it is to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dds_adapters.fabric.survey import Answer, LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer, limits_of
from dds_adapters.live.publisher import Answered, Probed, RoundEnded
from dds_core.events import Capabilities
from dds_core.events.publishing import stock_stream
from dds_core.publishing.model import PoolModel

Heard = Answered | RoundEnded | Probed


def question_of(answer: Answer) -> str:
    """What was asked, in the words of `FabricFailed.of`."""
    match answer:
        case MachinesAnswer():
            return "machines"
        case StockAnswer(stock):
            return stock_stream(stock.fabric, stock.model)
        case LimitsAnswer(machine):
            return limits_of(machine)
        case NoAnswer(of):
            return of


class Answers:
    """The newest answer to each question that the taker has not seen yet: while nobody takes (the log is away) it grows with the
    number of questions, not with the rounds. `good` says when, on the steady clock, a question was last answered well."""

    def __init__(self, instant: Callable[[], int], wake: Callable[[], None]) -> None:
        """`instant` gives microseconds as arrivals have them; `wake` lets the taker look."""
        self.instant = instant
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[str, Heard] = {}
        self._good: dict[str, float] = {}

    def put(self, answer: Answer) -> None:
        """From any thread."""
        of = question_of(answer)
        with self._lock:
            if isinstance(answer, MachinesAnswer) and answer.whole:
                self._forget_gone(answer)
            if not isinstance(answer, NoAnswer) and not (isinstance(answer, MachinesAnswer) and not answer.whole):
                self._good[of] = time.monotonic()
        self._put(of, lambda at: Answered(answer, at))

    def ended(self, models: tuple[PoolModel, ...]) -> None:
        """A round about these models is over; how old the answers about others are nobody wants to know."""
        asked = {model.model for model in models}
        with self._lock:
            for of in list(self._good):
                kind, _, rest = of.partition("/")
                if kind == "stock" and rest.partition("/")[2] not in asked:
                    del self._good[of]
        self._put("", lambda at: RoundEnded(models, at))

    def probed(self, capabilities: Capabilities | None) -> None:
        """The API server was asked what it keeps, and said so, or did not."""
        self._put("probe", lambda at: Probed(capabilities, at))

    def take(self) -> list[Heard]:
        """What waits, in the order in which it came."""
        with self._lock:
            taken, self._waiting = list(self._waiting.values()), {}
        return taken

    def ages(self) -> dict[str, float]:
        """By question the seconds since it was last answered."""
        now = time.monotonic()
        with self._lock:
            return {of: now - at for of, at in self._good.items()}

    def _put(self, of: str, heard: Callable[[int], Heard]) -> None:
        with self._lock:
            self._waiting.pop(of, None)
            self._waiting[of] = heard(self.instant())
        self._wake()

    def _forget_gone(self, answer: MachinesAnswer) -> None:
        """Of machines and fabrics that are gone nobody wants to know how old the last answer is."""
        machines = {limits_of(one.uuid) for one in answer.machines}
        fabrics = {one.fabric for one in answer.machines}
        for of in list(self._good):
            kind, _, rest = of.partition("/")
            if (kind == "limits" and of not in machines) or (kind == "stock" and rest.partition("/")[0] not in fabrics):
                del self._good[of]
