"""A log says which code decided; so the fingerprint must change with the rules, with nothing else, and cover all of them."""

import pytest

from dds_core.fingerprint import AUTOSCALER_FINGERPRINT, FINGERPRINT, PUBLISHER_FINGERPRINT
from tests.core.purity.fingerprint import computed, sources, syntax

SOURCE = '''
"""A module."""

LIMIT = 3  # units
"""At most."""


def held(row: str, more: bool = False, text: str | None = None) -> bool:
    """Whether it is."""
    return len(row) > LIMIT


class Held(Fact):
    level: ClassVar[str] = "no long text"

    def words(self) -> str:
        return "no long text"
'''


@pytest.mark.parametrize(
    ("component", "said"),
    [("scaler", FINGERPRINT), ("publisher", PUBLISHER_FINGERPRINT), ("autoscaler", AUTOSCALER_FINGERPRINT)],
    ids=["scaler", "publisher", "autoscaler"],
)
def test_the_fingerprint_is_that_of_the_rules(component: str, said: str) -> None:
    assert computed(component) == said, "the code that decides has changed: run `make fingerprint`"


def test_all_that_decides_is_covered() -> None:
    scaler, publisher = sources("scaler"), sources("publisher")
    assert {"lifecycle.py", "scaler/policy.py", "scaler/rules/orders.py", "scaler/fold/lives.py"} <= scaler
    assert {"events/base.py", "kit/work.py", "scaler/events.py"} <= scaler
    assert {"publisher/describe.py", "publisher/rules/need.py", "publisher/policy.py"} <= publisher
    autoscaler = sources("autoscaler")
    assert {"autoscaler/rules/fitting.py", "autoscaler/policy.py", "matching/allocator.py"} <= autoscaler
    assert not [name for name in scaler | publisher | autoscaler if "timeline" in name or name.startswith("log/")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module.", "Another text."),
        ("At most.", "Never more."),
        ("Whether it is.", "Says so."),
        ("  # units", ""),
        ("(row: str, more", "(\n    row: str,\n    more"),
        ("> LIMIT", "> (LIMIT)"),
        ("no long text", "a text"),
    ],
)
def test_what_is_for_readers_changes_nothing(old: str, new: str) -> None:
    assert old in SOURCE
    assert list(syntax(SOURCE)) == list(syntax(SOURCE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= 3", "= 4"),
        ("= 3", '= "3"'),
        ("> LIMIT", ">= LIMIT"),
        ("= False", "= None"),
        ("= False", "= 0"),
        ("held", "has"),
    ],
)
def test_what_decides_changes_it(old: str, new: str) -> None:
    assert old in SOURCE
    assert list(syntax(SOURCE)) != list(syntax(SOURCE.replace(old, new)))
