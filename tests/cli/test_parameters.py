"""Instants, URLs and policy files as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_commands.parameters import Place, instant, period, policy_read, without_password
from dds_core import read_policy
from dds_core.errors import InputError, PolicyError

DAY = 1_795_219_200_000_000  # 2026-11-21T00:00Z
HOUR = 3_600_000_000
SPAN = (DAY + HOUR, DAY + 3 * HOUR)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-21T02:00:00Z", DAY + 2 * HOUR),
        ("2026-11-21T02:00:00.000001Z", DAY + 2 * HOUR + 1),
        ("2026-11-21T03:00:00+01:00", DAY + 2 * HOUR),
        ("2026-11-21 02:00:00", DAY + 2 * HOUR),
        ("02:00:00", DAY + 2 * HOUR),
        ("2:00:00.5", DAY + 2 * HOUR + 500_000),
        ("02:00:00.000001", DAY + 2 * HOUR + 1),
        ("23:00:00", DAY + 23 * HOUR),
        ("02:00", DAY + 2 * HOUR),
        ("2:30", DAY + 2 * HOUR + HOUR // 2),
        ("2026-11-21T02:00Z", DAY + 2 * HOUR),
        ("2h", DAY + HOUR),
        ("1h30m", DAY + HOUR + HOUR // 2),
        ("90s", DAY + 3 * HOUR - 90_000_000),
        ("0m", DAY + 3 * HOUR),
    ],
)
def test_an_instant_is_rfc_3339_or_a_time_of_the_sources_day(text: str, at: int) -> None:
    assert instant(text, SPAN) == at


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-21", "25:00:00", "25:00", "02", "m", "30m1h", "1.5h", "2026-13-01T00:00:00Z"]
)
def test_what_is_no_instant_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InputError, match=r"write 2026-11-21T02:11:05.761Z, 02:11:05.761 or 02:11"):
        instant(text, SPAN)


def test_a_time_without_a_day_is_refused_where_there_are_several() -> None:
    with pytest.raises(InputError, match=r"give the day too, such as 2026-11-21T02:00:00Z"):
        instant("02:00:00", (SPAN[0], SPAN[1] + 24 * HOUR))
    with pytest.raises(InputError, match=r"give the day too, such as 2026-11-21T02:00Z"):
        instant("02:00", (SPAN[0], SPAN[1] + 24 * HOUR))
    assert instant("26h", (SPAN[0], SPAN[1] + 24 * HOUR)) == SPAN[0], "a duration needs no day"


def test_an_instant_before_everything_is_refused() -> None:
    with pytest.raises(InputError, match=r"begins at 2026-11-21T01:00:00"):
        instant("00:59:59", SPAN)
    with pytest.raises(InputError, match=r"begins at 2026-11-21T01:00:00"):
        instant("3h", SPAN)


@pytest.mark.parametrize(
    ("since", "until", "first", "last"),
    [
        (None, None, Place(), Place()),
        ("30m", "02:45", Place(at=DAY + 2 * HOUR + HOUR // 2), Place(at=DAY + 2 * HOUR + 3 * HOUR // 4)),
        ("7", "9", Place(position=7), Place(position=9)),
        ("7", "02:00", Place(position=7), Place(at=DAY + 2 * HOUR)),
        ("00:00", None, Place(at=DAY), Place()),
        ("5d", None, Place(at=DAY + 3 * HOUR - 5 * 24 * HOUR), Place()),
    ],
)
def test_a_period_begins_and_ends_at_instants_or_positions(
    since: str | None, until: str | None, first: Place, last: Place
) -> None:
    assert period(lambda: SPAN, since, until) == (first, last)


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("02:00", "01:30", "--since 02:00 is after --until 01:30"),
        ("9", "8", "--since 9 is after --until 8"),
        (None, "0", "0 is no position; positions begin with 1"),
        (None, "00:30", "there was nothing yet"),
        ("03:01", None, "nothing has happened since .*03:01:00.*Z: the source ends at .*03:00:00.*Z"),
    ],
)
def test_a_period_that_cannot_be_is_refused(since: str | None, until: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        period(lambda: SPAN, since, until)


def test_positions_need_no_look_at_the_source() -> None:
    def never() -> tuple[int, int]:
        raise AssertionError("the source was read")

    assert period(never, "3", "9") == (Place(position=3), Place(position=9))


def test_no_password_is_shown() -> None:
    assert without_password("postgresql://u:s3:cret@h/d") == "postgresql://u:***@h/d"
    assert without_password("log.db") == "log.db"


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.yaml", "mode: attach\n"), ("p.toml", 'mode = "attach"\n'), ("p.json", '{"mode": "attach"}')],
)
def test_a_policy_is_yaml_toml_or_json(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = policy_read(str(path), read_policy)
    assert found is not None
    assert found.mode == "attach"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.yaml", "mode: [", "not well-formed"),
        ("p.json", "{", "not well-formed"),
        ("p.toml", "mode", "not well-formed"),
        ("p.yaml", "mode: attach\nmode: detach", "mode is there twice"),
        ("p.yaml", "limits:\n  A: {max: 1}\n  A: {max: 2}", "A is there twice"),
        ("p.json", '{"mode": "attach", "mode": "detach"}', "mode is there twice"),
        ("p.yaml", "!!python/object/apply:os.getcwd []", "not well-formed"),
        ("p.yaml", "- mode", "holds no fields"),
        ("p.yaml", "mode: live", "p.yaml:1:7: mode: Input should be 'observe', 'attach' or 'detach'"),
        ("p.json", '{"mode":\n  "live"}', "p.json:2:3: mode: Input should be"),
        ("p.toml", "mode = 'live'", "p.toml: the policy is not valid: mode: Input should be"),
        ("p.yaml", "prewarm: 3\nmode: live", "p.yaml:1:10: prewarm: [^;]+; [^;]+p.yaml:2:7: mode: "),
        ("p.yaml", "limits:\n  A:\n    mxa: 1", r"p.yaml:3:5: limits.A.mxa: is no field here: did you mean max\?"),
        ("p.yaml", "limits:\n  A: {min: 2, max: 1}", "p.yaml:2:6: limits.A: min must not be above max"),
        ("p.yaml", "moode: attach", "moode"),
    ],
)
def test_a_bad_policy_is_refused_in_one_line_with_its_file(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(PolicyError, match=said) as caught:
        policy_read(str(path), read_policy)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_policy_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="No such file"):
        policy_read(str(tmp_path / "none.yaml"), read_policy)
    assert policy_read(None, read_policy) is None
