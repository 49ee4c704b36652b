"""A page is given all that the history says, and a live page by patches the same as a report at once."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core.events import Alerted
from dds_core.model import Claim
from dds_core.scaler.events import ClaimObserved
from dds_core.scaler.history import BOUND, History
from dds_core.scaler.history import page as pages
from dds_core.scaler.history.data import claim_data, device_data
from dds_core.scaler.history.incident import Incident, devices_since, ranked
from dds_core.scaler.history.overview import Tile, overview
from dds_core.scaler.history.page import STAGES, Page, lives, report, subjects
from dds_core.scaler.timeline import timelines
from dds_core.timeline import Entry, Moment
from dds_core.timeline.instants import micros, moment_of
from tests.core.scaler.history.told import LOGS, told


class Reader:
    """Takes patches in as a page does."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.claims: dict[int, Any] = {}
        self.devices: dict[int, Any] = {}
        self.alerts: list[Any] = []
        self.stock: list[Any] = []
        self.accounts: dict[tuple[str, str], Any] = {}
        self.states: list[str] = []

    def take(self, patch: dict[str, Any]) -> Reader:
        self.strings += patch["strings"]
        self.states = patch.get("states", self.states)
        for row in patch["claims"]:
            self.claims[row[0]] = self._claim(row)
        for row in patch["devices"]:
            self.devices[row[0]] = row
        self.stock += [[at, self.strings[pool], free] for at, pool, free in patch["stock"]]
        self.alerts += [[at, *map(self.strings.__getitem__, texts)] for at, *texts in patch["alerts"]]
        for kind, about, head, entries in patch["accounts"]:
            what = self.claims[about]["uid"] if self.strings[kind] == "claim" else self.strings[about]
            self.accounts[self.strings[kind], what] = ([self.strings[one] for one in head], entries)
        return self

    def _claim(self, row: list[Any]) -> dict[str, Any]:
        _, uid, name, pods, outcome, cause, first, gone, spans, attempts = row
        text = self.strings.__getitem__
        return {
            "uid": text(uid),
            "claim": text(name),
            "pods": [text(pod) for pod in pods],
            "outcome": text(outcome),
            "cause": text(cause),
            "first": first,
            "gone": gone,
            "spans": [
                {"stage": STAGES[spans[n]], "since": spans[n + 1], "until": spans[n + 2], "node": text(spans[n + 3])}
                for n in range(0, len(spans), 4)
            ],
            "attempts": [
                {
                    "since": since,
                    "until": until,
                    "node": text(node),
                    "outcome": text(ended),
                    "reason": text(reason),
                    "cause": text(why),
                    "models": [text(model) for model in models],
                }
                for since, until, node, ended, reason, why, models in attempts
            ],
        }

    def device(self, number: int) -> dict[str, Any]:
        _, uid, name, resource, node, model, fabric, first, gone, spans = self.devices[number]
        return {
            **dict(
                zip(("uid", "device", "resource"), map(self.strings.__getitem__, (uid, name, resource)), strict=True)
            ),
            **dict(zip(("node", "model", "fabric"), map(self.strings.__getitem__, (node, model, fabric)), strict=True)),
            "first": first,
            "gone": gone,
            "spans": [
                {"state": self.states[s], "since": a, "until": b, "claims": [self.claims[c]["uid"] for c in held]}
                for s, a, b, held in spans
            ],
        }


def in_milliseconds(value: Any, first: int) -> Any:
    """Plain data with each instant as a page counts."""
    if isinstance(value, dict):
        return {key: in_milliseconds(one, first) for key, one in value.items()}
    if isinstance(value, list):
        return [in_milliseconds(one, first) for one in value]
    if isinstance(value, str) and value.endswith("Z") and value[10:11] == "T":
        return (micros(moment_of(0).fromisoformat(value)) - first) // 1000
    return value


def same(found: dict[str, Any], data: dict[str, Any], first: int) -> None:
    expected = in_milliseconds(data, first)
    for key in found:
        if key == "attempts":
            assert found[key] == [{field: one[field] for field in found[key][0]} for one in expected[key]]
        else:
            assert found[key] == expected[key], key


def made(name: str, since: int = 0) -> tuple[History, Reader, dict[str, Any]]:
    moments = list(told(name))
    history = History().read(moments)
    about = subjects(history, since)
    patch = report(history, about, timelines(moments, about), {"log": name}, since)
    return history, Reader().take(patch), patch


@pytest.mark.parametrize("name", ["node_limit", "many_devices", "shares", "attach_failure", *LOGS])
def test_a_page_says_what_the_history_says(name: str) -> None:
    history, page, patch = made(name)
    assert patch["start"] == history.first // 1000
    assert [page.claims[n]["uid"] for n in sorted(page.claims)] == [one.uid for one in ranked(history)]
    for claim in page.claims.values():
        same(claim, claim_data(history.claims[claim["uid"]], history.now), history.first)
    assert len(page.devices) == len(history.devices) and len(page.claims) == len(history.claims)
    for number in page.devices:
        device = page.device(number)
        same(device, device_data(history.devices[device["uid"]], history), history.first)
    assert {key for kind, key in page.accounts if kind == "claim"} == set(history.claims)
    assert {key for kind, key in page.accounts if kind == "device"} == {one.name for one in history.devices.values()}
    assert patch["untold"] == 0


def test_patches_add_up_to_the_whole() -> None:
    moments = list(told("burst"))
    history, reader, page = History(), Reader(), Page(moments[0].at)
    reader.take({**page.beginning({}), **page.patch(history, (), ())})
    for start in range(0, len(moments), 100):
        history.read(moments[start : start + 100])
        patch = page.patch(history, history.claims.values(), history.devices.values())
        assert start == 0 or len(patch["strings"]) < 400, "what was told is not told again"
        reader.take(patch)
    _, whole, _ = made("burst")
    by_uid = {one["uid"]: one for one in whole.claims.values()}
    assert {one["uid"]: one for one in reader.claims.values()} == by_uid
    devices = {one["uid"]: one for one in map(whole.device, whole.devices)}
    assert {one["uid"]: one for one in map(reader.device, reader.devices)} == devices


def test_alerts_are_told_once_each_and_by_name() -> None:
    claim = Claim(uid="c1", namespace="default", name="train")
    alert = Alerted("c1", "NoProgress", "nothing has come", "attach")
    again = Alerted("c1", "NoProgress", "nothing has come", "attach", reissued=True)
    history = History().read(
        [Moment(1, 1_000_000, ClaimObserved("c1", claim), [alert]), Moment(3, 5_000_000, None, [again])]
    )
    page = Reader().take(report(history, (), (), {}))
    assert page.alerts == [[0, "default/train", "NoProgress", "nothing has come"]]
    assert overview(history).tiles[-1] == Tile("alerts", "1", "1 × NoProgress", bad=True)
    assert Incident(history).sections()["alerts"] == ["1 × NoProgress: default/train: nothing has come"]


def test_what_ended_before_is_left_out() -> None:
    history, _, _ = made("burst")
    since = sorted(one.spans[-1].until for one in history.claims.values())[20]
    _, page, patch = made("burst", since)
    kept = {one["uid"] for one in page.claims.values()}
    assert kept == {one.uid for one in ranked(history, since)} and 0 < len(kept) < 40
    assert overview(history, since).tiles[0][:2] == ("claims", str(len(kept)))
    assert all(entry[0] >= patch["since"] > 0 for _, entries in page.accounts.values() for entry in entries)
    assert devices_since(history, history.now + 1) == []
    assert overview(history, history.now + 1).tiles == [
        Tile("claims", "0", "none was seen"),
        Tile("devices", "0", "none attached"),
        Tile("alerts", "0"),
    ]


def test_of_much_the_worst_is_told_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, number in (("_SUBJECTS", 8), ("_CLAIMS", 2), ("_AROUND", 1)):
        monkeypatch.setattr(pages, limit, number)
    history, page, patch = made("node_limit")
    worst = ranked(history)
    assert worst[0].outcome != BOUND, "it waited longest, and was not served"
    assert [key for _, key in page.accounts][:2] == [one.uid for one in worst[:2]]
    assert [kind for kind, _ in page.accounts] == ["claim", "claim", "device", "node"]
    assert patch["untold"] == 3 + 4 + 2 - 4
    monkeypatch.setattr(pages, "_LINES", 1)
    about = subjects(history)
    many = [[Entry(history.now, 1, "claim")] * 2 for _ in about]
    assert report(history, about, many, {})["accounts"] == []


def test_timelines_of_a_long_log_are_told_while_their_claims_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = list(told("burst"))
    history = History().read(moments)
    about = subjects(history)
    assert lives(history, about) is None
    monkeypatch.setattr(pages, "_CLAIMS", 10)
    found = lives(history, about)
    assert found is not None and found[0][0] == history.claims[min(about[0].uids)].first
    for alone, within in zip(timelines(moments, about), timelines(moments, about, found), strict=True):
        assert [one for one in alone if one.trigger] == [one for one in within if one.trigger]
