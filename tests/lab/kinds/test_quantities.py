"""Quantities keep their value and get one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_lab.api.names import NANO, canonical, nanos


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1Ki", "1Ki"),
        ("2048Ki", "2Mi"),
        ("1e3", "1e3"),
        ("1E6", "1e6"),
        ("100e3", "100e3"),
        ("64", "64"),
        ("512Gi", "512Gi"),
        ("+3", "3"),
        ("-2", "-2"),
        ("100m", "100m"),
        ("1000000", "1M"),
        ("1500", "1500"),
        ("10n", "10n"),
        ("1u", "1u"),
        ("0.1n", "1n"),
        ("1.0", "1"),
        ("12.340", "12340m"),
        ("1Ei", "1Ei"),
    ],
)
def test_forms(text: str, form: str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1x",
        "1 Gi",
        "Gi",
        ".",
        "1.2.3",
        "1ki",
        "1KiB",
        "e3",
        "1e",
        "--1",
        "0x10",
        "½",
        "٣",
        "9" * 5_000,
        "1e" + "9" * 5_000,
    ],
)
def test_no_quantities(text: str) -> None:
    assert canonical(text) is None and nanos(text) == 0


SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E2"])


@given(st.integers(0, 10**12), SUFFIXES, st.sampled_from(["", "-", "+"]))
def test_the_form_has_the_same_value_and_is_its_own_form(number: int, suffix: str, sign: str) -> None:
    text = f"{sign}{number}{suffix}"
    form = canonical(text)
    assert form is not None
    assert nanos(form) == nanos(text)
    assert canonical(form) == form


@given(st.integers(1, 10**6), st.integers(1, 9), SUFFIXES)
def test_fractions_are_exact_down_to_a_nano(whole: int, tenths: int, suffix: str) -> None:
    text = f"{whole}.{tenths}{suffix}"
    form = canonical(text)
    assert form is not None
    assert nanos(form) == nanos(text) > nanos(f"{whole}{suffix}")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1e999999999", (2**63 - 1) * NANO),
        ("9Ei", (2**63 - 1) * NANO),
        ("1e-999999999", 1),
        ("-1e99999", -(2**63 - 1) * NANO),
    ],
)
def test_what_is_beyond_all_measure_is_the_most_or_the_least(text: str, amount: int) -> None:
    assert nanos(text) == amount
    assert canonical(text) is not None
