"""Which event types the codec takes."""

import pytest

from dds_core.events import Decision
from dds_core.events.base import TYPES, register


def test_a_decision_without_a_mode_is_refused() -> None:
    """docs/architecture.md: what is decided in mode observe is never carried out, so every decision says its mode."""

    class Careless(Decision, frozen=True):
        pass

    with pytest.raises(TypeError, match="Careless has no field mode"):
        register(Careless)
    assert "Careless" not in TYPES
