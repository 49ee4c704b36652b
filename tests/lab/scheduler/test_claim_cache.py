"""What the scheduler reads from claims, and when a device counts as in use."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.actors.scheduler.claim_cache import FAILED, READY, TIMED_OUT, WAITING, Book, ClaimCache, readiness
from dds_lab.client import instants

NOW = 1_795_219_200_000_000
WAITS = {"bindingConditions": ["Ready", "Wired"], "bindingFailureConditions": ["Failed"]}


def result(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": "d", "pool": "p", "device": device, **more}


def entry(device: str, *true: str, **more: Any) -> dict[str, Any]:
    conditions = [{"type": one, "status": "True", "reason": f"Because{one}", "message": "m"} for one in true]
    return {"driver": "d", "pool": "p", "device": device, "conditions": conditions, **more}


def claim(
    results: list[dict[str, Any]], entries: list[dict[str, Any]], *, name: str = "c", version: int = 1
) -> dict[str, Any]:
    allocation = {"devices": {"results": results}, "allocationTimestamp": instants.written(NOW)}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "status": {"allocation": allocation, "devices": entries} if results else {}}


@pytest.mark.parametrize(
    ("results", "entries", "state"),
    [
        ([result("a")], [], READY),
        ([result("a", **WAITS)], [], WAITING),
        ([result("a", **WAITS)], [entry("a", "Ready")], WAITING),
        ([result("a", **WAITS)], [entry("a", "Ready", "Wired")], READY),
        ([result("a", **WAITS)], [entry("a", "Ready", "Wired", "Failed")], FAILED),
        ([result("a", **WAITS)], [entry("b", "Failed")], WAITING),
        # the first that is not ready hides what comes after it
        ([result("a", **WAITS), result("b", **WAITS)], [entry("b", "Failed")], WAITING),
        ([result("a", **WAITS), result("b", **WAITS)], [entry("a", "Ready", "Wired"), entry("b", "Failed")], FAILED),
        # a failure of a device that has no binding conditions is nobody's business
        ([result("a"), result("b", **WAITS)], [entry("a", "Failed"), entry("b", "Ready", "Wired")], READY),
        # shares of one device are told apart by nothing: the first entry counts
        (
            [result("a", shareID="1", **WAITS), result("a", shareID="2", **WAITS)],
            [entry("a", "Ready", "Wired", shareID="1"), entry("a", "Failed", shareID="2")],
            READY,
        ),
    ],
)
def test_readiness(results: list[dict[str, Any]], entries: list[dict[str, Any]], state: str) -> None:
    assert readiness(claim(results, entries), NOW + 1_000_000, 30.0).state == state


def test_a_failure_tells_its_reason_and_message() -> None:
    found = readiness(claim([result("a", **WAITS)], [entry("a", "Failed")]), NOW, 30.0)

    assert (found.reason, found.message) == ("BecauseFailed", "m")


def test_a_claim_is_late_when_its_time_from_the_allocation_is_over() -> None:
    waiting = claim([result("a", **WAITS)], [])

    assert readiness(waiting, NOW + 30_000_000, 30.0).state == WAITING
    assert readiness(waiting, NOW + 30_000_001, 30.0).state == TIMED_OUT
    del waiting["status"]["allocation"]["allocationTimestamp"]
    assert readiness(waiting, NOW + 90_000_000, 30.0).state == WAITING


class Used:
    """Which devices count as taken."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.book = Book(self._use, self._free)
        self.claims = ClaimCache(self.book)

    def _use(self, result: dict[str, Any]) -> None:
        self.devices.append(result["device"])

    def _free(self, result: dict[str, Any]) -> None:
        self.devices.remove(result["device"])


def test_a_device_is_in_use_from_the_choice_to_the_clearing() -> None:
    used = Used()
    free, taken = claim([], [], version=1), claim([result("a")], [], version=2)
    used.claims.seen("default/c", free)
    assert used.devices == []

    used.claims.take_off("uid-c", taken["status"]["allocation"])
    assert used.devices == ["a"] and used.claims.in_flight("uid-c")
    used.claims.wrote("default/c", taken)
    used.claims.land("uid-c")
    assert used.devices == ["a"] and not used.claims.in_flight("uid-c")
    used.claims.seen("default/c", taken)
    used.claims.seen("default/c", claim([], [], version=3))
    assert used.devices == []


def test_an_allocation_that_is_given_up_is_free_at_once() -> None:
    used = Used()
    used.claims.take_off("uid-c", claim([result("a")], [])["status"]["allocation"])

    used.claims.land("uid-c")

    assert used.devices == []


def test_what_the_scheduler_wrote_is_not_forgotten_for_an_older_view() -> None:
    used = Used()
    used.claims.seen("default/c", claim([], [], version=1))
    used.claims.wrote("default/c", claim([result("a")], [], version=5))

    used.claims.seen("default/c", claim([], [], version=3))
    assert used.devices == ["a"]
    used.claims.seen("default/c", claim([], [], version=7))

    assert used.devices == []


def test_an_allocation_that_takes_the_place_of_another_is_not_noticed() -> None:
    used = Used()
    used.claims.seen("default/c", claim([result("a")], [], version=1))

    used.claims.seen("default/c", claim([result("b")], [], version=3))
    assert used.claims.get("default/c") == claim([result("b")], [], version=3)
    assert used.devices == ["a"]
    used.claims.seen("default/c", claim([], [], version=4))

    assert used.devices == ["a"], "what goes is b, which nobody entered"


@pytest.mark.parametrize("goes", ["c", "other"])
def test_of_two_claims_with_one_device_the_first_to_go_frees_it(goes: str) -> None:
    used = Used()
    used.claims.seen("default/c", claim([result("a")], []))
    used.claims.seen("default/other", claim([result("a")], [], name="other"))
    assert used.devices == ["a"]

    used.claims.seen(f"default/{goes}", None)
    assert used.devices == []
    used.claims.seen(f"default/{'other' if goes == 'c' else 'c'}", None)
    assert used.devices == []


def test_a_device_in_flight_stays_taken_when_a_claim_with_it_goes() -> None:
    used = Used()
    used.claims.seen("default/c", claim([result("a")], []))
    used.claims.take_off("uid-other", claim([result("a")], [])["status"]["allocation"])

    used.claims.seen("default/c", None)
    assert used.devices == ["a"]
    used.claims.land("uid-other")

    assert used.devices == []


def test_a_claim_of_the_same_name_is_another_one() -> None:
    used = Used()
    used.claims.seen("default/c", claim([result("a")], [], version=1))
    other = claim([result("b")], [], version=2)
    other["metadata"]["uid"] = "uid-other"

    used.claims.seen("default/c", other)
    assert used.devices == ["b"]
    used.claims.seen("default/c", None)
    assert used.devices == []
    assert used.claims.get("default/c") is None
