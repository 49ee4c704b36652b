"""What the doctor says of policy and log, and that no check stands in another's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.doctor import Examined, Finding, Journal, configuration, examination, examine, sound
from dds_adapters.kubernetes.doctor.context import PATIENCE, ExaminationContext
from dds_adapters.kubernetes.doctor.findings import Level, failed, foreign, ok, several
from dds_adapters.sql import Database, upgrade
from dds_commands.sources import Log, Recording
from dds_core.engine import new_event
from dds_core.errors import DatabaseMissing, InputError, LogUnreachable, PolicyError
from dds_core.events import PolicyChanged, Started
from dds_core.log import Group, Head
from dds_core.scaler.model import Rate, Timeout
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_core.scaler.state import State
from dds_lab.driver import Direct
from tests.support.commands import RECORDINGS
from tests.support.doctor_lab import WHERE, DoctorLab, levels, worst

SECOND = 1_000_000
NOON = 1_790_000_000_000_000
NAME = "cluster/scaler"
UID = "uid-of-kube-system"


# -- policy and binding timeouts ---------------------------------------------------------------------------------------


def learned(**seconds: tuple[float, float]) -> State:
    """A state in which schedulers were seen to give up: (last, learned) seconds by scheduler."""
    state = State()
    for name, (last, agreed) in seconds.items():
        state.lifecycle.timeouts.put(name, Timeout(round(last * SECOND), round(agreed * SECOND)))
    return state


def test_a_policy_in_short() -> None:
    assert levels(configuration.in_short(Policy())) == ["ok"]
    (live,) = configuration.in_short(Policy(mode="detach"))
    assert "idle devices go back after 600 s" in live.what


def test_the_budget_of_a_policy() -> None:
    (found,) = configuration.timeouts(Policy(), None)
    assert found.level == "ok"
    assert "540 s for an attach of 600 s" in found.what


def test_a_margin_that_does_not_fit() -> None:
    tight = Policy(scheduler=SchedulerPolicy(binding_timeout_seconds=60))
    found = list(configuration.timeouts(tight, None))
    assert levels(found) == ["note", "ok"]
    assert "is cut to 15 s" in found[0].what


def test_a_scheduler_that_gives_up_earlier_than_the_policy_says() -> None:
    named = Policy(schedulers={"batch": SchedulerPolicy(binding_timeout_seconds=300)})
    found = list(configuration.timeouts(named, learned(batch=(120, 120), default=(600, 600))))
    (wrong,) = [one for one in found if one.level == "warning"]
    assert wrong.what.startswith("scheduler batch gave up after 120 s twice, the policy says 300 s: 90 s are left")
    assert "binding_timeout_seconds of it to 120" in wrong.mend
    assert len(found) == 3


def test_what_a_recorded_cluster_taught() -> None:
    state = Recording(str(RECORDINGS / "binding_timeout.jsonl.gz")).state(None, None)
    (wrong,) = worst(configuration.timeouts(Policy(), state), "warning")
    assert wrong.startswith("scheduler default-scheduler gave up after 30 s twice, the policy says 600 s")
    fitting = Policy(scheduler=SchedulerPolicy(binding_timeout_seconds=30))
    assert worst(configuration.timeouts(fitting, state), "warning") == []


def test_one_wait_that_ended_early_is_only_noted() -> None:
    found = list(configuration.timeouts(Policy(), learned(default=(45, 0))))
    assert levels(found) == ["ok", "note"]
    assert "gave up once after 45 s" in found[1].what


@pytest.mark.parametrize(("service", "count", "expected"), [(4.0, 9, "ok"), (900.0, 9, "warning"), (900.0, 4, None)])
def test_the_pace_of_the_fabric(service: float, count: int, expected: Level | None) -> None:
    state = State()
    state.fleet.rates.put("", Rate(service, count))
    rest = levels(configuration.timeouts(Policy(), state))[1:]
    assert rest == ([expected] if expected else [])


# -- the log -----------------------------------------------------------------------------------------------------------


class InDatabase:
    """The journal of a real database."""

    def __init__(self, url: str, where: str = "the log") -> None:
        self.where = where
        self.database = Database(url)

    def heads(self) -> list[Head]:
        return self.database.heads()

    def state(self, name: str) -> State:
        state: State = Log(self.database.log(name), self.where).state(None, None)
        return state


@pytest.fixture
def database(tmp_path: Path) -> Iterator[InDatabase]:
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    upgrade(url)
    found = InDatabase(url)
    yield found
    found.database.close()


def looked(kept: Journal, *, cluster: str | None = UID, now: int = NOON, name: str = NAME) -> list[Finding]:
    return list(configuration.log(kept, name, cluster, now))


def test_a_log_that_is_not_there_yet(database: InDatabase) -> None:
    (found,) = looked(database)
    assert (found.level, found.mend) == ("note", "the first start of dds serve makes it")


def test_a_log_of_this_cluster(database: InDatabase) -> None:
    database.database.open_log(NAME, cluster=UID, recorded_at=NOON)
    found = looked(database)
    assert levels(found) == ["ok", "ok", "ok"]
    assert "position 1, epoch 0" in found[1].what and "no checkpoint" in found[2].what


def test_a_log_of_another_cluster(database: InDatabase) -> None:
    database.database.open_log(NAME, cluster="uid-of-another", recorded_at=NOON)
    found = looked(database)
    assert found[0].level == "error"
    assert "belongs to another cluster" in found[0].what and "uid-of-another" in found[0].what
    assert looked(database, cluster=None)[0].level == "unknown"


def test_a_log_by_another_name(database: InDatabase) -> None:
    database.database.open_log("prod/scaler", cluster=UID, recorded_at=NOON)
    (found,) = looked(database)
    assert (found.level, found.mend.startswith("give --cluster-name prod")) == ("warning", True)


def test_a_log_from_the_future(database: InDatabase) -> None:
    database.database.open_log(NAME, cluster=UID, recorded_at=NOON)
    assert levels(looked(database, now=NOON - 600 * SECOND)) == ["ok", "warning", "ok"]


def test_a_log_without_checkpoints_grows(database: InDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    database.database.open_log(NAME, cluster=UID, recorded_at=NOON)
    monkeypatch.setattr(configuration, "MANY_EVENTS", 0)
    assert worst(looked(database), "warning") == ["1 events and no checkpoint: a start has to fold them all"]


# -- one check never stops another -------------------------------------------------------------------------------------


class Asked(Direct):
    """The lab's API server, with a name."""

    where = WHERE


def examined(clinic: DoctorLab, **more: Any) -> Examined:
    told: dict[str, Any] = {
        "connect": lambda: Asked(clinic.lab.server, "admin"),
        "policy": Policy,
        "journal": None,
        "now": clinic.lab.time.now,
        **more,
    }
    return Examined(**told)


OF_THE_CLUSTER = {one.topic for one in examination.CHECKS if one.needs == examination.CLUSTER}


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


def test_a_sound_cluster_has_no_error() -> None:
    found = list(examine(examined(DoctorLab())))
    assert sound(found)
    assert {one.check for one in found} >= OF_THE_CLUSTER
    assert worst(found, "unknown") == [
        "unknown until the first allocation of a pool device shows them",
        "this user can see no Deployment of the operator: its settings and rights are not known",
        "no log was named",
    ]


def test_a_check_that_breaks_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    look = raising(KeyError("x"))
    broken = tuple(one._replace(look=look) if one.topic == "kinds" else one for one in examination.CHECKS)
    monkeypatch.setattr(examination, "CHECKS", broken)
    found = list(examine(examined(DoctorLab())))
    (itself,) = [one for one in found if one.check == "kinds"]
    assert (itself.level, itself.what) == ("unknown", "the check itself failed (KeyError)")
    assert {one.check for one in found} >= OF_THE_CLUSTER


def test_what_may_not_be_read_is_unknown() -> None:
    clinic = DoctorLab(seconds=0)
    found = list(examine(examined(clinic, connect=lambda: Asked(clinic.lab.server, "nobody", ()))))
    assert any("may not be read by this user (403)" in what for what in worst(found, "unknown"))
    assert any(what.startswith("watch is not possible without") for what in worst(found, "error"))


@pytest.mark.parametrize(
    ("part", "error", "check"),
    [
        ("connect", InputError("cannot be used", where="kubeconfig", fix="give another"), "server"),
        ("policy", PolicyError("the policy is not valid: mode"), "policy"),
        ("journal", DatabaseMissing("there is no such file", where="log", fix="make it"), "log"),
        ("journal", LogUnreachable("the server does not answer", where="log", fix="start it"), "log"),
    ],
)
def test_what_cannot_be_had_is_a_finding(part: str, error: Exception, check: str) -> None:
    found = list(examine(examined(DoctorLab(), **{part: raising(error)})))
    assert [one.check for one in found if one.level == "error"] == [check]
    assert {one.check for one in found} >= {"policy", "log", "binding timeout"}


@pytest.mark.parametrize(
    ("given", "runs", "told"),
    [
        ("observe", "", ["in mode observe nothing is written to the cluster"]),
        ("attach", "", []),
        ("observe", "attach", ["it runs in mode attach, as its log says; what the doctor was given says observe"]),
        (
            "attach",
            "observe",
            [
                "it runs in mode observe, as its log says; what the doctor was given says attach",
                "in mode observe nothing is written to the cluster",
            ],
        ),
        ("detach", "detach", []),
    ],
)
def test_the_mode_is_the_one_that_runs(database: InDatabase, given: Any, runs: Any, told: list[str]) -> None:
    clinic = DoctorLab(seconds=0)
    uid = clinic.admin.get("namespaces", "kube-system")["metadata"]["uid"]
    log = database.database.open_log(NAME, cluster=uid, recorded_at=NOON)
    if runs:
        policy = Policy(mode=runs).model_dump(mode="json")
        facts = Started("0.1.0", "f", 1, 1, runs), PolicyChanged(policy)
        told_groups = [Group(number, (new_event(fact, NOON, None),)) for number, fact in enumerate(facts)]
        log.append(told_groups, epoch=log.take_epoch(NOON), recorded_at=NOON)
    found = examine(examined(clinic, policy=lambda: Policy(mode=given), journal=lambda: database))
    assert [one.what for one in found if (one.check, one.level) == ("policy", "note")] == told


def test_a_log_that_cannot_be_folded_is_an_error(database: InDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = DoctorLab()
    uid = clinic.admin.get("namespaces", "kube-system")["metadata"]["uid"]
    database.database.open_log(NAME, cluster=uid, recorded_at=NOON)
    monkeypatch.setattr(database, "state", raising(LogUnreachable("the server went away", where="the log")))
    found = [one for one in examine(examined(clinic, journal=lambda: database)) if one.check == "log"]
    assert found[0].what == f"{NAME} in the log belongs to this cluster"
    assert (found[-1].level, found[-1].what) == ("error", "the log: the server went away")


def test_a_server_that_does_not_answer_is_not_asked_for_long() -> None:
    clinic = DoctorLab(seconds=0)
    asked = Asked(clinic.lab.server, "admin")
    asked.before = raising(Unreachable("does not answer", where=WHERE))
    found = list(examine(examined(clinic, connect=lambda: asked)))
    assert [one.check for one in found if one.level == "error"] == ["server"]
    assert "everything else in the cluster was not looked at" in worst(found, "unknown")


def test_a_server_that_goes_away_meanwhile_is_let_alone() -> None:
    clinic, asked = DoctorLab(seconds=0), 0

    def gone(method: str, path: str) -> None:
        nonlocal asked
        asked += 1
        if asked > 2:
            raise Unreachable("does not answer", where=WHERE)

    api = Asked(clinic.lab.server, "admin")
    api.before = gone
    found = list(examine(examined(clinic, connect=lambda: api)))
    assert asked == 2 + PATIENCE
    assert OF_THE_CLUSTER - {"drivers"} <= {one.check for one in found}


# -- findings ----------------------------------------------------------------------------------------------------------


def test_a_finding_is_one_line_without_secrets() -> None:
    assert Finding("a", "ok", "two\nlines", "and\ttabs").what == "two lines"
    assert "hunter2" not in foreign("password=hunter2")
    assert failed("a", InputError("broken", where="here", fix="mend it")) == Finding(
        "a", "unknown", "here: broken", "mend it"
    )


def test_long_lists_are_counted() -> None:
    assert several("cabd") == "a, b, c, d"
    assert several(["b", "a", "c"], limit=2) == "a, b and 1 more"
    assert ok("a", "b").level == "ok"


def test_lookups_are_made_once_even_when_they_fail() -> None:
    clinic = DoctorLab(seconds=0, config=False)
    api = Direct(clinic.lab.server, "admin")
    context = ExaminationContext(api, WHERE, clinic.lab.time.now)
    context.config_or_usual()
    asked = sum(api.requests.values())
    context.config_or_usual()
    assert sum(api.requests.values()) == asked
