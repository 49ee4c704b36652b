"""`dds status`: what it says of a log, in the middle of what was recorded and at its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dds_adapters.sql import Database, upgrade
from dds_commands.recorded import sealed, with_checkpoint
from dds_commands.rows import readable
from dds_commands.sources import Log, Recording, beat, folded
from dds_commands.status import LogView, pools_status, show_status
from dds_commands.status_data import status_data
from dds_core.engine import Step
from dds_core.events import Alerted, Checkpoint, Rejected, Stale, WriteRefused, difference
from dds_core.lifecycle import ATTACHED, ATTACHING
from dds_core.log import Group, Head, MemoryLog
from dds_core.model import Constraint, Device, Slice, Taint
from dds_core.publisher.model import PoolSlice
from dds_core.replay import of_steps
from dds_core.scaler.events import AttachOrdered, ConfigGone, CoolDown, NodeGone, VictimMarked
from dds_core.scaler.folds import apply
from dds_core.scaler.history import History
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_core.scaler.timeline import Directory, timeline
from dds_core.scaler.waiting import WaitingRow, waiting_rows
from dds_core.timeline import Moment
from dds_core.timeline.instants import rfc3339
from tests.core.scaler.pools import pool_results
from tests.support.commands import FIRST_ATTACH, RECORDINGS, TWO_CLAIMS, dds, fine, log_of, refused
from tests.support.publisher_world import PublisherWorld, usual
from tests.support.world import A100, World, asks

NAME = "lab/scaler"


def told(recording: str, mode: str = "observe") -> Iterator[Moment]:
    policy = Policy.model_validate({"mode": mode})
    return Recording(str(RECORDINGS / f"{recording}.jsonl.gz"), policy).told()


def at_first(recording: str, found: Callable[[State], bool], mode: str = "observe") -> State:
    """The state of a recording when it shows something for the first time."""
    state = State()
    for moment in told(recording, mode):
        for event in (moment.fact, *moment.caused):
            assert event is not None
            apply(state, event, moment.at)
        if found(state):
            return state
    raise AssertionError("never")


def waiting(state: State, claim: str) -> WaitingRow:
    return next(row for row in waiting_rows(state) if row.claim == claim)


def log_until(
    folder: Path, recording: str, facts: int | None, mode: str = "observe", *, checkpoint: bool = False
) -> str:
    """The path of a log of the first facts of a recording."""
    path = str(folder / "log.sqlite3")
    upgrade(f"sqlite:///{path}")
    source = Recording(str(RECORDINGS / f"{recording}.jsonl.gz"), Policy.model_validate({"mode": mode}))
    steps: Iterator[Step] = islice(source.steps(), facts)
    groups: Iterator[Group]
    groups = with_checkpoint(steps) if checkpoint else (step.group(n) for n, step in enumerate(steps))
    with Database(f"sqlite:///{path}") as database:
        database.import_log(sealed(NAME, "uid", groups, 1_000_000, lambda _: b"salt"))
    return path


def data_of(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fine("status", "--json", *args))
    return found


# -- from a log --------------------------------------------------------------------------------------------------------


def test_text_of_a_log(tmp_path: Path) -> None:
    said = fine("status", log_of(FIRST_ATTACH, tmp_path))
    assert re.match(r"as of 20\d\d-\S+Z: written from a recording\n", said)
    assert re.search(r"^log first_attach/scaler  position \d+, newest event .* ago$", said, re.M)
    assert "mode observe (policy observe), hand-over exchange" in said
    assert "claims: none" in said
    assert "last changes and decisions" in said
    assert "claim default/train-1" in said
    assert "waiting" not in said


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("facts", [1, 60, None])
def test_it_is_what_the_whole_log_says(tmp_path: Path, facts: int | None, checkpoint: bool) -> None:
    path = log_until(tmp_path, "burst", facts, "detach", checkpoint=checkpoint)
    with Database(f"sqlite:///{path}") as database:
        log = database.log(NAME)
        expected = folded(Log(log, "").told())
        head = log.head()
    found = data_of(path)
    assert found.pop("live")
    if expected.process.synced:
        assert found.pop("silent") > 0 and found.pop("writes_every") == 70
        assert found.pop("beat").endswith("no scaler runs, or it cannot write its log")
    else:
        assert found.pop("silent") is None and found.pop("writes_every") is None, "it may be alive, and list"
        assert found.pop("beat").endswith("makes a scaler write now: not everything is listed yet since its start")
    assert {**found, "news": None} == {
        **json.loads(json.dumps(readable(status_data(head, expected, 20)))),
        "news": None,
    }
    assert found["position"] == head.position
    assert (head.checkpoint > 0) == checkpoint


def test_a_log_that_nobody_writes_is_told_of_first(tmp_path: Path) -> None:
    """An hour later nothing else showed that the scaler was gone."""
    path = log_until(tmp_path, "burst", 600)
    dead = r"last event \d+ d \d\d h ago, but a live scaler writes at least every 70 s: no scaler runs, or it cannot write its"
    assert re.match(dead, fine("status", path))
    assert dds("status", path, "--check").exit_code == 2
    assert dds("status", path).exit_code == 0
    assert "do not go together" in refused("status", path, "--check", "--watch")
    found = dds("claims", path)
    assert re.match(f"dds: {dead}", found.stderr)
    assert "as of" not in found.stdout and re.search(r"Bound +\d+ d \d\d h ", found.stdout), "it counts back from now"


def test_histories_of_a_log_that_is_written_count_until_now_and_say_when_nobody_writes_it(tmp_path: Path) -> None:
    path = log_until(tmp_path, "burst", 600)
    (bound, *_) = json.loads(dds("claims", path, "--state", "Bound", "--json").stdout)
    days = r"\d+ d \d\d h"
    for command, counted in (
        (("claims", "--all"), rf"waiting +{days} "),
        (("timeline", bound["claim"]), rf"in use for {days} so far"),
        (("usage",), rf"to \S+, {days}\n"),
    ):
        found = dds(*command, path)
        assert re.match(rf"dds: last event {days} ago, but a live scaler writes [^\n]+\n", found.stderr), command
        assert re.search(counted, found.stdout) and "as of" not in found.stdout, command
        assert not dds(*command, path, "--until", "02:22").stderr, "what has an end is not written"
    assert "as of 2026-11-21T02:11:20.000000Z" in fine(
        "timeline", "default/train-1", FIRST_ATTACH, "--until", "02:11:20"
    )
    assert "as of" not in fine("timeline", "default/train-1", FIRST_ATTACH), "it has ended"


@pytest.mark.parametrize(
    ("seconds", "scan", "synced", "stale", "words"),
    [
        (70, 60, True, (), "last event 1 min 10 s ago; a live scaler writes at least every 70 s"),
        (71, 60, True, (), "last event 1 min 11 s ago, but a live scaler writes at least every 70 s: "),
        (12, 1, True, (), "last event 12.0 s ago, but a live scaler writes at least every 11 s: "),
        (9999, 0, True, (), "last event 2 h 46 min ago; nothing makes a scaler write now: the policy's scan_interval"),
        (
            99,
            60,
            False,
            (),
            "last event 1 min 39 s ago; nothing makes a scaler write now: not everything is listed yet",
        ),
        (
            99,
            60,
            True,
            ("pods", "nodes"),
            "last event 1 min 39 s ago; nothing makes a scaler write now: nodes, pods can",
        ),
    ],
)
def test_who_runs_is_never_silent_for_longer_than_a_look_at_everything(
    seconds: int, scan: int, synced: bool, stale: tuple[str, ...], words: str
) -> None:
    state = World("attach", scan_interval_seconds=scan).state
    log = MemoryLog(NAME, cluster="uid", recorded_at=1_000_000)
    now = 1_000_000 + seconds * 1_000_000
    shown = beat(log.head(), state.policy, synced, stale)
    assert shown.words(now).startswith(words)
    assert shown.silent(now) == (seconds * 1_000_000 if ", but " in words else 0)


@pytest.mark.parametrize("recording", ["burst", "first_attach"])
def test_a_history_knows_what_the_process_watches(tmp_path: Path, recording: str) -> None:
    """`dds ui` has no state of the log: its histories say whether something makes a scaler write."""
    path = log_until(tmp_path, recording, None, "detach", checkpoint=True)
    with Database(f"sqlite:///{path}") as database:
        log = Log(database.log(NAME), "")
        history, state, seen = History(), State(), set()
        for moment in log.told():
            history.take(moment)
            if isinstance(moment.fact, Checkpoint):
                state = folded([moment])
            else:
                for event in (moment.fact, *moment.caused):
                    assert event is not None
                    apply(state, event, moment.at)
            assert (history.synced, history.stale) == (state.process.synced, state.process.stale)
            seen.add(history.synced)
        assert seen == {False, True}


def test_news_have_the_names_of_what_was_seen_long_before(tmp_path: Path) -> None:
    path = log_until(tmp_path, "burst", None)
    found = data_of("--news", "40", path)["news"]
    assert len(found) == 40
    assert all(not entry["name"].startswith(entry["uid"][:8]) for entry in found if entry["kind"] == "claim")
    everything = [json.loads(line) for line in fine("replay", "--format", "jsonl", path).splitlines()]
    changes = [(e["at"], e["uid"], e["to"]) for e in everything if e["kind"] in ("claim", "device")]
    assert [(e["at"], e["uid"], e["to"]) for e in found if e["kind"] in ("claim", "device")] == changes[
        -len([e for e in found if e["kind"] in ("claim", "device")]) :
    ]
    assert data_of("--news", "0", path)["news"] == []


def test_a_view_reads_on() -> None:
    log = MemoryLog(NAME, cluster="uid", recorded_at=1)
    epoch = log.take_epoch(1)
    view = LogView(log)
    source = Recording(str(RECORDINGS / "burst.jsonl.gz"), Policy(mode="detach"))
    for number, step in enumerate(source.steps()):
        log.append([step.group(number)], epoch=epoch, recorded_at=1)
        if number % 50 == 0:
            view.refresh()
            view.refresh()
    view.refresh()
    anew = LogView(log)
    anew.refresh()
    assert view.head.position == log.head().position > 600
    assert status_data(view.head, view.state, 20) == status_data(anew.head, anew.state, 20)
    assert [entry._replace(name="") for entry in view.news[-50:]] == [
        entry._replace(name="") for entry in anew.news[-50:]
    ]


def test_so_many_of_those_that_wait(tmp_path: Path) -> None:
    path = log_until(tmp_path, "burst", 150)
    found = data_of("--most", "2", path)
    assert found["waiting_count"] > 2
    assert len(found["waiting"]) == 2
    assert found["waiting"] == sorted(found["waiting"], key=lambda row: row["since"])
    assert f"{found['waiting_count']} claims waiting, the 2 that wait longest" in fine("status", "--most", "2", path)


def test_which_log(tmp_path: Path) -> None:
    path = log_of(FIRST_ATTACH, tmp_path)
    assert data_of(f"sqlite:///{path}")["log"] == "first_attach/scaler"
    assert json.loads(fine("status", "--json", env={"DDS_LOG": path}))["log"] == "first_attach/scaler"
    fine("log", "import", TWO_CLAIMS, "--log", path)
    assert "it holds 2 logs" in refused("status", path)
    assert data_of("--name", "two_claims/scaler", path)["log"] == "two_claims/scaler"


def test_without_a_name_it_is_the_log_that_serve_writes(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    said = refused("status", env=env)
    assert str(tmp_path / "dds" / "scaler.sqlite3") in said
    assert "dds serve has made none" in said
    (tmp_path / "dds").mkdir()
    log_of(FIRST_ATTACH, tmp_path / "dds", name="scaler.sqlite3")
    assert "first_attach/scaler" in fine("status", env=env)


def test_what_is_no_log(tmp_path: Path) -> None:
    assert dds("status", str(tmp_path)).exit_code == 1
    assert "hunter2" not in refused("status", "postgresql://dds:hunter2@127.0.0.1:1/dds")


# -- what it says of a state -------------------------------------------------------------------------------------------


def test_why_a_claim_waits_in_mode_observe() -> None:
    state = at_first("burst", lambda p: "Pending" in {life.state for life in p.lifecycle.lives.rows.values()})
    assert {row.why for row in waiting_rows(state)} <= {
        "mode observe: dds orders no A100 40G",
        "mode observe: dds orders no H100 80G",
    }
    first = waiting_rows(state)[0]
    assert first.node.startswith("node0")
    assert first.models in (("A100 40G",), ("H100 80G",))


def test_an_order_of_ours_and_one_of_somebody_else() -> None:
    state = at_first("burst", lambda p: bool(p.fleet.orders.rows), "detach")
    ((node, model), order) = next(iter(state.fleet.orders.rows.items()))
    row = next(row for row in waiting_rows(state) if row.node == node)
    assert row.why == f"{model} is ordered"
    said = status_data(_head(), state, 20)
    assert said["orders"] == [
        {"node": node, "model": model, "request": order.request, "size": order.size, "since": order.since}
    ]
    assert said["attaches_under_way"] == 1
    state = at_first("attach_failure", lambda p: bool(p.fleet.requests.rows))
    assert waiting_rows(state)[0].why.startswith("composability-")


def test_the_words_of_the_fabric() -> None:
    state = at_first("attach_failure", lambda p: any(r.error for r in p.fleet.resources.rows.values()))
    row = waiting(state, "default/unlucky")
    resource = next(iter(state.fleet.resources.rows.values()))
    assert row.why == f"{resource.name}: {resource.error}"


def test_a_claim_that_was_failed_and_the_cool_down() -> None:
    state = at_first("node_limit", lambda p: bool(p.failing.failures.rows) and bool(p.failing.cooling.rows), "attach")
    uid, failure = next(iter(state.failing.failures.rows.items()))
    life = state.lifecycle.lives.rows[uid]
    said = status_data(_head(), state, 20)
    if life.state in ("Pending", ATTACHING):
        assert waiting(state, f"{life.namespace}/{life.name}").why.startswith(f"failed: {failure.reason}: ")
    assert [(row["node"], row["reason"]) for row in said["cool_downs"]] == [(failure.node, failure.reason)]


def test_hand_overs() -> None:
    state = at_first("burst", lambda p: bool(p.hand_over.hand_overs.rows), "detach")
    said = status_data(_head(), state, 20)["hand_overs"]
    row = waiting(state, said[0]["claim"])
    assert row.state == ATTACHED
    assert row.why == f"handed over to the scheduler for {said[0]['node']} (clear)"
    assert said[0]["pod"] == row.claim  # this scenario names pods as their claims


def test_what_is_wrong_is_said() -> None:
    state = at_first("burst", lambda p: bool(p.fleet.orders.rows) and bool(p.fleet.resources.rows), "detach")
    (node, model), order = next(iter(state.fleet.orders.rows.items()))
    claim = next(iter(state.lifecycle.lives.rows))
    resource = next(iter(state.fleet.resources.rows.values()))
    now = state.process.now
    apply(state, CoolDown(node=node, model=model, mode="detach", until=now + 60_000_000, reason="Late"), now)
    apply(state, WriteRefused("1", "AttachOrdered", order.request, 403, "Forbidden"), now)
    apply(state, Alerted(of=claim, reason="Odd", text="look at it", mode="detach"), now)
    apply(state, Rejected("ResourceClaim", claim, "n", "spec", "is odd"), now)
    apply(state, _marked(resource.uid, resource.name, node, model), now)
    apply(state, Stale("resourceslices", 90), now)
    said = status_data(_head(), state, 20)
    life = state.lifecycle.lives.rows[claim]
    name = f"{life.namespace}/{life.name}"
    assert said["stale"] == ["resourceslices"]
    assert said["cool_downs"] == [{"node": node, "model": model, "until": now + 60_000_000, "reason": "Late"}]
    assert [(row["action"], row["of"], row["count"]) for row in said["refused"]] == [
        ("AttachOrdered", order.request, 1)
    ]
    assert said["alerts"] == [{"of": name, "reason": "Odd", "text": "look at it"}]
    assert said["rejected"] == [{"of": name, "field": "spec", "reason": "is odd"}]
    assert [(row["stage"], row["node"]) for row in said["fences"]] == [("settles", resource.node)]


def test_a_table_has_so_many_rows(capsys: pytest.CaptureFixture[str]) -> None:
    state = at_first("first_attach", lambda p: bool(p.settings.config.models))
    for number in range(5):
        apply(state, Rejected("ResourceClaim", f"c{number}", "n", "spec", "is odd"), state.process.now)
    show_status(status_data(_head(), state, 2), state.process.now, 2)
    said = capsys.readouterr().out
    assert said.count("is odd") == 2 and "… and 3 more" in said
    assert "ConfigMap" not in said


def test_a_cluster_without_models_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    state = at_first("first_attach", lambda p: bool(p.settings.config.models))
    apply(state, ConfigGone(state.settings.config.uid), state.process.now)
    show_status(status_data(_head(), state, 20), state.process.now, 20)
    assert "the ConfigMap of the fabric is not there: no device is known as ours" in capsys.readouterr().out


def test_what_keeps_an_order_back_is_said_before_the_mode() -> None:
    state = at_first("burst", lambda p: "Pending" in {life.state for life in p.lifecycle.lives.rows.values()})
    row = waiting_rows(state)[0]
    apply(state, CoolDown(node=row.node, model=row.models[0], mode="attach", until=0, reason="Late"), state.process.now)
    node = state.fleet.node(row.node)
    assert node is not None
    cordoned = difference(node, replace(node, unschedulable=True))
    assert cordoned is not None
    for event, why in (
        (cordoned, f"{row.node} is cordoned, tainted or being deleted"),
        (Stale("pods", 90), "the view of the cluster is not complete"),
        (
            NodeGone(node.uid),
            f"node {row.node} was deleted; the scheduler allocates anew once its binding timeout is over, or with a new pod",
        ),
    ):
        apply(state, event, state.process.now)
        assert waiting(state, row.claim).why == why


def test_in_mode_observe_it_is_said_that_the_attempt_would_fail() -> None:
    world = World("observe", scan_interval_seconds=0, limit={"max": 1})
    world.node("node0")
    world.pool(A100, 2)
    world.waits("train", "node0", (A100, 2))
    assert waiting(world.state, "default/train").why == (
        "mode observe: dds would give up this attempt: NodeLimit: it asks for 2 of A100 40G, and node0 may have 1"
    )


def test_a_fabric_that_fails_and_a_closed_pool_are_said() -> None:
    world = World("attach", scan_interval_seconds=0)
    for i in range(3):
        world.node(f"node{i}")
    world.pool(A100, 3)
    for i in range(2):
        apply(
            world.state, CoolDown(f"node{i}", A100.model, "attach", world.now + 60_000_000, "AttachFailed"), world.now
        )
    pool = world.state.inventory.slices.rows[f"pool-{A100.device}-fabric1"]
    closed = {name: replace(device, taints=(Taint("t", "", "NoSchedule"),)) for name, device in pool.devices.items()}
    world.update(pool, devices=closed)
    world.waits("train", "node2")
    assert waiting(world.state, "default/train").why == (
        f"{A100.model} cools down in fabric 1, which brought none to 2 nodes"
    )
    devices = {row["model"]: row for row in status_data(_head(), world.state, 20)["devices"]}
    assert devices[A100.model]["free"] == 0


def test_what_takes_too_many_steps_is_said() -> None:
    """Of twelve pairs of devices thirteen have to be each of another pair, which takes 531,441 ways to see that it cannot be."""
    world = World("attach", limit={"max": 99, "fixed": 99})
    world.node("node0")
    world.pool(A100, 13)
    devices = {
        f"gpu-{i}": Device({**A100.attributes, "uuid": f"GPU-{i}", "serial": i, "pair": i // 2}) for i in range(24)
    }
    world.observe(Slice("local", "node0-gpu", A100.driver, "node0", 0, 1, node="node0", devices=devices))
    unlike = tuple(Constraint(distinct=f"{A100.driver}/{name}") for name in ("serial", "pair"))
    world.claim("train", requests=(asks("r0", A100.device, count=13),), constraints=unlike)
    world.allocate("train", "node0", *(replace(one, request="r0") for one in pool_results(*range(13))))
    why = waiting(world.state, "default/train").why
    assert why.startswith("which free devices on node0 satisfy claim default/train")
    assert why.endswith("was not found in 3000 steps; it waits until devices or claims change there")


def test_instants_are_readable_and_never_is_null() -> None:
    found = readable({"since": 1_000_000, "until": 0, "rows": [{"at": 5}], "size": 3})
    assert found == {"since": rfc3339(1_000_000), "until": None, "rows": [{"at": rfc3339(5)}], "size": 3}


def _marked(uid: str, name: str, node: str, model: str) -> VictimMarked:
    return VictimMarked(
        resource=uid,
        mode="detach",
        name=name,
        node=node,
        model=model,
        uuid="",
        driver="d",
        pool="p",
        device="x",
        reason="idle",
    )


def _head() -> Head:
    return MemoryLog(NAME, cluster="uid", recorded_at=1).head()


# -- `dds status` of a publisher: what it lists of a state


def alerts(board: PublisherWorld) -> list[str]:
    head = MemoryLog("lab/publisher", cluster="uid", recorded_at=1).head()
    return [one["reason"] for one in pools_status(head, board.state)["alerts"]]


def test_a_pool_that_somebody_deletes_is_told_of_until_it_stays() -> None:
    board = usual(2)
    told: list[str] = []
    while not told:
        board.gone(PoolSlice, board.live()[0].uid)
        while not board.unwritten:
            board.wait(1)
        told = alerts(board)
        board.write()
    assert told == ["ReadBackDiffers"]
    assert alerts(board) == [], "it is as it was written"
    board.gone(PoolSlice, board.live()[0].uid)
    assert alerts(board) == ["ReadBackDiffers"]


# -- a node that is deleted ------------------------------------------------------------------------------------------------


def test_the_deletion_of_a_node_is_told_with_what_it_took_along() -> None:
    """It stays in the news, though all that it took along ends after it."""
    lost = str(RECORDINGS / "node_lost.jsonl.gz")
    device = "GPU-1027c4d1-c386-bbc4-cd61-3e30d8f16adf"
    taken = f"took along claim default/victim (Bound) and device {device} (Used)"
    for subject in ("node0001", "default/victim", device):
        entries = json.loads(fine("timeline", subject, lost, "--json"))["entries"]
        (told,) = [one for one in entries if one["kind"] == "node"]
        assert (told["name"], told["from"], told["to"], told["cause"]) == ("node0001", "Registered", "Deleted", taken)
        assert re.search(r"  node node0001\n +Registered → Deleted ", fine("timeline", subject, lost)), subject
    assert "Deleted" not in fine("timeline", "node0000", lost), "another node"
    entry, _ = json.loads(fine("status", "--json", "--news", "1", lost))["news"]
    assert (entry["kind"], entry["name"], entry["cause"]) == ("node", "node0001", taken)
    assert json.loads(fine("status", "--json", "--news", "0", lost))["news"] == []


def test_the_deletion_of_a_node_without_devices_is_told_to_who_asks_for_it() -> None:
    world = World("attach")
    world.node("node0")
    world.node("node1")
    world.pool(A100, 2)
    world.claim("train")
    world.allocate("train", "node0")
    world.feed(NodeGone("node-node1"))
    moments = list(of_steps(world.steps))
    (entry,) = list(timeline(moments, Directory().read(moments).find("node/node1")))[-1:]
    assert (entry.kind, entry.target, entry.cause) == ("node", "Deleted", "no claim or device was on it")
    assert not [one for one in timeline(moments) if one.kind == "node"], "and to nobody else"


def test_of_a_refused_write_it_says_who_refused_it_in_which_words(capsys: pytest.CaptureFixture[str]) -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    (order,) = world.events(AttachOrdered)
    world.feed(WriteRefused("d", "AttachOrdered", order.request, 422, "Invalid", 'the policy "quota" denies it'))
    (row,) = status_data(_head(), world.state, 20)["refused"]
    assert row["why"] == 'the API server: 422 Invalid the policy "quota" denies it'
    show_status(status_data(_head(), world.state, 20), world.now, 20)
    assert 'the policy "quota" denies it' in capsys.readouterr().out.partition("refused writes")[2]


def test_a_refused_write_is_told_until_its_time_has_come_and_then_only_if_it_is_refused_again() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    (order,) = world.events(AttachOrdered)
    again = WriteRefused("d", "AttachOrdered", order.request, 422, "Invalid", "no")
    for times in (1, 2):
        world.feed(again)
        (row,) = status_data(_head(), world.state, 20)["refused"]
        assert (row["count"], row["again_at"] > world.now) == (times, True)
        world.tick(31)
    world.finish("train")
    (row,) = status_data(_head(), world.state, 20)["refused"]
    assert row["count"] == 2, "its time is still to come"
    world.tick(31)
    assert not status_data(_head(), world.state, 20)["refused"], "nobody wants the device any more"
