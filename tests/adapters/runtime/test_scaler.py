"""The owner of engine and log: what it does when something goes wrong with one thing, or with the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes.watch.delta_queue import ADDED, LOST, MODIFIED, STALE, SYNCED, Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.kubernetes.write.guarding import AskGuarding, Guarding
from dds_adapters.runtime import scaler as module
from dds_adapters.runtime.loop import Committed
from dds_adapters.runtime.scaler import GuardQuestion, ScalerController
from dds_core.engine import EngineOf
from dds_core.errors import DdsError, Fenced, LogUnreachable
from dds_core.events import Capabilities
from dds_core.log import Anchor, Envelope, Group, MemoryLog
from dds_core.log.envelope import LeanEvent
from dds_core.replay import event_of, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State

START = 1_800_000_000_000_000
SECOND = 1_000_000


class Shaky(MemoryLog):
    """A log that can be away, before or after it took in what it was given."""

    before = after = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.asked: list[int] = []

    def read_lean(self, after: int = 0, *args: Any, **more: Any) -> Iterator[LeanEvent]:
        self.asked.append(after)
        return super().read_lean(after, *args, **more)

    def append(self, groups: Sequence[Group], **more: Any) -> list[Envelope]:
        if self.before:
            raise LogUnreachable("is away")
        rows = super().append(groups, **more)
        if self.after:
            raise LogUnreachable("the answer was lost")
        return rows


class Run:
    """A scaler that has seen an empty cluster with one node."""

    def __init__(self, policy: Policy | None = None, *, log: Shaky | None = None, **more: Any) -> None:
        self.log = log or Shaky("test/scaler", cluster="c", recorded_at=START)
        self.told: list[DdsError] = []
        self.now = START
        self.scaler = ScalerController(
            self.log, policy or Policy(mode="attach"), code="t", on_error=self.told.append, **more
        )
        self.scaler.open(self.now)

    def turn(self, *arrivals: Arrival) -> None:
        self.now += SECOND
        self.scaler.turn(arrivals, (), self.now)

    def see(self, resource: str, type: str, **obj: Any) -> Arrival:
        return Arrival(resource, type, msgspec.json.encode(obj), self.now)

    def sync(self) -> None:
        self.turn(*(Arrival(resource, SYNCED, b"", self.now) for resource in VERSIONS))

    def lost(self) -> set[str]:
        return set(self.scaler.lost)

    def waits(self) -> bool:
        return self.scaler.due() is not None

    def away(self) -> bool:
        return self.scaler.away

    def types(self) -> list[str]:
        return [row.type for row in self.log.read()]


class Guarded(Run):
    """The same where devices can be guarded."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.question = GuardQuestion("composable-dra", lambda: self.now, lambda: None)
        super().__init__(policy, guards=self.question)
        self.answer("composable-dra")

    def answer(self, guards: str) -> None:
        """It is told that devices can be guarded there, "" for nowhere."""
        write = self.question.task().write
        assert isinstance(write, AskGuarding)
        write.on_answer(Guarding("1.36", guards, "" if guards else "the policy is gone"))


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}


@pytest.mark.parametrize(("namespace", "hold"), [("composable-dra", "r-1"), ("default", "")])
def test_a_claim_like_a_hold_is_one_where_dds_is_installed(namespace: str, hold: str) -> None:
    run = Guarded()
    owner = {"kind": "ComposableResource", "name": "res", "uid": "r-1"}
    meta = {"name": "c", "namespace": namespace, "uid": "u", "labels": {"app.kubernetes.io/managed-by": "dds"}}
    run.turn(run.see("resourceclaims", ADDED, metadata={**meta, "ownerReferences": [owner]}))
    assert run.scaler.state.demand.claims.rows["u"].hold == hold


def test_nothing_is_decided_before_every_resource_was_listed() -> None:
    run = Run()
    for resource in list(VERSIONS)[:-1]:
        run.turn(Arrival(resource, SYNCED, b"", run.now))
    assert "Synced" not in run.types()
    run.turn(Arrival(list(VERSIONS)[-1], SYNCED, b"", run.now))
    assert run.scaler.synced and run.types()[-2:] == ["Capabilities", "Synced"]


def test_a_resource_that_one_can_do_without_counts_as_listed_when_it_is_not_served() -> None:
    run = Run()
    run.turn(*(Arrival(one, LOST if one == "devicetaintrules" else SYNCED, b"", run.now) for one in VERSIONS))
    assert run.scaler.synced and not run.scaler.lost


def test_a_needed_resource_that_is_lost_makes_the_view_stale_until_it_is_back() -> None:
    run = Run()
    run.sync()
    run.turn(Arrival("resourceclaims", LOST, b"", run.now))
    assert run.lost() == {"resourceclaims"} and run.types()[-1] == "Stale"
    assert "resourceclaims" not in run.scaler.synced_resources
    assert not run.waits()
    run.turn(Arrival("resourceclaims", SYNCED, b"", run.now))
    assert not run.lost() and run.types()[-1] == "Synced"
    assert run.waits()


@pytest.mark.parametrize(("resource", "told"), [("resourceclaims", 1), ("pods", 0)])
def test_a_list_of_claims_that_had_to_be_made_anew_is_a_fact(resource: str, told: int) -> None:
    run = Run()
    run.sync()
    run.turn(Arrival(resource, SYNCED, b"", run.now, anew=True))
    assert run.types().count("ClaimsRelisted") == told


def test_two_stale_views_must_both_be_back() -> None:
    run = Run()
    run.sync()
    run.turn(Arrival("pods", STALE, b"", run.now, 150), Arrival("nodes", STALE, b"", run.now, 150))
    run.turn(Arrival("pods", SYNCED, b"", run.now))
    assert run.types()[-1] == "Stale"
    run.turn(Arrival("nodes", SYNCED, b"", run.now))
    assert run.types()[-1] == "Synced"


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_could_not_be_appended_is_appended_later_and_once(when: str) -> None:
    run = Run()
    run.sync()
    setattr(run.log, when, True)
    with pytest.raises(LogUnreachable):
        run.turn(run.see("nodes", ADDED, **node("n0")), run.see("nodes", ADDED, **node("n1")))
    assert run.away()
    with pytest.raises(LogUnreachable):
        run.turn()
    setattr(run.log, when, False)
    run.turn()
    assert not run.away() and run.scaler.behind == 0
    assert run.types().count("NodeObserved") == 2
    assert verify(run.log.read(), SCALER).ok


def test_a_deadline_is_logged_before_the_fact_that_comes_after_it() -> None:
    run = Run(Policy(mode="attach", scan_interval_seconds=10))
    run.sync()
    run.now += 30 * SECOND
    run.turn(run.see("nodes", ADDED, **node("n0")))
    tail = run.types()[-4:]
    assert tail.count("DeadlinePassed") == 3 and tail[-1] == "NodeObserved"
    assert verify(run.log.read(), SCALER).ok


@pytest.mark.parametrize("change", ["a view that is lost", "another answer about guards", "an object"])
def test_whatever_comes_after_a_deadline_the_deadline_is_logged_first(change: str) -> None:
    run = Guarded(Policy(mode="attach", scan_interval_seconds=10))
    run.sync()
    run.now += 30 * SECOND
    if change == "a view that is lost":
        run.turn(Arrival("pods", STALE, b"", run.now, 150))
    elif change == "another answer about guards":
        run.answer("")
        run.turn()
    else:
        run.turn(run.see("nodes", ADDED, **node("n0")))
    tail = run.types()[-4:]
    assert tail.count("DeadlinePassed") == 3 and tail[-1] != "DeadlinePassed", tail
    report = verify(run.log.read(), SCALER)
    assert report.ok, report.differences


def test_another_writer_ends_it() -> None:
    run = Run()
    run.log.take_epoch(run.now)
    with pytest.raises(Fenced):
        run.turn(run.see("nodes", ADDED, **node("n0")))


def test_an_object_that_cannot_be_taken_in_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    run.sync()
    feed = EngineOf.feed

    def fails_for_one(engine: Any, fact: Any, at: int) -> Any:
        step = feed(engine, fact, at)
        if getattr(fact, "uid", "") == "uid-bad":
            raise RuntimeError("a fault of ours")
        return step

    monkeypatch.setattr(EngineOf, "feed", fails_for_one)
    run.turn(*(run.see("nodes", ADDED, **node(name)) for name in ("one", "bad", "two")))
    assert run.scaler.state.fleet.node_names() == {"one", "two"}, "memory is the log's again"
    assert [error.where for error in run.told] == ["nodes bad"]
    assert verify(run.log.read(), SCALER).ok
    run.turn(run.see("nodes", MODIFIED, metadata={"name": "two", "uid": "uid-two", "labels": {"a": "b"}}))
    assert run.types()[-1] == "NodeObserved"


def test_a_watcher_that_fails_is_told_of_and_stops_nothing() -> None:
    class Broken:
        def committed(self, steps: Sequence[Committed], state: State) -> None:
            raise ValueError("no")

    run = Run(listeners=(Broken(),))
    run.sync()
    assert run.scaler.synced and run.told and run.told[0].where == "Broken"


def test_a_decision_that_cannot_be_drawn_up_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "tasks_of", fails)
    run = Run(Policy(mode="attach", scan_interval_seconds=0))
    config = {
        "metadata": {"name": "composable-dra-dds", "namespace": "composable-dra", "uid": "config"},
        "data": {
            "label-prefix": "cohdi.io",
            "fabric-id-range": "[0]",
            "device-info": "- {index: 1, cdi-model-name: A100, driver-name: gpu.nvidia.com, k8s-device-name: a100, "
            "cannot-coexist-with: [], dra-attributes: {productName: A100}}",
        },
    }
    fabric = {"metadata": {"name": "n0", "uid": "uid-n0", "labels": {"cohdi.io/fabric": "0"}}}
    run.turn(run.see("configmaps", ADDED, **config), run.see("nodes", ADDED, **fabric))
    run.sync()
    assert "NodeLabelled" in run.types()
    run.turn()
    assert run.types()[-1] == "WriteRefused"
    assert verify(run.log.read(), SCALER).ok


def test_whether_devices_can_be_guarded_is_a_fact_when_it_changes() -> None:
    run = Guarded()
    run.sync()
    told = []
    for guards in ("composable-dra", "", "", "composable-dra"):
        run.answer(guards)
        run.turn()
        told.append(run.types().count("Capabilities"))
    assert told == [1, 2, 2, 3]
    assert run.scaler.state.settings.guards == "composable-dra"


def test_nothing_is_decided_before_it_is_known_whether_devices_can_be_guarded() -> None:
    woken: list[int] = []
    question = GuardQuestion("composable-dra", lambda: run.now, lambda: woken.append(run.now))
    run = Run(guards=question)
    run.scaler.begin()
    run.now += SECOND
    (task,) = run.scaler.turn([Arrival(one, SYNCED, b"", run.now) for one in VERSIONS], (), run.now)
    assert isinstance(task.write, AskGuarding) and "Synced" not in run.types()
    task.write.on_answer(Guarding("1.36", "composable-dra", ""))
    assert woken == [run.now]
    run.turn()
    assert run.scaler.synced and run.types()[-2:] == ["Capabilities", "Synced"]
    told = Capabilities(version="1.36", guards="composable-dra")
    assert event_of(list(run.log.read())[-2], SCALER) == told
    run.turn(Arrival("pods", LOST, b"", run.now))
    again = run.scaler.turn([Arrival("pods", SYNCED, b"", run.now)], (), run.now)
    assert [type(one.write) for one in again] == [AskGuarding], "what was lost may have been installed anew"
    task.write.on_answer(Guarding("1.36", "composable-dra", ""))
    task.write.on_answer(Guarding("1.36", "", "the policy is gone"))
    run.turn()
    assert run.types().count("Capabilities") == 2 and run.types()[-1] == "Capabilities"
    assert verify(run.log.read(), SCALER).ok


def test_a_checkpoint_is_where_the_next_start_begins() -> None:
    run = Run()
    run.sync()
    run.turn(run.see("nodes", ADDED, **node("n0")))
    run.scaler.checkpoint(run.now)
    run.log.asked.clear()
    again = Run(log=run.log)
    assert run.log.asked == [run.scaler.position - 1]
    assert again.scaler.epoch == 2 and again.scaler.state.fleet.node_names() == {"n0"}
    assert verify(run.log.read(), SCALER).ok


def test_a_changed_policy_is_a_fact_and_an_equal_one_is_none() -> None:
    run = Run()
    run.sync()
    run.scaler.change_policy(Policy(mode="attach"))
    run.turn()
    assert run.types().count("PolicyChanged") == 1
    run.scaler.change_policy(Policy(mode="detach"))
    run.turn()
    assert run.types().count("PolicyChanged") == 2 and run.scaler.state.mode == "detach"


# -- a log that went back


def known(position: int, epoch: int, log: str = "test/scaler") -> Anchor:
    """What an earlier process left in the Lease."""
    return Anchor(log, position, b"\7" * 32, epoch)


def opened_after(where: Anchor | None) -> list[str]:
    """The types of the events that a process appends at its start, which is in the epoch that its log gives."""
    log = Shaky("test/scaler", cluster="c", recorded_at=START)
    scaler = ScalerController(log, Policy(mode="attach"), code="t")
    scaler.open(START, where)
    assert scaler.epoch == (1 if where is None or where.log != log.name else where.epoch + 1)
    return [row.type for row in log.read()][1:]


def test_what_a_log_lacks_that_went_back_is_a_fact() -> None:
    assert opened_after(known(40, 5)) == ["Started", "EventsLost", "PolicyChanged"]
    assert opened_after(known(1, 3)) == ["Started", "EventsLost", "PolicyChanged"], "another event is there"


def test_a_log_that_has_all_lacks_nothing() -> None:
    usual = ["Started", "PolicyChanged"]
    assert opened_after(None) == usual
    assert opened_after(known(40, 5, "test/other")) == usual, "the Lease was another log's"
    run = Run()
    again = ScalerController(run.log, Policy(mode="attach"), code="t")
    again.open(run.now, run.scaler.left)
    assert [row.type for row in run.log.read()][3:] == ["Started"]
    assert verify(run.log.read(), SCALER).ok
