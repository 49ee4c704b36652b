"""A log says which code decided; so the fingerprint must change with the rules, and cover all of them."""

from dds_core.fingerprint import FINGERPRINT, RULES
from tests.unit.purity.fingerprint import computed, sources


def test_the_fingerprint_is_that_of_the_rules() -> None:
    now = computed()
    assert now == FINGERPRINT, f'the rules have changed: set FINGERPRINT = "{now}" in dds_core/fingerprint.py'


def test_every_source_that_decides_is_covered() -> None:
    assert sorted(RULES) == sorted(sources()), "RULES in dds_core/fingerprint.py does not name what decides"


def test_the_order_of_the_sources_is_fixed() -> None:
    assert list(RULES) == sorted(RULES)
