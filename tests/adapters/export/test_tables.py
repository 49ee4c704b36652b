"""Tables say what the histories say, in CSV that spreadsheets take for text and numbers only."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any

import pytest

from dds_adapters.export import TABLES, Story, csv_table
from dds_core.scaler.history.data import claim_data, device_data
from dds_core.scaler.spending import STATES
from dds_core.timeline.instants import day, rfc3339
from tests.core.scaler.history.told import told

NAMES = ("burst", "node_limit", "two_requests", "fleet-6-scaler")
SECOND = 1_000_000


def story(name: str) -> Story:
    return Story("c", told(name), lambda at, position: True)


def table(name: str, whole: Story) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written(name, whole), newline=""), strict=True))


def written(name: str, whole: Story) -> str:
    file = io.StringIO(newline="")
    csv_table(name, whole, file)
    return file.getvalue()


def as_text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(value)
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_claims_and_devices_have_the_fields_of_the_json_form(name: str) -> None:
    whole = story(name)
    for rows, things in (
        (table("claims", whole), [claim_data(one, whole.now) for one in whole.claims]),
        (table("devices", whole), [device_data(one, whole.history) for one in whole.devices]),
    ):
        assert len(rows) == len(things) > 0
        for row, data in zip(rows, things, strict=True):
            same = row.keys() & data.keys() - {"attempts"}
            assert len(same) >= 9
            assert {key: row[key] for key in same} == {key: as_text(data[key]) for key in same}
            parts = data["stage_seconds"] if "stage_seconds" in data else data["seconds"]
            seconds = {key: row[f"{key}_seconds".replace("-", "_")] for key in parts}
            assert seconds == {key: as_text(one) for key, one in parts.items()}


@pytest.mark.parametrize("name", NAMES)
def test_attempts_and_spans_are_all_there(name: str) -> None:
    whole = story(name)
    attempts = Counter(
        (claim.uid, f"{one.cycle}.{one.number}", rfc3339(one.since), one.outcome, one.reason, one.cause)
        for claim in whole.claims
        for one in claim.attempts
    )
    found = table("attempts", whole)
    keys = ("since", "outcome", "reason", "cause")
    assert attempts == Counter(
        (row["uid"], f"{row['cycle']}.{row['attempt']}", *(row[key] for key in keys)) for row in found
    )
    spans = table("spans", whole)
    for kind, things in (("claim", whole.claims), ("device", whole.devices)):
        expected = Counter(
            (one.uid, span[0], rfc3339(span.since), f"{span.length(whole.now) / SECOND:.6f}")
            for one in things
            for span in one.spans
        )
        rows = [row for row in spans if row["kind"] == kind]
        assert expected == Counter((row["uid"], row["span"], row["since"], row["seconds"]) for row in rows)


def test_use_is_the_time_of_each_device_state() -> None:
    whole = story("burst")
    rows = table("use", whole)
    for state in STATES:
        spent = sum(one.spent(whole.now)[state] for one in whole.devices)
        assert sum(round(float(row[f"{state}_seconds"]) * SECOND) for row in rows) == spent
    assert {row["day"] for row in rows} == {day(whole.now)}
    assert {row["claim"] for row in rows} == {one.name for one in whole.claims if one.used(whole.now)} | {""}


def test_use_counts_from_where_it_is_wanted() -> None:
    moments = list(told("burst"))
    begin = moments[len(moments) // 2].at
    part = Story("c", moments, lambda at, position: at >= begin)
    assert part.since == begin
    expected = sum(
        max(0, (span.until or part.now) - max(span.since, begin))
        for one in part.history.devices.values()
        for span in one.spans
        if span.state == "used"
    )
    assert sum(round(float(row["used_seconds"]) * SECOND) for row in table("use", part)) == expected


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_nothing_has_its_headings(name: str) -> None:
    nothing = Story("c", [], lambda at, position: True)
    assert written(name, nothing) == TABLES[name][0].replace(" ", ",") + "\r\n"


HOSTILE = {
    "=1+1": "'=1+1",
    "+1": "'+1",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t=1",
    "\r=1": "'\r=1",
    "\n=1": "'\n=1",
    "＝1": "'＝1",
    '=HYPERLINK("http://a","b")': '\'=HYPERLINK("http://a","b")',
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "\u202egpu": "\u202egpu",
    "x" * 5000: "x" * 5000,
    'a,"b"\r\n=c;d': 'a,"b"\r\n=c;d',
    "naïve ☃ 💥": "naïve ☃ 💥",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_cell_is_a_formula_and_no_cell_breaks_the_table(name: str) -> None:
    whole = story("first_attach")
    (claim,) = whole.claims
    claim.name = claim.attempts[0].cause = claim.attempts[0].node = name
    claim.pods = [name]
    (row,) = table("claims", whole)
    assert (row["claim"], row["pods"]) == (HOSTILE[name], HOSTILE[name])
    first = table("attempts", whole)[0]
    assert (first["cause"], first["node"]) == (HOSTILE[name], HOSTILE[name])
    for each in TABLES:
        rows = list(csv.reader(io.StringIO(written(each, whole), newline=""), strict=True))
        assert {len(row) for row in rows} == {len(TABLES[each][0].split())}
        assert not [
            cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))
        ]


def test_lines_end_as_rfc_4180_says() -> None:
    whole = story("burst")
    text = written("claims", whole)
    assert text.count("\r\n") == text.count("\n") == len(whole.claims) + 1


def test_what_is_left_out_was_gone_before() -> None:
    moments = list(told("burst"))
    begin = moments[-len(moments) // 4].at
    part = Story("c", moments, lambda at, position: at >= begin)
    gone = {uid for uid, one in part.history.claims.items() if one.gone and one.gone < begin}
    assert gone and gone < part.history.claims.keys()
    assert {row["uid"] for row in table("claims", part)} == part.history.claims.keys() - gone
