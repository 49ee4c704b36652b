"""`dds usage`: device-time by what people ask it by, prices and watts, and what nodes of their own would have taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_answers import DATA
from tests.support.commands import dds, fine, log_of, refused

NODE_LIMIT = str(DATA / "recordings" / "node_limit.jsonl.gz")


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log, which is read in a fifth of the time that the recording takes."""
    return log_of(str(DATA / "recordings" / "burst.jsonl.gz"), tmp_path_factory.mktemp("burst"))


@pytest.fixture
def rates(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "price.yaml").write_text('currency: EUR\nA100 40G: 36\n"*": 72\n')
    (tmp_path / "watts.json").write_text('{"A100 40G": {"used": 3600, "idle": 360}, "H100 80G": 100}')
    return ("--price", str(tmp_path / "price.yaml"), "--watts", str(tmp_path / "watts.json"))


def test_use_by_model_with_what_it_cost(rates: tuple[str, ...]) -> None:
    told = json.loads(fine("usage", NODE_LIMIT, "--json", *rates))
    (row,) = told["rows"]
    seconds = row["seconds"]
    assert row["model"] == "A100 40G"
    assert seconds["used"] == pytest.approx(80.2 + 24.2, abs=0.1), "two claims, each with a device of its own"
    assert row["total_seconds"] == pytest.approx(sum(seconds.values()))
    assert row["cost"] == pytest.approx(row["total_seconds"] / 100), "36 an hour are a hundredth a second"
    assert row["kwh"] == pytest.approx((seconds["used"] + (row["total_seconds"] - seconds["used"]) / 10) / 1000)
    long = 106.3  # from the first fact to the last
    assert row["owned_seconds"] == pytest.approx(2 * long, abs=0.1), "each node once used one device"
    assert row["owned_cost"] == pytest.approx(row["owned_seconds"] / 100)
    assert told["most_at_once"] == {"A100 40G": {"fleet": 2, "sum_of_nodes": 2}}
    assert told["currency"] == "EUR"


@pytest.mark.parametrize(
    "by", ["model", "node", "model,node", "fabric", "day", "namespace", "claim", "day,namespace,model"]
)
def test_however_it_is_told_it_is_the_same_time(by: str, burst: str) -> None:
    states = [row["seconds"] for row in json.loads(fine("usage", burst, "--json", "--by", by))["rows"]]
    whole = json.loads(fine("usage", burst, "--json"))["rows"]
    for state in ("used", "idle", "attaching", "detaching", "error"):
        assert sum(one[state] for one in states) == pytest.approx(sum(one["seconds"][state] for one in whole))


def test_only_use_has_a_claim(burst: str) -> None:
    rows = json.loads(fine("usage", burst, "--json", "--by", "claim"))["rows"]
    nobodys = next(row for row in rows if not row["claim"])
    assert nobodys["seconds"]["used"] == 0 < nobodys["seconds"]["idle"]
    assert len(rows) == 41 and all(row["seconds"]["idle"] == 0 for row in rows if row["claim"])
    assert {row["owned_seconds"] for row in rows} == {None}, "nodes own devices, claims do not"


def test_the_table_for_people(rates: tuple[str, ...], burst: str) -> None:
    lines = fine("usage", burst, "--by", "model,node", "--limit", "2", *rates).splitlines()
    assert lines[0].startswith("2026-11-21T02:21:31")
    assert lines[1].split()[:3] == ["MODEL", "NODE", "USED"]
    assert lines[2].split()[:3] == ["H100", "80G", "node0001"] and "EUR" in lines[2]
    assert lines[-3:] == [
        "A100 40G: at most 11 in use at once; nodes with fixed devices would need 12",
        "H100 80G: at most 12 in use at once; nodes with fixed devices would need 12",
        "… and 4 more: --limit 0",
    ]


def test_a_model_without_a_price_has_no_cost(tmp_path: Path, burst: str) -> None:
    (tmp_path / "price.toml").write_text('"H100 80G" = 1\n')
    rows = json.loads(fine("usage", burst, "--json", "--price", str(tmp_path / "price.toml")))["rows"]
    assert {row["model"]: row["cost"] is None for row in rows} == {"A100 40G": True, "H100 80G": False}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A100 40G: two", "'two' of A100 40G is no number of 0 or more"),
        ("A100 40G: -1", "-1 of A100 40G is no number of 0 or more"),
        ("A100 40G: .inf", "inf of A100 40G is no number of 0 or more"),
        ("- 1", "it holds no fields"),
        ("a: [", "it is not well-formed"),
    ],
)
def test_a_price_that_is_none_is_refused(text: str, words: str, tmp_path: Path, burst: str) -> None:
    file = tmp_path / "price.yaml"
    file.write_text(text)
    error = refused("usage", burst, "--price", str(file))
    assert str(file) in error and words in error


def test_half_of_the_watts_is_refused(tmp_path: Path, burst: str) -> None:
    (tmp_path / "watts.yaml").write_text("A100 40G: {used: 3}")
    assert "A100 40G needs used and idle" in refused("usage", burst, "--watts", str(tmp_path / "watts.yaml"))


@pytest.mark.parametrize("by", ["", "colour", "model,,colour", ","])
def test_what_use_is_not_told_by_is_refused(by: str, burst: str) -> None:
    assert "give some of model, node, fabric, day, namespace, claim" in refused("usage", burst, "--by", by)


def test_the_log_of_a_publisher_has_no_use() -> None:
    log = str(DATA / "logs" / "fleet-6-publisher.log.jsonl.gz")
    assert "it is the log of a publisher" in refused("usage", log)


def test_two_halves_are_the_whole(burst: str) -> None:
    whole, first, second = (
        json.loads(fine("usage", burst, "--json", "--by", "node,model", *span))["rows"]
        for span in ((), ("--until", "02:22:30"), ("--since", "02:22:30"))
    )
    for row in whole:
        parts = [
            one
            for half in (first, second)
            for one in half
            if (one["node"], one["model"]) == (row["node"], row["model"])
        ]
        assert sum(one["total_seconds"] for one in parts) == pytest.approx(row["total_seconds"])
    assert "not from a position" in refused("usage", burst, "--since", "17")


def test_a_model_that_is_misspelt_is_told(tmp_path: Path) -> None:
    (tmp_path / "price.yaml").write_text("A100 40 G: 2")
    noted = dds("usage", NODE_LIMIT, "--price", str(tmp_path / "price.yaml")).stderr
    assert "no price for A100 40G" in noted and "price for A100 40 G, of which there is no device" in noted
