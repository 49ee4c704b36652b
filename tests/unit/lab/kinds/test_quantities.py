"""Quantities keep their value and get one form."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.lab.api.quantities import canonical, parsed


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
    "text", ["", "x", "1x", "1 Gi", "Gi", ".", "1.2.3", "1ki", "1KiB", "e3", "1e", "--1", "0x10", "½"]
)
def test_no_quantities(text: str) -> None:
    assert canonical(text) is None and parsed(text) is None


SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E2"])


@given(st.integers(0, 10**12), SUFFIXES, st.sampled_from(["", "-", "+"]))
def test_the_form_has_the_same_value_and_is_its_own_form(number: int, suffix: str, sign: str) -> None:
    text = f"{sign}{number}{suffix}"
    form = canonical(text)
    assert form is not None
    assert parsed(form) == parsed(text)
    assert canonical(form) == form


@given(st.integers(1, 10**6), st.integers(1, 9), SUFFIXES)
def test_fractions_are_exact_down_to_a_nano(whole: int, tenths: int, suffix: str) -> None:
    text = f"{whole}.{tenths}{suffix}"
    form, value = canonical(text), parsed(text)
    assert form is not None and value is not None
    back = parsed(form)
    assert back is not None and Fraction(0) <= back - value < Fraction(1, 10**9)
