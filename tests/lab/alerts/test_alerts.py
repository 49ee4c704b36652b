"""Each alert of docs/metrics.md fires in a run in which it must, from the minute on in which it must, and in none in which it
must not: promtool evaluates it on what scaler and publisher showed of themselves. The dashboard's queries give something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_core.errors import LogUnavailable, PolicyError
from dds_core.scaler import events as e
from dds_core.scaler.rules import claims
from dds_core.scaler.state import Work
from dds_lab.actors.models import NAME, NAMESPACE
from dds_lab.manager.calls import Call, Done, Refused, error
from tests.lab.publisher.test_attaching import pods, steps
from tests.project.deploy.watching import ROOT, RULES, alerts, panels, selected
from tests.support.observed import EVERY, Series, Site, observing
from tests.support.promtool import came, firing, gives, judged, promtool
from tests.support.publishing import change_models, written

CLUSTER = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 5}}
nodes:
  - {count: 3, fabric: 1}
"""
NO_GATE = CLUSTER + "gates: {api: {DRADeviceBindingConditions: false}}\n"
USUAL = steps(*(pods(f"job-{at}", at=at, lasts="60s", on=f"node000{at // 240 % 3}") for at in range(30, 4000, 240)))
"""A pod every four minutes, each on another node than the last: a device is attached for each and goes back."""
HANGS = steps(pods("a", "b", "c", at=30, lasts="60s")) + "\nfaults: {fabric: [{kind: hang}]}"
LONG = steps(pods("long", at=300, lasts="60m"))
NEVER = steps(pods("greedy", at=300, lasts="60m", count=9))
TOO_MANY = steps(pods("first", "second", "third", "fourth", "fifth", "sixth", at=300, lasts="60m"))
AT_ONCE = steps(
    *(pods(*(f"job-{at}-{one}" for one in range(4)), at=at, lasts="60s", on="node0000") for at in (630, 730))
)


# -- what happens ---------------------------------------------------------------------------------------------------------


def nothing(site: Site) -> None: ...


def nothing_to_be_called_for(site: Site) -> None:
    """Troubles that end by themselves before somebody has to know."""
    _another(site, 12, 13)
    _log_away(site, 20.5, 21.2)
    site.at(24, lambda: site.scaler.cut("nodes", 420.0))
    _manager_fails(site, 40, 48)
    _writes_refused(site, 53, 53.6)


def both_are_gone(site: Site) -> None:
    """The scaler has lost its lease before."""
    site.at(5, lambda: setattr(site.scaler, "leads", lambda: 0.0))
    _another(site, 7, 17)


def the_log_is_away(site: Site) -> None:
    _log_away(site, 5, 15)


def a_watch_falls_silent(site: Site) -> None:
    site.at(5, lambda: site.scaler.cut("nodes", 900.0))


def objects_are_wrong(site: Site) -> None:
    admin = site.lab.client("admin")
    site.at(10, lambda: change_models(site.lab, lambda entries: entries.append({"index": "second"})))
    site.at(15, lambda: admin.delete("configmaps", NAME, NAMESPACE))


def no_write_is_permitted(site: Site) -> None:
    _writes_refused(site, 5, 40)


def the_manager_fails(site: Site) -> None:
    _manager_fails(site, 5, 25)


def a_pool_is_closed(site: Site) -> None:
    """By hand; a scaler would open it again."""
    site.at(5, site.scaler.kill)
    admin = site.lab.client("admin")
    closed = {"metadata": {"labels": {"cohdi.io/nvidia-a100-cooling": "true"}}}
    site.at(5, lambda: admin.patch("nodes", "node0002", closed))


def a_device_goes_under_a_pod(site: Site) -> None:
    admin = site.lab.client("admin")

    def detach() -> None:
        (found,) = admin.list("composableresources")
        admin.delete("composableresources", found["metadata"]["name"])

    site.at(10, detach)


def a_rule_is_wrong(site: Site) -> None:
    """A fault of ours promises a device that is promised already to every claim that waits."""
    right = claims.step

    def wrong(work: Work, uid: str) -> None:
        right(work, uid)
        life, promised = work.state.lifecycle.lives.get(uid), work.state.hand_over.reservations.rows
        if life is None or life.state not in ("Attaching", "Attached") or uid in promised:
            return
        for one in list(promised.values()):
            work.emit(e.Reserved(uid, "detach", one.node, life.cycle, life.attempt, one.promises))

    site.at(10, lambda: setattr(claims, "step", wrong))
    site.ends.callback(setattr, claims, "step", right)


def a_number_cannot_be_read(site: Site) -> None:
    def fails() -> dict[str, float]:
        raise RuntimeError("dictionary changed size during iteration")

    site.at(10, lambda: setattr(site.scaler.arrivals, "ages", fails))


def a_policy_is_broken(site: Site) -> None:
    error = PolicyError("mode: is attack", where="policy.json:1:10", fix="correct the file")
    site.at(10, lambda: site.scaler.controller.reject_policy(error))


def _another(site: Site, since: float, until: float) -> None:
    """Both processes end, and others come."""
    for minute, what in (
        (since, lambda: site.scaler.kill()),
        (since, lambda: site.publisher.kill()),
        (until, site.start_scaler),
        (until, site.start_publisher),
    ):
        site.at(minute, what)


def _log_away(site: Site, since: float, until: float) -> None:
    def away() -> None:
        raise LogUnavailable("no answer", where="lab", fix="wait")

    site.at(since, lambda: setattr(site.log, "before", away))
    site.at(until, lambda: setattr(site.log, "before", lambda: None))


def _manager_fails(site: Site, since: float, until: float) -> None:
    ask = site.manager.ask

    def fails(call: Call, done: Done) -> None:
        done(error(Refused(500, "E99500", "it fails")))

    site.at(since, lambda: setattr(site.manager, "ask", fails))
    site.at(until, lambda: setattr(site.manager, "ask", ask))


FORBIDDEN = b'{"kind":"Status","status":"Failure","reason":"Forbidden","message":"no","code":403}'


def _writes_refused(site: Site, since: float, until: float) -> None:
    def begin() -> None:
        requests = site.scaler.requests
        ask = requests.ask

        def refused(method: str, path: str, **more: Any) -> Answer:
            return ask(method, path, **more) if method == "GET" else Answer(403, FORBIDDEN)

        requests.ask = refused  # type: ignore[method-assign]
        site.at(until - since, lambda: setattr(requests, "ask", ask))

    site.at(since, begin)


# -- the runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Run:
    """So many minutes in which something happens. Of the alerts that fire in it: the minute in which each begins to. No other one
    does. `nearly` are those that would have, had it lasted. `shows` are panels of the dashboard, and a minute in which they give
    something."""

    happens: Callable[[Site], object]
    minutes: int
    fires: Mapping[str, int] = field(default_factory=dict)
    nearly: frozenset[str] = frozenset()
    shows: Mapping[str, int] = field(default_factory=dict)
    story: str = USUAL
    cluster: str = CLUSTER
    scaler: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.happens.__name__}, {', '.join(self.fires)}"

    def series(self) -> Series:
        """What was scraped of it."""
        with observing(written(self.cluster, self.story, "90m"), **self.scaler) as site:
            self.happens(site)
            site.lab.run(self.minutes * 60)
        return {ASKED: f"0+6x{self.minutes}", **site.series()}


ASKED = 'dds_autoscaler_rpcs_total{method="Refresh",code="OK",job="dds-autoscaler",instance="dds-autoscaler-0"}'
"""The labs have no autoscaler; its alerts are tried on series alone."""
SHORT = {
    "DdsNobodyDecides", "DdsNobodyPublishes", "DdsLogUnavailable", "DdsLogSlow", "DdsNotSynced", "DdsWatchSilent",
    "DdsWritesRefused", "DdsClaimsWait", "DdsFabricSilent", "DdsFabricAnswersOld", "DdsClusterAutoscalerSilent",
}  # fmt: skip
REFUSALS, ALERTS, SHORTAGE = SELDOM = "Writes refused for good", "Alerts by reason", "Which models run out?"
"""Panels that are empty where all is well."""
QUERIES = {one.title: one.query for one in panels()}
OFTEN = dict.fromkeys(QUERIES.keys() - set(SELDOM), 62) | {"Devices by state": 61, "Idle devices": 30}
RUNS = (
    Run(nothing_to_be_called_for, 62, nearly=frozenset(SHORT), shows=OFTEN),
    Run(
        no_write_is_permitted, 25, {"DdsAlerted": 6, "DdsClaimFailed": 11, "DdsWritesRefused": 21}, shows={REFUSALS: 20}
    ),
    Run(both_are_gone, 20, {"DdsNobodyDecides": 7, "DdsNobodyPublishes": 9, "DdsClaimFailed": 18}),
    Run(the_log_is_away, 20, {"DdsLogUnavailable": 7, "DdsLogSlow": 11, "DdsClaimFailed": 16}),
    Run(nothing, 10, {"DdsNotSynced": 5}, scaler={"groups": ()}),
    Run(a_watch_falls_silent, 17, {"DdsWatchSilent": 15}),
    Run(a_device_goes_under_a_pod, 17, {"DdsWrongDevice": 11, "DdsAlerted": 16}, story=LONG),
    Run(
        a_rule_is_wrong,
        15,
        {"DdsAlerted": 11, "DdsInvariantBroken": 11},
        shows={ALERTS: 12, SHORTAGE: 12},
        story=AT_ONCE,
    ),
    Run(objects_are_wrong, 20, {"DdsObjectRejected": 11, "DdsAlerted": 16}),
    Run(
        nothing, 40, {"DdsClaimFailed": 3, "DdsAlerted": 6, "DdsPoolClosed": 33, "DdsNothingAttaches": 31}, story=HANGS
    ),
    Run(the_manager_fails, 20, {"DdsFabricAnswersOld": 15, "DdsFabricSilent": 16}),
    Run(nothing, 10, {"DdsBindingConditionsDropped": 6}, cluster=NO_GATE),
    Run(a_pool_is_closed, 40, {"DdsNobodyDecides": 7, "DdsPoolClosed": 37}),
    Run(nothing, 25, {"DdsClaimsWait": 21}, story=NEVER),
    Run(nothing, 40, story=TOO_MANY),
    Run(a_number_cannot_be_read, 15, {"DdsMetricsUntrue": 11}),
    Run(a_policy_is_broken, 15, {"DdsPolicyInvalid": 12}),
)
"""In the fabric that hangs no claim stays in Attaching, its pool opens again and again, and orders are
made in minutes 1 and 13."""


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_alerts_fire_when_they_must_and_no_others_do(run: Run, tmp_path: Path) -> None:
    expected = [came("firing", run.minutes, run.fires)]
    for minute in set(run.fires.values()):
        expected.append(came("firing", minute - 1, [name for name, begin in run.fires.items() if begin < minute]))
        expected.append(firing(minute, [name for name, begin in run.fires.items() if begin == minute]))
    if run.nearly:
        expected.append(came("pending", run.minutes, run.nearly))
    for title, minute in run.shows.items():
        query = selected(QUERIES[title], 'namespace=~"composable-.*"')
        expected.append(gives(f"count({query}) > bool 0", minute, {}))
    promtool()
    assert judged(tmp_path, ROOT / RULES, EVERY, run.series(), expected) == ""


def test_every_alert_fires_in_a_run_and_every_panel_gives_something() -> None:
    fire = {name for run in RUNS for name in run.fires} | AUTOSCALER.keys()
    assert fire == {one.name for one in alerts()}
    assert {title for run in RUNS for title in run.shows} == set(QUERIES)


PROVIDER = 'dds_autoscaler_servers_answer_age_seconds{job="dds-autoscaler",instance="dds-autoscaler-0"}'
FAILURES = (
    'dds_autoscaler_decisions_total{type="OrderFailed",mode="attach",job="dds-autoscaler",instance="dds-autoscaler-0"}'
)
AUTOSCALER: Mapping[str, tuple[Series, int]] = {
    "DdsServerFailed": ({ASKED: "0+6x60", FAILURES: "_x9 1x50"}, 9),
    "DdsServersSilent": ({ASKED: "0+6x60", PROVIDER: "3x10 60+60x50"}, 21),
    "DdsClusterAutoscalerSilent": ({ASKED: "0+6x20 120x40"}, 35),
}
"""Of each alert of the autoscaler: series on which it fires, and the minute in which it begins to."""


@pytest.mark.parametrize("name", AUTOSCALER)
def test_alerts_of_the_autoscaler_fire_when_they_must(name: str, tmp_path: Path) -> None:
    series, minute = AUTOSCALER[name]
    scaler = {f'leader_election_master_status{{name="dds-{one}"}}': "1x60" for one in ("scaler", "publisher")}
    expected = [came("firing", minute - 1, []), firing(minute, [name]), came("firing", 60, [name])]
    promtool()
    assert judged(tmp_path, ROOT / RULES, EVERY, {**scaler, **series}, expected) == ""


COUNTED = {
    "DdsWrongDevice": 'dds_alerts_total{reason="DetachedInUse"',
    "DdsAlerted": 'dds_alerts_total{reason="NoNode"',
    "DdsInvariantBroken": 'dds_invariants_broken_total{invariant="I1"',
    "DdsWritesRefused": 'dds_write_refusals_total{action="Order",code="403"',
    "DdsObjectRejected": 'dds_rejected_total{resource="pods",reason="odd"',
    "DdsClaimFailed": 'dds_decisions_total{type="ClaimFailed",mode="detach"',
}
"""The series of each alert about a counter."""
POD = 'job="dds",instance="dds-0",namespace="composable-dra"}'
UP, GAP = "1x270", "1x179 stale _x19 1x70"
"""In minutes from 0 on: a target that answers, and one that does not from 180 to 200."""


@pytest.mark.parametrize(
    ("target", "values", "news"),
    [
        (GAP, "_x29 1x149 stale _x19 1x70", {31: True, 140: False, 201: False, 210: False, 245: False}),
        (GAP, "_x29 1x149 stale _x19 2x70", {140: False, 201: True}),
        (GAP, "_x199 1x70", {201: True}),
        (UP, "_x29 1x10 stale _x159 1x70", {31: True, 140: False, 201: True}),
    ],
    ids=["no event in a gap", "another event in a gap", "the first event in a gap", "a new process in the same pod"],
)
@pytest.mark.parametrize("name", COUNTED)
def test_a_gap_in_the_scrapes_is_no_news_and_an_event_is(
    name: str, target: str, values: str, news: Mapping[int, bool], tmp_path: Path
) -> None:
    (rule,) = [one for one in alerts() if one.name == name]
    series = {f"{COUNTED[name]},{POD}": values, f"dds_build_info{{{POD}": target}
    expected = [gives(f"count({rule.expr}) > bool 0", minute, *[{}] * fires) for minute, fires in news.items()]
    promtool()
    assert judged(tmp_path, ROOT / RULES, EVERY, series, expected) == ""


def test_a_call_says_which_series_it_is_about(tmp_path: Path) -> None:
    (rule,) = [one for one in alerts() if one.name == "DdsWritesRefused"]
    labels = {"action": "Order", "code": "403", "instance": "dds-0", "job": "dds", "namespace": "composable-dra"}
    told = " ".join(f"{name}={value}" for name, value in labels.items())
    annotations = {
        "summary": "The API server refuses a write for good, Order, 403",
        "description": f"{rule.words} ( {told} )",
        "runbook_url": rule.anchor,
    }
    alert = {"exp_labels": {**labels, "severity": "warning"}, "exp_annotations": annotations}
    called = [{"alertname": rule.name, "eval_time": "30m", "exp_alerts": [alert]}]
    series = {f"{COUNTED[rule.name]},{POD}": "1+1x40"}
    promtool()
    assert judged(tmp_path, ROOT / RULES, EVERY, series, [], called) == ""
