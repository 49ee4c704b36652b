"""The fabric's ledger: every attach and detach order with its physical outcome. Tests compare a scaler's view with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Operation = Literal["attach", "detach"]
Outcome = Literal["ordered", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger. An order has one `ordered` line, then a `done` line for each device that moved (two if the fabric
    gave a second one, none if it hung), or one `failed` line. `done` is what happened, even if the caller never heard of it:
    `words` then has the error that the caller got."""

    at: int
    order: int
    operation: Operation
    outcome: Outcome
    node: str
    model: str
    serial: str = ""
    resource: str = ""
    words: str = ""


class Ledger:
    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._calls: list[Callable[[Entry], None]] = []

    def write(self, entry: Entry) -> None:
        self._entries.append(entry)
        for call in self._calls:
            call(entry)

    def on_write(self, call: Callable[[Entry], None]) -> None:
        """Call `call` with every entry from now on, as it is written."""
        self._calls.append(call)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def count(self, operation: Operation, outcome: Outcome, node: str = "", model: str = "") -> int:
        """The number of matching entries; an empty node or model means any."""
        return sum(
            one.operation == operation
            and one.outcome == outcome
            and (not node or one.node == node)
            and (not model or one.model == model)
            for one in self._entries
        )

    def of(self, serial: str) -> tuple[Entry, ...]:
        """All entries of one device."""
        return tuple(one for one in self._entries if one.serial == serial)

    def attached(self) -> dict[str, str]:
        """Serial → node of each device that is attached now, folded from all `done` entries."""
        where: dict[str, str] = {}
        for one in self._entries:
            if one.outcome != "done":
                continue
            if one.operation == "attach":
                where[one.serial] = one.node
            else:
                where.pop(one.serial, None)
        return where

    def unanswered(self) -> tuple[int, ...]:
        """The numbers of orders without an outcome: they are running, or hang."""
        ordered = [one.order for one in self._entries if one.outcome == "ordered"]
        settled = {one.order for one in self._entries if one.outcome != "ordered"}
        return tuple(order for order in ordered if order not in settled)
