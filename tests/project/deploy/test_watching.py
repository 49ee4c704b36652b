"""The chart's alerts and dashboard are those of the page, and off unless asked for."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.project.deploy.chart import AUTOSCALES, Values, manifests, of_kind
from tests.project.deploy.watching import COMPONENTS, ROOT, RULES, alerts, panels, selected
from tests.support.promtool import promtool

EVERYTHING: Values = {"publisher": {"enabled": True}, **AUTOSCALES}


def _rule(rules: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    (found,) = of_kind(
        manifests({"metrics": {"rules": {"enabled": True, **(rules or {})}}, **values}), "PrometheusRule"
    )
    return found


def _rules(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def test_the_rules_are_those_of_the_page() -> None:
    by_component = sorted(alerts(), key=lambda one: ("", *COMPONENTS).index(one.component))
    assert _rules(_rule(**EVERYTHING)) == [one.rule() for one in by_component]


def test_every_rule_tells_how_bad_it_is_what_it_means_and_where_to_read_on() -> None:
    base = "https://docs.example/dds/v1"
    for given in (base, f"{base}/"):
        for one in _rules(_rule({"runbookBaseUrl": given}, **EVERYTHING)):
            assert one["labels"]["severity"] in ("critical", "warning")
            told = one["annotations"]
            assert told["runbook_url"] == f"{base}/docs/operations.md#{one['alert'].lower()}"
            summary = told["summary"].partition("{{")[0]
            assert told["description"].startswith(summary) and len(summary) > 10
            assert not any(mark in summary for mark in ".:;")
    assert len({one["annotations"]["summary"] for one in _rules(_rule(**EVERYTHING))}) == len(alerts())


@pytest.mark.parametrize(
    ("component", "some"), [("publisher", "DdsNobodyPublishes"), ("autoscaler", "DdsServersSilent")]
)
def test_nobody_is_called_for_a_component_that_is_not_installed(component: str, some: str) -> None:
    names = {
        rule["alert"] for rule in _rules(_rule(**{key: EVERYTHING[key] for key in EVERYTHING if key != component}))
    }
    assert names == {one.name for one in alerts() if one.component != component}
    assert some in {one.name for one in alerts()} - names


def test_leases_are_those_of_the_release() -> None:
    election = {"enabled": True, "leaseName": "ours"}
    pool = {"enabled": True, "leaseName": "our-pools"}
    text = json.dumps(_rule(leaderElection=election, publisher=pool))
    assert text.count('name=\\"ours\\"') == 2 and text.count('name=\\"our-pools\\"') == 1 and "dds-scaler" not in text
    without = json.dumps(_rule(leaderElection={**election, "enabled": False}))
    assert 'name=\\"dds-scaler\\"' in without, "what dds serve shows without a Lease"


def test_a_selector_finds_them_and_off_is_off() -> None:
    assert _rule({"labels": {"release": "prometheus"}})["metadata"]["labels"]["release"] == "prometheus"
    for values in ({}, {"metrics": {"enabled": False, "rules": {"enabled": True}, "dashboard": {"enabled": True}}}):
        found = manifests(values)
        assert of_kind(found, "PrometheusRule") == []
        assert not any(one["metadata"]["name"].endswith("-dashboard") for one in found)


def test_prometheus_takes_the_file_of_rules_as_it_is() -> None:
    done = subprocess.run(
        [promtool(), "check", "rules", str(ROOT / RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and f"{len(alerts())} rules found" in done.stdout, done.stdout + done.stderr


# -- the dashboard ------------------------------------------------------------------------------------------------------


def _dashboard() -> dict[str, Any]:
    found = of_kind(manifests({"metrics": {"dashboard": {"enabled": True}}}), "ConfigMap")
    (one,) = [one for one in found if one["metadata"]["labels"].get("grafana_dashboard") == "1"]
    told: dict[str, Any] = json.loads(one["data"]["dds.json"])
    return told


def test_the_dashboard_has_a_panel_for_each_row_of_the_page() -> None:
    shown = _dashboard()["panels"]
    queries = [target["expr"] for panel in shown for target in panel["targets"]]
    assert queries == [selected(one.query) for one in panels()]
    for panel, row in zip(shown, panels(), strict=True):
        assert row.title.startswith(panel["title"])
        assert panel["fieldConfig"]["defaults"]["unit"] == (row.unit or "short")
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in shown}
    assert len(places) == len({one["id"] for one in shown}) == len(shown)


def test_whose_metrics_are_shown_is_chosen() -> None:
    told = _dashboard()
    assert [one["name"] for one in told["templating"]["list"]] == ["datasource", "namespace"]
    assert {one["datasource"]["uid"] for one in told["panels"]} == {"${datasource}"}


def test_a_query_is_asked_of_the_chosen_namespace_alone() -> None:
    """Each of its series, with a selector of its own or without; a label that begins like a metric is none."""
    query = 'sum by (dds_claims_of) (rate(dds_claim_stage_seconds_sum{stage="bind"}[1h])) / sum(dds_claims)'
    asked = (
        'sum by (dds_claims_of) (rate(dds_claim_stage_seconds_sum{n="x",stage="bind"}[1h])) / sum(dds_claims{n="x"})'
    )
    assert selected(query, 'n="x"') == asked
