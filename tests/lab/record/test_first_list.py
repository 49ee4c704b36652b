"""The first list ends with its own outcome, in whatever order the reflector tells errors and markers."""

import pytest

from dds_adapters.kubernetes.cluster import Refused, Unreachable
from dds_adapters.kubernetes.watch.delta_queue import LOST, SYNCED
from dds_core.errors import DdsError
from dds_lab.record.first_list import FirstList

FORBIDDEN = Refused("nodes", 403, "Forbidden")
NOT_SERVED = DdsError("is not served")
AWAY = Unreachable("does not answer")


def test_what_may_not_be_listed_is_marked_first_and_told_then() -> None:
    """Who is woken by the marker would take the resource for listed."""
    first = FirstList()
    first.marked(LOST)
    assert not first.wait(0)
    assert first.failed(FORBIDDEN)
    assert first.wait(0) and first.error is FORBIDDEN and first.lost


def test_what_is_not_served_is_told_first_and_marked_then() -> None:
    first = FirstList()
    assert first.failed(NOT_SERVED)
    assert not first.wait(0)
    first.marked(LOST)
    assert first.wait(0) and first.error is NOT_SERVED and first.lost


@pytest.mark.parametrize("error", [AWAY, Refused("nodes", 500, "InternalError")])
def test_an_error_of_the_server_ends_it_at_once(error: DdsError) -> None:
    first = FirstList()
    assert first.failed(error)
    assert first.wait(0) and first.error is error and not first.lost


def test_a_list_that_succeeds_after_an_error_has_none() -> None:
    first = FirstList()
    assert first.failed(NOT_SERVED)
    first.marked(SYNCED)
    assert first.wait(0) and first.error is None and not first.lost


def test_what_comes_after_the_list_is_a_trouble_of_the_watch() -> None:
    first = FirstList()
    first.marked(SYNCED)
    assert not first.failed(FORBIDDEN)
    first.marked(LOST)
    assert first.error is None and not first.lost
