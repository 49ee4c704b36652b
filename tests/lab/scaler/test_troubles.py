"""Our scaler among troubles, each alone, on virtual time: it goes on where it can and comes back where it cannot.

The judge sees no device moved that should not be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from dds_adapters.kubernetes.watch.watch_spec import watched
from dds_core.errors import Fenced
from dds_core.scaler import events as e
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.judge.scaler import Measure
from dds_lab.scenario import Scenario, parse
from tests.support import guarding
from tests.support.exits import Watched
from tests.support.expected_ends import ENDS, survived
from tests.support.ours import USUAL, Running, begins, new_log, policy_for, running, told_to_us
from tests.support.troubles import SECOND, TROUBLES, Trouble, cut_now_and_then, log_away, troubled

AMONG = ("two_claims", "many_devices", "coexistence")


def among(
    name: str,
    trouble: Callable[[Running], object],
    *,
    seed: int = 1,
    more: float = 1000.0,
    measure: Measure = USUAL,
    guarded: bool = True,
) -> Running:
    """A scenario's end among troubles. Its steps wait for pods, and all for its end, as long as it takes: a write that is refused
    again and again is tried again minutes later."""
    scenario = _patient(told_to_us(name))

    def prepare(run: Running) -> None:
        trouble(run)

    log = Watched(new_log(scenario))
    with running(scenario, seed=seed, log=log, prepare=prepare, measure=measure, guarded=guarded) as run:
        run.lab.run()
        run.lab.run(more)
    return run


def _patient(scenario: Scenario) -> Scenario:
    steps = [
        step.model_copy(update={"wait_for": step.wait_for.model_copy(update={"within": 900.0})})
        if step.wait_for
        else step
        for step in scenario.steps
    ]
    return scenario.model_copy(update={"steps": tuple(steps)})


@pytest.mark.parametrize("name", AMONG)
@pytest.mark.parametrize("kind", TROUBLES)
def test_an_api_server_that_says_no_or_nothing_to_every_third_request(name: str, kind: Trouble) -> None:
    """Nothing is guarded here: what an exchange needs beyond a hand-over would not be over within the scenario's minute."""
    met = []
    run = among(name, lambda run: met.append(troubled(run, kind, share=0.33)), guarded=False)
    assert met[0].met[kind] >= 1
    survived(run, ENDS[name])


@pytest.mark.parametrize("name", AMONG)
@pytest.mark.parametrize("kind", TROUBLES)
def test_one_that_does_so_to_every_eighth_while_devices_are_exchanged(name: str, kind: Trouble) -> None:
    run = among(name, lambda run: troubled(run, kind, share=0.125))
    survived(run, ENDS[name])
    assert guarding.guarded(run.lab.client("looking")) == {}


@pytest.mark.parametrize("name", AMONG)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_of_that_together(name: str, seed: int) -> None:
    """An order may get through minutes later, when its claim has long been withdrawn."""
    late = Measure(lately=300.0)
    run = among(name, lambda run: troubled(run, share=0.3), seed=seed, measure=late, guarded=False)
    survived(run, ENDS[name])


@pytest.mark.parametrize("name", AMONG)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_watches_that_break_again_and_again(name: str, seed: int) -> None:
    measure = Measure(news=7.0)
    run = among(name, lambda run: cut_now_and_then(run, every=8.0, lasts=6.0, until=100.0), seed=seed, measure=measure)
    survived(run, ENDS[name])


def _nothing_for_ten_minutes(run: Running, since: float) -> None:
    troubled(run, "silent", since=since, until=since + 600.0)
    for one in watched():
        run.lab.time.after(since, lambda name=one.resource: run.ours.cut(name, 600.0))  # type: ignore[misc]


@pytest.mark.parametrize(("name", "since"), [("two_claims", 20.0), ("many_devices", 33.0), ("first_attach", 21.0)])
def test_an_api_server_that_is_away_for_ten_minutes(name: str, since: float) -> None:
    """Since the first pods run. Nothing is decided on an old view, and nothing had to be begun again by hand."""
    run = among(name, lambda run: _nothing_for_ten_minutes(run, since), more=1200.0)
    survived(run, ENDS[name])
    stale = [at for at, one in run.events(e.Stale)]
    again = [at for at, one in run.events(e.Synced)]
    assert stale and max(again) > max(stale)
    marked = [at for at, one in run.events(e.VictimMarked, e.DetachOrdered)]
    assert not [at for at in marked if min(stale) <= at < max(again)]


@pytest.mark.parametrize("name", [*AMONG, "burst"])
@pytest.mark.parametrize("span", [(0.1, 2.0), (3.0, 40.0), (20.0, 80.0)])
def test_a_log_that_is_away_for_a_while(name: str, span: tuple[float, float]) -> None:
    """No write is begun meanwhile, and what was seen meanwhile is told afterwards. `span`: seconds after the first pod.

    What was decided on the eve is carried out on the morrow: a device that is announced may have been taken since, and what is
    ordered may come for nobody.
    """
    vain: list[list[float]] = []
    writes: list[float] = []
    first, last = (begins(name) + after for after in span)

    def trouble(run: Running) -> None:
        vain.append(log_away(run, (first, last)))
        start = run.lab.scenario.start
        run.ours.requests.before = lambda method, path: (
            writes.append((run.lab.time.now() - start) / SECOND) if method != "GET" else None
        )

    run = among(name, trouble, measure=Measure(news=span[1] - span[0] + 1.0))
    survived(run, replace(ENDS[name], found=frozenset({"beyond need"} if name == "burst" else ())))
    assert vain[0]
    assert not [at for at in writes if vain[0][0] + 0.2 < at < vain[0][-1]]


def test_a_device_that_came_in_time_while_the_log_was_away_is_not_late_because_it_changed_again() -> None:
    """The operator has the device a second after the order, 20 s are allowed, and the log is away from 1 s to 40 s. Every object
    of the device changes again after 30 s. Its claim is served, as it was in time; the log says which view was stale, and
    verifies."""
    first = begins("first_attach")
    policy = policy_for(
        "first_attach",
        schedulers={"default-scheduler": SchedulerPolicy(binding_timeout_seconds=45, attach_budget_seconds=20)},
    )

    def touch(run: Running) -> None:
        client = run.lab.client("admin")
        for resource in ("composableresources", "resourceslices", "composabilityrequests"):
            for one in client.list(resource):
                noted = {"metadata": {"annotations": {"example.com/noted": "again"}}}
                client.patch(resource, one["metadata"]["name"], noted)

    def trouble(run: Running) -> None:
        log_away(run, (first + 1.0, first + 40.0))
        run.lab.time.after(first + 30.0, lambda: touch(run))

    scenario = told_to_us("first_attach")
    with running(scenario, policy, log=Watched(new_log(scenario)), prepare=trouble, measure=Measure(news=40.0)) as run:
        run.lab.run()
        run.lab.run(400.0)
    assert not run.outcomes.failed
    assert len(run.events(e.Stale)) == 1
    survived(run, ENDS["first_attach"])


@pytest.mark.parametrize("skew", [600.0, -600.0])
@pytest.mark.parametrize("name", [*AMONG, "node_limit", "attach_failure", "burst"])
def test_a_clock_that_is_ten_minutes_off(name: str, skew: float) -> None:
    with running(told_to_us(name), skew=skew) as run:
        run.lab.run()
        run.lab.run(400)
    survived(run, ENDS[name])
    assert run.lab.ledger.count("attach", "done") <= ENDS[name].attaches[1]


@pytest.mark.parametrize("at", [0.3, 0.8, 2.0, 4.0, 6.0, 12.0, 30.0, 60.0])
@pytest.mark.parametrize("name", ["two_claims", "many_devices"])
def test_a_process_that_another_one_takes_over_from_while_it_still_runs(name: str, at: float) -> None:
    """It has lost the lease and does not know: its next append is refused, and what it still writes is harmless."""
    with running(told_to_us(name)) as run:
        run.lab.time.after(begins(name) + at, lambda: run.another().start())
        run.lab.run()
        run.lab.run(240)
    first, second = run.instances
    assert isinstance(first.crashed, Fenced)
    assert second.crashed is None
    survived(run, ENDS[name])


# -- the ConfigMap


def configure(run: Running, **data: str | None) -> None:
    run.lab.client("somebody").patch("configmaps", "composable-dra-dds", {"data": data}, "composable-dra")


@pytest.mark.parametrize("at", [0.2, 1.0, 3.0, 6.0])
def test_the_kill_switch_stops_writes_at_once_and_lets_go_on_later(at: float) -> None:
    scenario = told_to_us("two_claims")
    writes: list[int] = []

    def look(method: str, path: str) -> None:
        undoing = "/resourceclaims/dds-hold-" in path or path.endswith("/configmaps/dds-guards")
        if method != "GET" and "/events" not in path and not undoing:
            writes.append(run.lab.time.now())

    with running(scenario) as run:
        run.ours.requests.before = look
        run.lab.run(at)
        configure(run, mode="observe")
        off = run.lab.time.now()
        run.lab.run(30)
        configure(run, mode=None)
        on = run.lab.time.now()
        run.lab.run(300)
    assert not [one for one in writes if off + SECOND // 4 < one < on]
    survived(run, ENDS["two_claims"])


def test_in_mode_attach_nothing_goes_back() -> None:
    with running(told_to_us("many_devices"), policy_for("many_devices", mode="attach")) as run:
        run.lab.run(400)
        assert run.lab.ledger.count("detach", "ordered") == 0
        assert len(run.attached()) == 4
        assert run.judge.findings == []
    run.sound()


def test_in_mode_observe_nothing_is_written_at_all() -> None:
    with running(told_to_us("two_claims"), policy_for("two_claims", mode="observe")) as run:
        run.lab.run(120)
        asked = run.ours.requests.requests
        assert set(asked) <= {"GET", "POST"} and asked["POST"] <= 1, "it asks who it is"
        assert len(run.lab.ledger) == 0
        assert run.events(e.AttachOrdered)
    run.sound()


def test_one_bad_entry_of_the_device_info_leaves_the_others_in_force() -> None:
    """And what was in force stays when the whole is unreadable."""
    with running(told_to_us("two_requests")) as run:
        run.lab.run(0.3)
        found = run.lab.client("somebody").get("configmaps", "composable-dra-dds", "composable-dra")
        info = json.loads(found["data"]["device-info"])
        configure(run, **{"device-info": json.dumps([*info, {"index": "broken"}])})
        run.lab.run(0.5)
        configure(run, **{"device-info": "{{{"})
        run.lab.run(20)
        configure(run, **{"device-info": json.dumps(info)})
        run.lab.run()
        run.lab.run(240)
    refused = [one.field for _, one in run.events(e.Rejected) if isinstance(one, e.Rejected)]
    assert len(refused) == 2
    survived(run, ENDS["two_requests"])


def test_a_node_that_is_cordoned_while_the_scheduler_is_to_hand_over_is_told_at_once() -> None:
    """The scheduler looks at conditions every five seconds, and would wait half a minute here if it heard nothing. The device is
    listed after 11 s: before that, the plugin is too young for a restart."""
    with running(told_to_us("cordoned"), policy_for("cordoned", hand_over="clear")) as run:
        run.lab.run(60)
    run.sound()
    (told,) = run.outcomes.failed["cd"]
    assert told.startswith("NodeUnschedulable: node0001 is cordoned")
    assert run.outcomes.ran == {"cd": "node0000"}
    ((allocated, _), *_), ((failed, _),) = run.events(e.AttachOrdered), run.events(e.FailureSignalled)
    assert failed - allocated < 12 * SECOND


NEVER = """
about: A claim for two models that may not share a node
duration: 15m
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe, not_with: [H100 80G]}
    - {model: H100 80G, device: nvidia-h100-80, product: NVIDIA H100 80GB HBM3}
  fabrics: [{id: 1, devices: {A100 40G: 4, H100 80G: 4}}]
  nodes: [{count: 3, fabric: 1}]
parts: {scaler: false}
steps:
  - {at: 1s, run: {name: both, devices: {nvidia-a100-40: 1, nvidia-h100-80: 1}}}
  - {at: 2m, run: {name: one, devices: {nvidia-a100-40: 1}}}
"""


def test_a_claim_that_no_node_can_serve_goes_round_a_few_times_and_keeps_no_node_from_others() -> None:
    with running(parse(NEVER, "never.yaml"), Policy(mode="detach")) as run:
        run.lab.run()
    run.sound()
    assert run.outcomes.waits["both"] <= 5
    assert run.outcomes.failed["both"][0].startswith("Coexistence: A100 40G and H100 80G may not share a node")
    assert set(run.outcomes.ran) == {"one"}
    assert run.lab.ledger.count("attach", "done") == 1
    assert not run.events(e.CoolDown)


WITHDRAWN = """
about: A claim that is withdrawn while the API server does not answer
duration: 2m
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 2}}]
  nodes: [{count: 1, fabric: 1}]
parts: {scaler: false}
steps:
  - {at: 30s, run: {name: brief, devices: {nvidia-a100-40: 1}}}
  - {at: 40s, withdraw: brief}
"""


def test_an_order_that_is_withdrawn_before_the_api_server_took_it_is_never_written() -> None:
    def silence(run: Running) -> None:
        troubled(run, "silent", since=29, until=50)

    with running(parse(WITHDRAWN, "withdrawn.yaml"), Policy(mode="detach"), prepare=silence) as run:
        run.lab.run()
        requests = run.lab.client("test").list("composabilityrequests")
    run.sound()
    assert run.events(e.AttachOrdered), "it was ordered"
    assert requests == []
    assert run.lab.ledger.count("attach", "ordered") == 0
