"""What a component does with events: it folds them into its state and runs its rules.

A component has a fold for each event type. Here are the folds that all components share, and the parts that other folds are made
of. A fold never decides. In a run of the rules (`Work`) every emitted event is folded at once, so that the next rule sees it.
Decisions pass `Work.emit_once`. An error in a rule stops the decisions for one object only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from dds_core import events as e
from dds_core.events import KIND_OF, Event
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.kit.state import Key, Refusal, StateBase

P = TypeVar("P", bound=StateBase[Any])
Fold = Callable[[Any, Any, int], None]
State = StateBase[Any]


def folding(folds: Mapping[type[Event], Fold]) -> Callable[[P, Event, int], P]:
    def apply(state: P, event: Event, at: int) -> P:
        """Fold `event`, which happened at the instant `at`, into `state`; returns the same state. Facts, decisions and
        transitions alike: loading a log is only this. A decision of mode observe is folded only as "already shown". Raises
        IllegalTransition for a transition that its lifecycle table does not have."""
        if state.notes.reissue and isinstance(event, e.Fact):
            state.notes.reissue.drop_where(lambda key: True)
        if isinstance(event, e.Decision) and event.mode == "observe":
            state.notes.last_emitted.put(event.key, e.encode(event))
        else:
            folds[type(event)](state, event, at)
        if at > state.process.now:
            state.process.now = at
        return state

    return apply


CONFIG_MISSING = "ConfigMissing"
"""Reason of an alert; `fired_deadlines` has under (CONFIG_MISSING, "") the instant since which there is no ConfigMap."""


def config_observed(state: Any, event: Any, at: int) -> None:
    """There is only one ConfigMap: a new one replaces one that was deleted."""
    observed(state, event, at)
    configs = state.tables["configs"]
    for uid in [uid for uid in configs if uid != event.uid]:
        configs.drop(uid)
        forget_words(state, uid)
    state.notes.fired_deadlines.drop((CONFIG_MISSING, ""))
    state.notes.clear_alert(event.uid, CONFIG_MISSING)


def config_missing(state: Any, event: e.ConfigMissing, at: int) -> None:
    """Keep the last ConfigMap in force: its devices are in use, and the deletion may be a mistake or precede a new one."""
    state.notes.fired_deadlines.put((CONFIG_MISSING, ""), at)
    if event.uid not in state.tables["configs"]:
        forget_rejections(state, event.uid)


# -- labels of nodes under an earlier label-prefix -----------------------------------------------------------------------


def leave_labels(state: State, node: str, labels: Mapping[str, str], ours: Iterable[str], prefix: str) -> None:
    """The label-prefix has become `prefix`: remember the node's labels `ours` under the old prefix, each to be removed once. A
    label that another client sets again afterwards is left alone."""
    before = state.notes.left_labels.get(node) or ()
    state.notes.left_labels.put(
        node, tuple(key for key in dict.fromkeys((*before, *ours)) if not key.startswith(f"{prefix}/"))
    )
    forget_left_labels(state, node, labels)


def forget_left_labels(state: State, node: str, labels: Mapping[str, str]) -> None:
    """Forget left labels that the node no longer has, unless a decided write is about to set them."""
    known = state.notes.left_labels.get(node)
    if known is None:
        return
    left = tuple(key for key in known if key in labels or state.notes.labelled.get((node, key)))
    if not left:
        state.notes.left_labels.drop(node)
    elif left != known:
        state.notes.left_labels.put(node, left)


def left_labels_refused(state: State, node: str) -> None:
    """Leave the old labels where they are if their removal is refused: the pause after a refusal would hold up today's labels."""
    if any(state.notes.labelled.get((node, key)) == "" for key in state.notes.left_labels.get(node) or ()):
        state.notes.left_labels.drop(node)


def nothing(state: State, event: Event, at: int) -> None:
    """For events that only inform people: the state does not depend on them."""


def alerted(state: State, event: e.Alerted, at: int) -> None:
    state.notes.last_emitted.put(event.key, e.encode(event))


# -- objects -----------------------------------------------------------------------------------------------------------


def observed(state: State, event: Any, at: int) -> None:
    table = state.table(KIND_OF[type(event)])
    table.put(event.uid, e.after(table.get(event.uid), event))


def gone(state: State, event: Any, at: int) -> None:
    state.table(KIND_OF[type(event)]).drop(event.uid)


def ending(fold: Fold = gone) -> Fold:
    """The fold of an object's end: its rejections are forgotten too, even if nothing else of it was ever folded."""

    def folded(state: State, event: Any, at: int) -> None:
        fold(state, event, at)
        forget_rejections(state, event.uid)

    return folded


def rejected(state: State, event: e.Rejected, at: int) -> None:
    if event.uid == e.POLICY:  # of a file that is edited again and again, the newest fault counts
        forget_rejections(state, e.POLICY)
    state.notes.rejections.put((event.uid, event.field, event.reason), True)


def forget_rejections(state: State, uid: str) -> None:
    for key in list(state.notes.rejections_of[uid]):
        state.notes.rejections.drop(key)


def forget_words(state: State, of: str) -> None:
    """Forget what was reported about an object that is gone: if it comes again, it is reported again."""
    forget_rejections(state, of)
    for alert in list(state.notes.alerts_of[of]):
        state.notes.last_emitted.drop(alert)


def gone_with(events: Iterable[type[Event]], kind: str) -> list[str]:
    """Types of the decisions that are forgotten as "already shown" when an object of this kind is gone."""
    return [one.__name__ for one in events if issubclass(one, e.Decision) and one.gone_with == kind]


# -- the process -------------------------------------------------------------------------------------------------------


def started(state: State, event: e.Started, at: int) -> None:
    state.process.epoch = event.epoch
    state.process.synced = False
    state.process.restarted = True


def repaired(state: State, event: e.LogRepaired, at: int) -> None:
    """What the state was before says nothing about now: as after a start, all is listed first."""
    state.process.synced = False
    state.process.restarted = True


def synced(state: P, at: int, void_unseen: Callable[[P, int], Iterable[Key]]) -> None:
    """The whole cluster was listed. After a restart, decisions whose outcome the cluster does not show are void, and the level
    pass that follows makes them again. `void_unseen` voids them and returns their keys."""
    state.process.synced = True
    state.process.stale.clear()
    state.process.synced_at = state.process.synced_at or at
    state.process.level_at = at
    if state.process.restarted:
        state.process.restarted = False
        for key in sorted(void_unseen(state, at)):
            state.notes.reissue.put(key, True)


def stale(state: State, event: e.Stale, at: int) -> None:
    state.process.stale.add(event.resource)


def write_done(state: State, event: e.WriteDone) -> None:
    row = state.notes.refusals.get((event.action, event.target))
    if row is not None and row.undone:
        state.notes.refusals.put((event.action, event.target), replace(row, text=event.rivals or row.text))
        return
    state.notes.refusals.drop((event.action, event.target))
    state.notes.fired_deadlines.drop((DeadlineKind.RETRY, f"{event.action}/{event.target}"))


_FIRST_PAUSE: dict[type[e.Outcome], int] = {e.WriteRefused: 30 * MICROSECONDS, e.WriteObsolete: 2 * MICROSECONDS}
"""Pauses double from here to 10 minutes. The change that made a write obsolete is observed before its pause is over."""


def try_later(state: State, event: e.WriteRefused | e.WriteObsolete, at: int, cell: tuple[str, str] = ("", "")) -> None:
    """The write failed: do not decide the same again before a pause. `cell`: node and model of an order."""
    if isinstance(event, e.WriteRefused) and event.action == e.NodeLabelled.__name__:
        left_labels_refused(state, event.target)
    key = (event.action, event.target)
    before = state.notes.refusals.get(key)
    forget_old_refusals(state, at)
    count = before.count + 1 if before is not None and not before.undone else 1
    text = f"{event.code} {event.reason} {event.text}".strip() if isinstance(event, e.WriteRefused) else ""
    state.notes.refusals.put(key, Refusal(count, at + _pause(type(event), count), *cell, text))


def undone(state: State, action: str, node: str, at: int) -> None:
    """Another client has undone what was written to a node. The first time it is written again at once, then later each time."""
    forget_old_refusals(state, at)
    before = state.notes.refusals.get((action, node))
    count, text = (before.count + 1, before.text) if before is not None and before.undone else (1, "")
    pause = _pause(e.WriteObsolete, count - 1) if count > 1 else 0
    state.notes.refusals.put((action, node), Refusal(count, at + pause, node, text=text, undone=True))


def _pause(outcome: type[e.Outcome], times: int) -> int:
    return min(_FIRST_PAUSE[outcome] << min(times - 1, 10), 600 * MICROSECONDS)


def forget_old_refusals(state: State, at: int) -> None:
    """Forget writes not tried again for an hour after their pause: they are no longer wanted, their object may be gone."""
    for key, refusal in list(state.notes.refusals.rows.items()):
        if refusal.until <= at - HOUR:
            state.notes.refusals.drop(key)
            state.notes.fired_deadlines.drop((DeadlineKind.RETRY, "/".join(key)))


FOLDS: dict[type[Event], Fold] = {
    e.Rejected: rejected,
    e.ConfigMissing: config_missing,
    e.Started: started,
    e.Stale: stale,
    e.EventsLost: nothing,
    e.LogRepaired: repaired,
    e.Superseded: nothing,
    e.Checkpoint: nothing,
    e.Alerted: alerted,
}
"""The folds that all components share; a component's own fold of the same event wins."""


# -- invariants -------------------------------------------------------------------------------------------------------


class OfDecision(NamedTuple):
    """A condition on an event, checked in the state just before the event is folded. `broken` returns what is wrong, or ""."""

    name: str
    of: tuple[type[Event], ...]
    broken: Callable[[Any, Any], str]


class OfState(NamedTuple):
    """A condition on one row of the state, checked after a step. `after` returns the keys of the rows that an event touches,
    `keys` all keys; `broken` returns what is wrong with the row of a key, or ""."""

    name: str
    after: dict[type[Event], Callable[[Any], Iterable[str]]]
    broken: Callable[[Any, str], str]
    keys: Callable[[Any], Iterable[str]]


class Broken(NamedTuple):
    """A broken invariant. `of` is the key of the row, or "" if the event itself breaks it."""

    name: str
    of: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Invariants(Generic[P]):
    """The invariants of a component, by the type of the event that can break them."""

    def __init__(self, decisions: Iterable[OfDecision] = (), states: Iterable[OfState] = ()) -> None:
        self._states = tuple(states)
        self.of_decisions: dict[type[Event], list[OfDecision]] = {}
        self.of_rows: dict[type[Event], list[tuple[OfState, Callable[[Any], Iterable[str]]]]] = {}
        for one in decisions:
            for event in one.of:
                self.of_decisions.setdefault(event, []).append(one)
        for state in self._states:
            for event, keys in state.after.items():
                self.of_rows.setdefault(event, []).append((state, keys))

    def against(self, state: P, event: Event) -> list[Broken]:
        """The invariants that this event breaks if it is folded now."""
        found = self.of_decisions.get(type(event), ())
        return [Broken(one.name, "", text) for one in found if (text := one.broken(state, event))]

    def after(self, state: P, events: Iterable[Event]) -> list[Broken]:
        """The broken invariants of the rows that these events, already folded, have touched."""
        found: list[Broken] = []
        for event in events:
            for one, keys in self.of_rows.get(type(event), ()):
                for key in keys(event):
                    if text := one.broken(state, key):
                        found.append(Broken(one.name, key, text))
        return found

    def is_broken(self, state: P, one: Broken) -> bool:
        """Whether the row still breaks this invariant."""
        return any(each.name == one.name and each.broken(state, one.of) for each in self._states)

    def everywhere(self, state: P) -> Iterator[Broken]:
        """All broken invariants of all rows: O(cluster)."""
        for one in self._states:
            for key in one.keys(state):
                if text := one.broken(state, key):
                    yield Broken(one.name, key, text)


NO_INVARIANTS: Invariants[Any] = Invariants()


# -- one run of the rules ----------------------------------------------------------------------------------------------

RULE_ERROR, INVARIANT_BROKEN = "RuleError", "InvariantBroken"
FAULTS = (RULE_ERROR, INVARIANT_BROKEN)
"""Reasons of the alerts about bugs of dds: an error in a rule, and a broken invariant."""

_STEPS = 50
"""Most steps of one rule for one object in one group; normally a handful."""
_REFUSED = 1_000 * _STEPS
"""Count of a step that was refused: in this group it is not taken again, and no further alert says so."""

Caused = tuple[Event, int]
"""An event and the index in its group of the event that caused it; the fact has index 0."""

Of = TypeVar("Of")

Keep = bool | Callable[["Work[P]"], bool]
"""Whether what a run of the rules emits stays folded; a function is asked after the run."""


class Work(Generic[P]):
    """One run of the rules. `emitted`: what follows from the fact. `touched`: everything that was looked at. With `chained` the
    cause of an event is the newest event of its stream in the group, else always the fact. `broken`: names of the invariants that
    did not hold."""

    def __init__(
        self,
        state: P,
        at: int,
        apply: Callable[[P, Event, int], object],
        invariants: Invariants[Any] = NO_INVARIANTS,
        *,
        chained: bool = True,
    ) -> None:
        self.state = state
        self.at = at
        self.emitted: list[Caused] = []
        self.touched: Any = type(state.dirty)()
        self.broken: tuple[str, ...] = ()
        self._apply = apply
        self._invariants = invariants
        self._chained = chained
        self._steps: dict[tuple[str, object], int] = {}
        self._newest: dict[str, int] = {}
        self._journal = state.journal
        self._against: tuple[Broken, ...] = ()
        self._known: frozenset[Broken] = frozenset()

    def decide(self, run: Callable[[Work[P]], None], keep: Keep[P]) -> Work[P]:
        """Run the rules. What they emit stays folded with `keep`, or if that says so after the run; else, and if it raises, the
        state is as it was."""
        state, journal = self.state, self.state.journal
        before = None
        if keep is not True:
            before = type(state.dirty)()
            before.add(state.dirty)
        journal.start()
        try:
            self._decide(run)
            if callable(keep) and keep(self):
                before = None
        finally:
            if before is not None:
                journal.undo()
                state.dirty = before
            journal.stop()
        return self

    def _decide(self, run: Callable[[Work[P]], None]) -> None:
        run(self)
        if self.touched.everything and self.state.process.synced:
            for broken in self._invariants.everywhere(self.state):
                self._alert_standing(broken)

    def emit(self, event: Event) -> None:
        """Add an event to the run and fold it."""
        stream = event.subject
        if type(event) in self._invariants.of_decisions:
            self._against = (*self._against, *self._invariants.against(self.state, event))
        changes = len(self._journal.changes)
        try:
            self._apply(self.state, event, self.at)
        except Exception:
            self._journal.undo(changes)  # not half of a fold without its event
            raise
        self.emitted.append((event, self._newest.get(stream, 0)))
        if self._chained:
            self._newest[stream] = len(self.emitted)

    def emit_once(self, decision: e.Decision, target: str = "", *, at_once: bool = False) -> bool:
        """Emit a decision. False if it is suppressed: because it was shown already (mode observe), or because its write was
        refused lately (unless `at_once`). `target`: what the adapter names in the write's outcome; default: the decision's
        subject."""
        state = self.state
        if decision.mode == "observe":
            if state.notes.last_emitted.get(decision.key) == e.encode(decision):
                return False
        else:
            if state.notes.reissue and decision.key in state.notes.reissue:
                state.notes.reissue.drop(decision.key)
                decision = replace(decision, reissued=True)
            refusal = state.notes.refusals.get((type(decision).__name__, target or decision.subject))
            if refusal is not None and self.at < refusal.until and not at_once:
                return False
        self.emit(decision)
        return True

    def has_come(self, due: int) -> bool:
        """Whether an instant has come. Never while a watch is stale: what would forbid the step may not be seen."""
        return self.at >= due and not self.state.process.stale

    def check_config(self, uid: str) -> None:
        """Alert that the ConfigMap was deleted; `uid` is that of the last one."""
        if uid and (CONFIG_MISSING, "") in self.state.notes.fired_deadlines:
            text = "the ConfigMap composable-dra-dds was deleted; what it said last stays in force: create it again"
            self.alert(uid, CONFIG_MISSING, text)

    def take_off_left_labels(self, node: str) -> None:
        """Remove the node's labels under an earlier prefix: in a write of its own, because it may be refused."""
        state = self.state
        left = state.notes.left_labels.get(node) or ()
        changes: dict[str, str | None] = {key: None for key in left if state.notes.labelled.get((node, key)) != ""}
        if changes:
            reason = "label-prefix is another now"
            self.emit_once(e.NodeLabelled(node=node, labels=changes, mode=state.mode, reason=reason), node)

    def alert(self, of: str, reason: str, text: str) -> None:
        """Alert a person, once for each object and reason."""
        alert = e.Alerted(of=of, reason=reason, text=text, mode=self.state.mode)
        if alert.key not in self.state.notes.last_emitted:
            self.emit_once(alert)

    def isolated(self, rule: str, step: Callable[..., None], of: Of, *rest: Any, subject: str = "") -> None:
        """Run `step(self, of, *rest)`; guarded steps do not nest. An error stops the decisions for this object, with an alert;
        all others go on. What the step emitted before the error stays, since each event is folded whole; the rest is decided when
        the object changes, or at the next level pass. A step that breaks an invariant is undone. A step that is taken too often
        for one object, because two rules keep undoing each other, is stopped too, so that a run always ends."""
        key = (rule, of)
        taken = self._steps[key] = self._steps.get(key, 0) + 1
        if taken > _STEPS:
            if taken <= _REFUSED:  # a step that was refused has its alert
                self._failed(rule, f"does not settle after {_STEPS} steps", subject or str(of))
            return
        changes, events, fault = len(self._journal.changes), len(self.emitted), ""
        rows: Sequence[Broken] = ()
        try:
            step(self, of, *rest)
            if len(self.emitted) > events:
                rows = self._invariants.after(self.state, [event for event, _ in self.emitted[events:]])
        except Exception as error:
            fault = f"failed with {type(error).__name__}"
        if self._against or (rows and not self._known.issuperset(rows)):
            self._take_back(changes, events)
            if self._is_refused(rows, rule, subject or str(of)):
                self._steps[key] = _REFUSED
            else:
                self.isolated(rule, step, of, *rest, subject=subject)
        elif fault:
            self._failed(rule, fault, subject or str(of))

    def _failed(self, rule: str, fault: str, whose: str) -> None:
        text = f"{rule} {fault} for {whose}; all else goes on; report this with the log"
        self.alert(whose, RULE_ERROR, text)

    # -- invariants ------------------------------------------------------------------------------------------------------

    def _take_back(self, changes: int, events: int) -> None:
        """Undo the step; what it touched is looked at again."""
        self.state.journal.undo(changes)
        del self.emitted[events:]
        if self._chained:
            self._newest = {event.subject: place for place, (event, _) in enumerate(self.emitted, 1)}

    def _is_refused(self, rows: Sequence[Broken], rule: str, whose: str) -> bool:
        """Report a step that was undone. False if it broke only what was broken before it: then it is taken all the same."""
        before = [one for one in rows if one not in self._known and self._invariants.is_broken(self.state, one)]
        new, self._against = (
            (*self._against, *(one for one in rows if one not in before and one not in self._known)),
            (),
        )
        for one in before:
            self._known |= {one}
            self._alert_standing(one)
        self.broken += tuple(one.name for one in new)
        if new:
            what = f"{rule} for {whose} is refused, since it would break an invariant: {new[0]}"
            self._alert_broken(whose, new[0], f"{what}; all else goes on; report this with the log")
        return bool(new)

    def _alert_standing(self, one: Broken) -> None:
        """Alert about an invariant that was broken before anything was decided; decisions go on."""
        self.broken += (one.name,)
        what = f"an invariant does not hold: {one}"
        self._alert_broken(one.of, one, f"{what}; everything goes on; report this with the log")

    def _alert_broken(self, of: str, broken: Broken, text: str) -> None:
        """Alert once for each object, and again when it breaks another invariant."""
        alert = e.Alerted(of=of, reason=INVARIANT_BROKEN, text=text, mode=self.state.mode)
        if broken.name.encode() not in (self.state.notes.last_emitted.get(alert.key) or b""):
            self.emit_once(alert)
