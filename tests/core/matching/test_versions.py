"""Semantic versions: order as in semver 2.0.0, short forms as Kubernetes' `semver(text, true)` reads them."""

import pytest

from dds_core.errors import InputError
from dds_core.matching.versions import Version, canonical, normalized, order

RISING = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
]


def test_the_order_of_the_specification() -> None:
    texts = [*RISING, "1.0.1", "1.2.0", "1.10.0", "2.0.0-0", "2.0.0"]
    falling = texts[::-1]
    assert sorted(falling, key=order) == texts


def test_build_metadata_counts_for_nothing() -> None:
    assert order("1.2.3+a") == order("1.2.3+b.c")
    assert canonical("1.2.3-rc.1+build") == "1.2.3-rc.1"


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3 ", "1.2.-3"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no semantic version; write three numbers"):
        order(text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("v1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v01.02.03", "1.2.3"),
        ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("00.1", "0.1.0"),
        ("1-rc", "1-rc"),
    ],
)
def test_short_versions_are_made_whole(text: str, whole: str) -> None:
    assert normalized(text) == whole


def test_a_version_is_no_string_attribute() -> None:
    assert type(Version("1.2.3")) is not str
