"""Quantities: exact, and written as the API server writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_core.errors import InputError
from dds_core.matching.quantities import NANO, Quantity, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1Gi", 2**30),
        ("2500Mi", 2500 * 2**20),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1.5k", 1500),
        ("+7", 7),
        ("0", 0),
    ],
)
def test_whole_numbers_are_read_exactly(text: str, value: int) -> None:
    assert parse(text).nanos == value * NANO
    assert parse(text).integer == value


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("100m", 10**8), ("1u", 1000), ("1n", 1), ("0.1n", 1), ("-0.1n", -1), (".5", 5 * 10**8), ("5.", 5 * NANO)],
)
def test_what_is_finer_than_a_nano_is_rounded_away_from_zero(text: str, nanos: int) -> None:
    assert parse(text).nanos == nanos


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1024Mi", "1Gi"),
        ("2500Mi", "2500Mi"),
        ("0.5Gi", "512Mi"),
        ("512", "512"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("1000", "1k"),
        ("10000", "10k"),
        ("0.1", "100m"),
        ("1500m", "1500m"),
        ("1e3", "1e3"),
        ("12e4", "120e3"),
        ("1e-3", "1e-3"),
        ("0Gi", "0"),
        ("-1Gi", "-1Gi"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("2048Ki", "2Mi"),
        ("1E6", "1e6"),
        ("100e3", "100e3"),
        ("1000000", "1M"),
        ("1500", "1500"),
        ("12.340", "12340m"),
        ("1.0", "1"),
        ("+3", "3"),
        ("1Ei", "1Ei"),
    ],
)
def test_the_text_is_canonical(text: str, written: str) -> None:
    assert str(parse(text)) == written


SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E2"])


@given(st.integers(0, 10**12), SUFFIXES, st.sampled_from(["", "-", "+"]))
def test_the_text_has_the_same_value_and_is_its_own(number: int, suffix: str, sign: str) -> None:
    quantity = parse(f"{sign}{number}{suffix}")
    assert parse(str(quantity)).nanos == quantity.nanos and str(parse(str(quantity))) == str(quantity)


@given(st.integers(1, 10**6), st.integers(1, 9), SUFFIXES)
def test_fractions_are_exact_down_to_a_nano(whole: int, tenths: int, suffix: str) -> None:
    fraction = parse(f"{whole}.{tenths}{suffix}")
    assert parse(str(fraction)).nanos == fraction.nanos > parse(f"{whole}{suffix}").nanos


def test_the_largest_is_the_largest_integer() -> None:
    assert parse("100E").nanos == parse("8Ei").nanos == (2**63 - 1) * NANO


def test_a_fraction_counts_as_one_more() -> None:
    assert parse("1500m").integer == 2
    assert parse("-1500m").integer == -2


def test_whole_makes_a_binary_quantity() -> None:
    assert str(Quantity.whole(3 * 2**30)) == "3Gi"
    assert str(Quantity.whole(7)) == "7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "x",
        "1 Gi",
        "1gi",
        "Gi",
        "--1",
        "1e",
        "1ee3",
        "1.2.3",
        "1KiB",
        "e3",
        "0x10",
        "½",
        "9" * 5_000,
        "1e" + "9" * 5_000,
        "١",
    ],
)
def test_what_is_no_quantity_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"is no quantity; write a number with a suffix"):
        parse(text)


def test_absurd_exponents_cost_nothing() -> None:
    assert parse("1e999999999").nanos == (2**63 - 1) * NANO
    assert parse("1e-999999999").nanos == 1
    assert parse("-1e99999").nanos == -(2**63 - 1) * NANO
