"""A live page is told what a report says, piece by piece, and no more is kept of what has ended than was asked for."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from dds_core.events import WriteRefused
from dds_core.model import Claim, FabricResource
from dds_core.scaler.events import ClaimGone, ClaimObserved, DeviceMoved, FabricResourceGone, FabricResourceObserved
from dds_core.scaler.history.live import Live
from dds_core.scaler.timeline import timelines
from dds_core.timeline import Moment, Subject
from tests.core.scaler.history.test_page import Reader, made
from tests.core.scaler.history.told import told

SECOND = 1_000_000


def read(page: Reader, patch: dict[str, Any]) -> Reader:
    return (Reader() if patch.get("anew") else page).take({"states": page.states, **patch})


@pytest.mark.parametrize("name", ["burst", "node_limit", "archived"])
def test_what_a_page_is_told_adds_up_to_the_report_whenever_it_was_opened(name: str) -> None:
    moments = list(told(name))
    live, early, late = Live(moments[0].at, {}), Reader(), Reader()
    live.news()
    early.take(live.whole())
    for number, moment in enumerate(moments):
        live.history.take(moment)
        if number % 10 == 0:
            patch = live.news()
            read(early, patch)
            if number >= len(moments) // 2:
                late = late.take(live.whole()) if not late.states else read(late, patch)
    last = live.news()
    _, whole, report = made(name)
    for page in (read(early, last), read(late, last), Reader().take(live.whole())):
        assert {one["uid"]: one for one in page.claims.values()} == {one["uid"]: one for one in whole.claims.values()}
        devices = {one["uid"]: one for one in map(whole.device, whole.devices)}
        assert {one["uid"]: one for one in map(page.device, page.devices)} == devices
        assert page.alerts == whole.alerts
        assert page.stock[-8:] == whole.stock[-8:] and {one[1] for one in page.stock} == {one[1] for one in whole.stock}
    assert (last["now"], last["since"]) == (report["now"], report["since"])
    assert live.news()["claims"] == live.news()["devices"] == [], "what was told is not told again"


def test_an_account_is_the_one_of_the_report() -> None:
    moments = list(told("burst"))
    live = Live(moments[0].at, {})
    for moment in moments:
        live.history.take(moment)
    live.news()
    _, whole, _ = made("burst")
    for claim in list(live.history.claims.values())[:5]:
        subject = Subject("claim", claim.name, frozenset({claim.uid}))
        patch = live.account(subject, timelines(moments, [subject])[0])
        _, _, head, entries = patch["account"]
        expected_head, expected = whole.accounts["claim", claim.uid]
        assert [patch["strings"][one] for one in head] == expected_head
        assert [entry[0] for entry in entries] == [entry[0] for entry in expected]


def churn(claims: int) -> list[Moment]:
    """Claims that come and go one after the other, each with a device of its own."""
    moments: list[Moment] = []
    position = count(1)
    for number in range(claims):
        claim, resource, at = f"c{number}", f"r{number}", (1 + number) * SECOND
        facts: list[tuple[Any, list[Any]]] = [
            (ClaimObserved(claim, Claim(uid=claim, namespace="default", name=f"train-{number}")), []),
            (
                FabricResourceObserved(
                    resource, FabricResource(uid=resource, name=f"gpu-{number}", model="A100", node="n")
                ),
                [DeviceMoved(resource, "requested", "", "Requested")],
            ),
            (ClaimGone(uid=claim), []),
            (FabricResourceGone(uid=resource), [DeviceMoved(resource, "gone", "Requested", "Gone")]),
        ]
        moments += [Moment(next(position), at, fact, caused) for fact, caused in facts]
    return moments


def test_however_long_it_goes_on_no_more_is_kept() -> None:
    keep = 50
    live, sizes = Live(SECOND, {}, keep), []
    stays = Claim(uid="stays", namespace="default", name="stays")
    live.history.take(Moment(1, SECOND, ClaimObserved("stays", stays), []))
    page = Reader().take({**live.news(), **live.whole()})
    renewed = 0
    for number, moment in enumerate(churn(1_000)):
        live.history.take(moment)
        if number % 8 == 7:
            patch = live.news()
            renewed += bool(patch.get("anew"))
            page = read(page, patch)
            sizes.append((len(page.strings), len(page.claims), len(page.devices), patch["since"]))
    assert renewed > 40
    assert all(claims <= 1 + keep * 5 // 4 + 2 and devices <= keep * 5 // 4 + 2 for _, claims, devices, _ in sizes)
    assert max(strings for strings, *_ in sizes) < 30 + 6 * keep * 5 // 4
    assert [since for *_, since in sizes] == sorted(since for *_, since in sizes) and sizes[-1][3] > 900_000
    assert "stays" in {one["uid"] for one in page.claims.values()}, "it has not ended"
    history = live.history
    assert all(one.ended >= live.since for one in history.claims.values() if one.ended)
    known = vars(history)["_known"]
    assert len(known.gone) <= 5 * keep and len(known.objects) == 1
    for name, held in vars(history).items():
        assert not isinstance(held, dict) or len(held) <= 2 * keep, name


def test_what_lasts_and_is_used_again_and_again_does_not_make_it_grow() -> None:
    """One device that is taken and freed for hours."""
    keep, live = 50, Live(SECOND, {}, 50)
    device = FabricResource(uid="r", name="gpu", model="A100", node="n")
    live.history.take(
        Moment(1, SECOND, FabricResourceObserved("r", device), [DeviceMoved("r", "requested", "", "Attaching")])
    )
    live.history.take(Moment(2, SECOND, None, [DeviceMoved("r", "online", "Attaching", "Idle")]))
    most = 0
    for number in range(1_000):
        move = DeviceMoved("r", "taken", "Idle", "Used") if number % 2 else DeviceMoved("r", "freed", "Used", "Idle")
        live.history.take(Moment(3 + number, (2 + number) * SECOND, None, [move]))
        live.news()
        most = max(most, len(live.history.devices["r"].spans))
    assert most <= keep * 5 // 4 + 5
    (row,) = live.whole()["devices"]
    assert len(row[9]) <= most and live.whole()["since"] > 900_000
    assert row[9][-1][2] is None, "what it is now is told"


def test_only_the_newest_refused_writes_are_kept() -> None:
    keep = 50
    live = Live(SECOND, {}, keep)
    for number in range(1, 500):
        refused = WriteRefused(
            decision="", action="LabelSet", target=f"n{number}", code=403, reason="Forbidden", text="no"
        )
        live.history.take(Moment(number, number * SECOND, refused, []))
        live.news()
    assert keep <= len(live.history.refused) <= keep * 5 // 4
    assert live.history.refused[-1].at == 499 * SECOND and live.since == live.history.refused[0].at - SECOND
