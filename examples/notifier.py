"""Tell people of claims that need one: a notifier beside a scaler, made of the claim's state machine with a guard and callbacks.

    python examples/notifier.py LOG.sqlite3

A claim that fails is tried again elsewhere, and mostly gets its device there: a guard lets it be told only from the third failure
on. When such a claim gets a device after all, the notifier reports that too.
"""

import sys
from collections.abc import Callable

from dds_adapters import sql
from dds_core import SCALER, EventLog, component_of, errors
from dds_core.lifecycle import claim_machine
from dds_core.replay import event_of
from dds_core.scaler.events import ClaimMoved

PATIENCE = 3
"""Failures."""


class Watched:
    """A claim and what is to be told of it. `state`, and a method for each trigger, come from the machine."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self.name, self.failures, self.told, self._tell = name, 0, False, tell
        claim_machine(
            self,
            guards={"failed": [self.is_too_much]},
            callbacks={"failed": [self.needs_somebody], "on_enter_Bound": [self.is_served]},
        )

    def is_too_much(self, event: object) -> bool:
        """Guard: until then the machine stays where it is, as if the claim went on waiting."""
        self.failures += 1
        return self.failures >= PATIENCE

    def needs_somebody(self, event: object) -> None:
        if not self.told:
            self.told = True
            self._tell(f"{self.name} has failed {self.failures} times")

    def is_served(self, event: object) -> None:
        if self.told:
            self._tell(f"{self.name} has its device after all")

    def take(self, moved: ClaimMoved) -> None:
        getattr(self, moved.trigger)()


def follow(log: EventLog, tell: Callable[[str], None]) -> None:
    """Tell of all that the log has."""
    claims: dict[str, Watched] = {}
    names: dict[str, str] = {}
    for row in log.read_lean(0, types={"ClaimMoved", "ClaimObserved"}):
        event = event_of(row, SCALER)
        if isinstance(event, ClaimMoved):
            name = names.get(event.claim, event.claim)
            claims.setdefault(event.claim, Watched(name, tell)).take(event)
        elif (seen := getattr(event, "changes", None)) is not None and isinstance(seen.name, str):
            names[row.stream] = f"claim {seen.namespace}/{seen.name}"


def main(path: str) -> None:
    with sql.Database(f"sqlite:///{path}") as database:
        for name in (one.log for one in database.heads() if component_of(one.log) is SCALER):
            follow(database.log(name), print)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: notifier.py LOG.sqlite3")
    try:
        main(sys.argv[1])
    except errors.DdsError as error:
        sys.exit(str(error))
