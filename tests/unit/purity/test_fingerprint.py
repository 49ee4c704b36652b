"""A log says which code decided; so the fingerprint must change with the rules, and cover all of them."""

import pytest

from dds_core.fingerprint import FINGERPRINT, PUBLISHER_FINGERPRINT
from tests.unit.purity.fingerprint import COVERED, computed, sources


@pytest.mark.parametrize(
    ("component", "name", "said"),
    [("scaler", "FINGERPRINT", FINGERPRINT), ("publisher", "PUBLISHER_FINGERPRINT", PUBLISHER_FINGERPRINT)],
)
def test_the_fingerprint_is_that_of_the_rules(component: str, name: str, said: str) -> None:
    now = computed(component)
    assert now == said, f'the rules have changed: set {name} = "{now}" in dds_core/fingerprint.py'


@pytest.mark.parametrize("component", COVERED)
def test_every_source_that_decides_is_covered(component: str) -> None:
    assert sorted(COVERED[component]) == sorted(sources(component)), (
        "the sources named in dds_core/fingerprint.py are not those that decide"
    )


@pytest.mark.parametrize("component", COVERED)
def test_the_order_of_the_sources_is_fixed(component: str) -> None:
    assert list(COVERED[component]) == sorted(COVERED[component])
