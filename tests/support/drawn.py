"""How many examples hypothesis draws: few with its profile `small` (`make test`), many with `large` (`make test-all`) and `anew`
(`make soak`), which alone draws others each time."""

from hypothesis import settings

LARGE = settings.get_current_profile_name() != "small"


def examples(small: int, large: int) -> settings:
    """As a decorator: so many examples, and all else as the profile says (tests/conftest.py)."""
    return settings(max_examples=large if LARGE else small)
