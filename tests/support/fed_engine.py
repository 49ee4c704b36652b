"""An engine and what it was told: facts go in at the instants of a clock of its own, and what they caused can be asked.

Nothing here knows what a cluster looks like, decides anything, or looks into the rules.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from dds_core import MemoryLog, verify
from dds_core.engine import Step
from dds_core.kit.work import FAULTS
from dds_core.log import fixed_salts
from dds_core.model import Claim, Observed, Pod
from dds_core.replay import VerifyReport
from dds_core.scaler import events as e
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.state import State

SECOND = 1_000_000
START = 1_700_000_000 * SECOND

T = TypeVar("T")
E = TypeVar("E", bound=e.Event)


class FedEngine:
    """An engine and what it was told. Instants are microseconds; `tick` takes seconds.

    Names are those of the objects: a claim or pod is `name` in the namespace default, or `namespace/name`.
    """

    def __init__(self) -> None:
        self.engine = Engine()
        self.now = START
        self.steps: list[Step] = []
        self.rules_may_fail = False

    # --- telling -----------------------------------------------------------------------------------------------------

    def feed(self, fact: e.Event) -> Step:
        """One fact, a tenth of a second from now."""
        self.tick(0.1)
        return self._taken(self.engine.feed(fact, self.now))

    def _taken(self, step: Step) -> Step:
        """No test is content with a rule that fails, unless it looks for that."""
        self.steps.append(step)
        faults = [d.text for d in step.decisions if isinstance(d, e.Alerted) and d.reason in FAULTS]
        assert self.rules_may_fail or not faults, faults
        return step

    def tick(self, seconds: float) -> None:
        """Let time pass: every deadline that becomes due comes back at its instant."""
        until = self.now + round(seconds * SECOND)
        while (deadline := self.engine.due(until)) is not None:
            self._taken(self.engine.feed(deadline, deadline.due))
        self.now = until

    def observe(self, thing: Observed) -> None:
        """The object is now so; nothing is told when nothing changed."""
        fact = e.difference(self.state.object(type(thing), thing.uid), thing)
        if fact is not None:
            self.feed(fact)

    def update(self, thing: Observed, **fields: Any) -> None:
        """The object has changed in these fields."""
        self.observe(replace(thing, **fields))

    def gone(self, thing: Observed) -> None:
        gone: Any = e.OBSERVED[type(thing)][1]
        self.feed(gone(uid=thing.uid))

    # --- asking ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.engine.state

    def get(self, kind: type[T], name: str) -> T:
        """The object of that name as last observed."""
        namespace, _, plain = name.rpartition("/")
        of_kind: Any = kind
        uid = self.state.uid_of(of_kind, namespace or ("default" if kind in (Claim, Pod) else ""), plain)
        thing = self.state.object(of_kind, uid) if uid is not None else None
        assert isinstance(thing, kind), f"no {kind.__name__} {name}"
        return thing

    def state_of(self, claim: str) -> str:
        """The state of the claim; "" when it has no life (any more)."""
        life = self.state.lifecycle.lives.get(self.uid(claim))
        return life.state if life is not None else ""

    def uid(self, claim: str) -> str:
        """The uid of the claim, also of one that was deleted."""
        namespace, _, plain = claim.rpartition("/")
        found = self.state.demand.claim_uid(namespace or "default", plain)
        return found or f"uid-{namespace or 'default'}-{plain}"

    def device(self, resource: str) -> str:
        """The state of the resource's device; "" when it is gone."""
        life = self.state.lifecycle.devices.get(resource)
        return life.state if life is not None else ""

    def decided_at(self, decision: e.Decision) -> float:
        """When it was decided first, in seconds since START."""
        return (next(step.at for step in self.steps if decision in step.decisions) - START) / SECOND

    def verified(self) -> VerifyReport:
        """What a verification says of the log of all that was fed and decided."""
        log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0, salts=fixed_salts(b"world"))
        epoch = log.take_epoch(0)
        log.append([step.group(place) for place, step in enumerate(self.steps)], epoch=epoch, recorded_at=0)
        report = verify(log.read(), SCALER)
        report.differences += report.told  # tests give Started made-up fingerprints; all was decided by this code
        return report

    def events(self, kind: type[E], since: int = 0) -> list[E]:
        """Everything of one type that was caused, oldest first; `since` counts steps."""
        return [event for step in self.steps[since:] for event, _ in step.caused if isinstance(event, kind)]

    def decisions(self, *kinds: type[e.Decision]) -> list[e.Decision]:
        """Every decision (of these kinds), oldest first."""
        return [d for d in self.events(e.Decision) if not kinds or isinstance(d, kinds)]

    def only(self, kind: type[E]) -> E:
        """The one event of this type."""
        found = self.events(kind)
        assert len(found) == 1, f"{len(found)} of {kind.__name__}: {found}"
        return found[0]

    def moves(self, claim: str) -> list[tuple[str, str, str]]:
        """(trigger, source, target) of every step of the claim's life."""
        uid = self.uid(claim)
        return [(m.trigger, m.source, m.target) for m in self.events(e.ClaimMoved) if m.claim == uid]

    def device_moves(self, resource: str) -> list[tuple[str, str, str]]:
        return [(m.trigger, m.source, m.target) for m in self.events(e.DeviceMoved) if m.resource == resource]

    def reserved(self, claim: str) -> list[str]:
        """The UUIDs that are promised to the claim."""
        rows = (
            self.state.hand_over.reservations.rows[key]
            for key in self.state.hand_over.reservations_for[self.uid(claim)]
        )
        return [promise.uuid for row in rows for promise in row.promises]
