"""A controller of one's own: the core and a log in a loop, with callbacks at the steps of a claim's life.

    python examples/custom_controller.py RECORDING LOG.sqlite3

Facts come from a recording here, where a controller in a cluster would watch; everything else is as it would be there:
the log is loaded, an epoch is taken, each fact and what it caused is committed in one transaction, and only then are
decisions carried out and callbacks called. Run it twice: the second run goes on from the first one's log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from dds_adapters import sql
from dds_adapters.kubernetes import Translator, read_recording
from dds_core import FINGERPRINT, Engine, EventLog, Policy, errors, fold_log
from dds_core.events import Decision, Event, PolicyChanged, Started, Synced
from dds_core.lifecycle import claim_machine
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved

CLUSTER = "4f0d1c9e-example-kube-system-uid"
LOG = "example/scaler"

Act = Callable[[Decision], None]


def now() -> int:
    """Microseconds since 1970-01-01 UTC. The core reads no clock: whoever embeds it does."""
    return time.time_ns() // 1000


class ClaimLife:
    """One claim for our callbacks. The machine has the engine's own table; the engine says which step was taken."""

    def __init__(
        self, claim: str, state: str, on_bound: Callable[[str], None], on_failed: Callable[[str], None]
    ) -> None:
        self.claim = claim
        self.something_comes = True
        hooks = {"on_enter_Bound": [lambda event: on_bound(claim)], "on_enter_Failed": [lambda event: on_failed(claim)]}
        claim_machine(self, callbacks=hooks).set_state(state or "New", self)

    def take(self, moved: ClaimMoved) -> None:
        """The same step that the engine took."""
        self.something_comes = moved.target != "Released"
        getattr(self, moved.trigger)()

    def nothing_ordered(self, event: object) -> bool:
        """Guard of the two ways out of Attaching: whether anything ordered for the claim still arrives."""
        return not self.something_comes

    def something_ordered(self, event: object) -> bool:
        return self.something_comes


class Controller:
    """Feeds facts to the engine, commits, then acts. A controller in mode attach or detach would write to the cluster in
    `act`, and bring the outcomes back as facts (WriteDone, WriteRefused)."""

    def __init__(self, log: EventLog, policy: Policy, act: Act, told: Callable[[str], None]) -> None:
        self._log = log
        self._act = act
        self._told = told
        self.lives: dict[str, ClaimLife] = {}
        self._load()
        self._epoch = log.take_epoch(now())
        self._ordinal = 0
        self._policy = policy

    @property
    def picture_now(self) -> int:
        """The instant of the newest fact."""
        return self.engine.picture.now

    def _load(self) -> None:
        """Memory is what the log amounts to, and nothing else."""
        self.engine = Engine(fold_log(self._log.read_lean(), SCALER))
        self.lives = {uid: self._life(uid, row.state) for uid, row in self.engine.picture.lives.rows.items()}

    def _begin(self, at: int) -> None:
        """Who decides, under which policy, and that everything was listed: a level pass over the fleet follows."""
        mode = self._policy.mode
        self.take(Started("example", FINGERPRINT, SCALER.projection, self._epoch, mode), at)
        self.take(PolicyChanged(self._policy.model_dump(mode="json")), at)
        self.take(Synced(), at)

    def run(self, facts: Iterator[tuple[int, str, str, bytes]]) -> None:
        """Take in raw watch events (instant, resource, type, object) until there are no more."""
        begun = False
        translator = Translator(self.engine.picture)
        for at, resource, kind, raw in facts:
            if not begun:
                begun = True
                self._begin(at)
            for fact in translator.translate(resource, kind, raw):
                self.take(fact, at)

    def take(self, fact: Event, at: int) -> None:
        """One fact, after the deadlines that are due before it. Time is a fact too."""
        while (deadline := self.engine.due(at)) is not None:
            self._commit(deadline, deadline.due)
        self._commit(fact, at)

    def _commit(self, fact: Event, at: int) -> None:
        """Decide, append, act, in this order. What was not committed was not decided: memory is loaded again."""
        step = self.engine.feed(fact, at)
        try:
            self._log.append([step.group(self._ordinal)], epoch=self._epoch, recorded_at=now())
        except errors.LogUnavailable:
            self._load()
            raise
        self._ordinal += 1
        for moved in step.transitions:
            if isinstance(moved, ClaimMoved):
                life = self.lives.setdefault(moved.claim, self._life(moved.claim, moved.source))
                life.take(moved)
        for decision in step.decisions:
            self._act(decision)

    def _life(self, uid: str, state: str) -> ClaimLife:
        return ClaimLife(
            uid,
            state,
            on_bound=lambda claim: self._told(f"{self._name(claim)} is in use"),
            on_failed=lambda claim: self._told(f"{self._name(claim)} will not get its device here"),
        )

    def _name(self, uid: str) -> str:
        life = self.engine.picture.lives.get(uid)
        return f"claim {life.namespace}/{life.name}" if life is not None else f"claim {uid}"


def main(recording: str, path: str) -> None:
    """Run the controller over a recording with its log in a SQLite file."""
    url = f"sqlite:///{path}"
    sql.upgrade(url)
    wanted: list[Decision] = []
    with sql.Database(url) as database:
        log = database.open_log(LOG, cluster=CLUSTER, recorded_at=now())
        controller = Controller(log, Policy(mode="observe"), wanted.append, print)
        newest = controller.picture_now
        events = (e for e in read_recording(recording) if e.at > newest)
        controller.run((e.at, e.resource, e.type, e.raw) for e in events)
        print(f"{len(wanted)} decisions, log {log.name} at position {log.head().position}, epoch {log.head().epoch}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: custom_controller.py RECORDING LOG.sqlite3")
    try:
        main(*sys.argv[1:])
    except errors.DdsError as error:
        sys.exit(str(error))
