"""The page's colours differ for everybody, also for people who do not see red, green or blue (simulated after Machado et al.,
2009)."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations, product

import pytest

from dds_adapters.web import page
from dds_core.scaler.history.page import STAGES
from dds_core.scaler.spending import STATES

SIGHTS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
CSS = files(page).joinpath("page.css").read_text()
THEMES = ("light", "dark")
BACK = {"light": "#ffffff", "dark": "#14181d"}
FAR, APART, TEXTURED = 25, 12, 6
"""Distances in CIELAB: two colours beside one another are told apart from about 5 on."""


def declared(name: str) -> str:
    found = re.search(rf"--{name}: ([^;]+);", CSS)
    assert found is not None, f"page.css has no colour for {name}"
    return found[1]


def colour(name: str, theme: str) -> str:
    told = declared(name)
    if other := re.fullmatch(r"var\(--([a-z-]+)\)", told):
        return colour(other[1], theme)
    found = re.fullmatch(r"light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", told)
    assert found is not None, told
    return found[1 + THEMES.index(theme)]


def linear(text: str) -> list[float]:
    parts = [int(text[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def seen(text: str, sight: str) -> tuple[float, float, float]:
    """The colour in CIELAB."""
    light = linear(text)
    red, green, blue = (
        min(1.0, max(0.0, sum(share * one for share, one in zip(row, light, strict=True)))) for row in SIGHTS[sight]
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    f, g, h = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z))
    return 116 * g - 16, 500 * (f - g), 200 * (g - h)


def distance(one: str, other: str, theme: str, sight: str) -> float:
    pairs = zip(seen(colour(one, theme), sight), seen(colour(other, theme), sight), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def luminance(text: str) -> float:
    red, green, blue = linear(text)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("theme", "sight"), list(product(THEMES, SIGHTS)))
def test_they_are_told_apart(theme: str, sight: str) -> None:
    for one, other in combinations(("stage-pool", "stage-hand-over", "stage-retry", "state-idle"), 2):
        assert distance(one, other, theme, sight) >= FAR, (one, other)
    hatched = declared("hatched").split()
    for one, other in combinations(STAGES, 2):
        least = APART if (one in hatched) == (other in hatched) else TEXTURED
        assert distance(f"stage-{one}", f"stage-{other}", theme, sight) >= least, (one, other)
    for one, other in combinations(STATES, 2):
        assert distance(f"state-{one}", f"state-{other}", theme, sight) >= APART, (one, other)
    for one, other in combinations(("accent", "stage-pool", "text"), 2):
        assert distance(one, other, theme, sight) >= APART, "curves of pools"


@pytest.mark.parametrize("theme", THEMES)
def test_they_differ_from_the_page(theme: str) -> None:
    for name in (*(f"stage-{one}" for one in STAGES), *(f"state-{one}" for one in STATES)):
        light, dark = sorted((luminance(colour(name, theme)), luminance(BACK[theme])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, name


def test_chips_are_hatched_as_bars_are() -> None:
    rule = re.search(r"((?:\.stage-[a-z-]+,? )+)\{\s*background-image: repeating-linear", CSS)
    assert rule is not None
    assert re.findall(r"\.stage-([a-z-]+)", rule[1]) == declared("hatched").split()
    for name in (*(f"stage-{one}" for one in STAGES), *(f"state-{one}" for one in STATES)):
        assert re.search(rf"\.{name}[ ,][^{{}}]*\{{ background-color: var\(--", CSS), name
