"""The fabric's own book: every attach and detach that was ordered, and what physically became of it.

Tests compare what a scaler believes with what is written here. It records and answers questions; it never decides.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Operation = Literal["attach", "detach"]
Outcome = Literal["ordered", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the book. An order has one `ordered` line, then one `done` for each device that moved (two when the
    fabric gave a second one, none when it hung), or one `failed`. `done` is what happened, whether or not anybody heard
    of it: `words` then say what the one who ordered was told instead."""

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
    """All entries in the order in which they were made."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._calls: list[Callable[[Entry], None]] = []

    def write(self, entry: Entry) -> None:
        self._entries.append(entry)
        for call in self._calls:
            call(entry)

    def on_write(self, call: Callable[[Entry], None]) -> None:
        """Be told of every entry from now on, as it is written."""
        self._calls.append(call)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def count(self, operation: Operation, outcome: Outcome, node: str = "", model: str = "") -> int:
        """How many entries say so; an empty node or model means any."""
        return sum(
            one.operation == operation
            and one.outcome == outcome
            and (not node or one.node == node)
            and (not model or one.model == model)
            for one in self._entries
        )

    def of(self, serial: str) -> tuple[Entry, ...]:
        """What happened to one device."""
        return tuple(one for one in self._entries if one.serial == serial)

    def attached(self) -> dict[str, str]:
        """Where each device that moved is now, by serial: the fold of all that was done."""
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
        """The orders of which nothing more is written: still under way, or hanging."""
        ordered = [one.order for one in self._entries if one.outcome == "ordered"]
        settled = {one.order for one in self._entries if one.outcome != "ordered"}
        return tuple(order for order in ordered if order not in settled)
