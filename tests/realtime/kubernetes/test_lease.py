"""Elections over real HTTP: contenders on threads of their own, requests that never return, servers that are none. What happens
to requests and clocks is shown on invented clocks (tests/adapters/kubernetes/lease, tests/property/runtime/test_lease.py).

Durations are short and the machine may be slow, so that order and exclusion are asserted, and no instants.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer, Cluster
from dds_adapters.kubernetes.lease.elector import Elector, LeaseLost, new_identity, steady
from dds_adapters.kubernetes.lease.state import Phase
from dds_lab.faults.wire import Refuse, Rule
from tests.support.contenders import LASTING, LEASE, NAMES, NAMESPACE, QUICK, arena
from tests.support.http_server import Said, http_server


@pytest.mark.smoke
def test_of_three_one_leads_and_the_others_follow_when_it_stops(tmp_path: Path) -> None:
    with arena(tmp_path) as place:
        for name in NAMES:
            place.contender(name, LASTING)
        place.until(lambda: place.leader() != "")
        order = [place.leader()]
        for _ in range(2):
            first = order[-1]
            assert place.electors[first].remaining() <= LASTING.renew_deadline
            assert place.electors[first].stop()
            assert place.electors[first].remaining() == 0
            before = steady()
            place.until(lambda first=first: place.leader() not in ("", first))  # type: ignore[misc]
            assert steady() - before < LASTING.duration, "released, not run out"
            order.append(place.leader())
        assert sorted(order) == sorted(NAMES)
        assert place.spec()["leaseTransitions"] == 3
        assert place.losses == []
        assert place.told == []


# -- servers that are none --------------------------------------------------------------------------------------------------


class Blocked:
    """A server behind a name that is never resolved: requests neither return nor time out. The first ones still get there."""

    def __init__(self, cluster: Cluster, answered: int) -> None:
        self._cluster = cluster
        self._left = answered
        self.released = threading.Event()

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        if self._left == 0:
            self.released.wait()
        self._left -= 1
        return self._cluster.ask(method, path, **more)


def test_a_request_that_never_returns_does_not_hide_the_loss(tmp_path: Path) -> None:
    with arena(tmp_path) as place:
        blocked = Blocked(Cluster(place.config, "a"), answered=3)
        losses: list[LeaseLost] = []
        elector = Elector(blocked, NAMESPACE, LEASE, "a", QUICK, on_lost=losses.append)
        elector.start()
        assert elector.lead(20)
        place.until(lambda: losses != [])
        assert elector.remaining() == 0
        other = place.contender("b")
        assert other.lead(20)
        blocked.released.set()  # its late renewal gets there now
        time.sleep(3 * QUICK.retry_period)
        assert place.spec()["holderIdentity"] == "b"
        assert (elector.phase, elector.remaining()) == (Phase.LOST, 0)
        assert len(losses) == 1


def test_a_request_that_never_returns_shows_in_who_stands_by(tmp_path: Path) -> None:
    with arena(tmp_path) as place:
        assert place.contender("a", LASTING).lead(20)
        blocked = Blocked(Cluster(place.config, "b"), answered=1)
        waiting = Elector(blocked, NAMESPACE, LEASE, "b", QUICK)
        waiting.start()
        place.until(lambda: waiting.holder == "a")
        assert waiting.overdue() == 0
        place.until(lambda: waiting.overdue() > 0.5)
        assert waiting.phase is Phase.STANDBY
        blocked.released.set()
        place.until(lambda: waiting.overdue() == 0)
        assert waiting.stop()


class Broken:
    """A server of which nothing is known but that it raises."""

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        raise ValueError("two\nlines")


def test_no_exception_ends_an_election(tmp_path: Path) -> None:
    told: list[str] = []
    elector = Elector(Broken(), NAMESPACE, LEASE, "a", QUICK, on_error=told.append)
    elector.start()
    assert not elector.lead(0.5)
    assert told == ["lease default/dds: no answer (ValueError); check network and address of the API server"]
    assert elector.stop()


def test_who_fails_when_it_is_told_of_the_loss_is_told_on(tmp_path: Path) -> None:
    def fails(lost: LeaseLost) -> None:
        raise RuntimeError("no time")

    with arena(tmp_path) as place:
        told: list[str] = []
        elector = Elector(Cluster(place.config, "a"), NAMESPACE, LEASE, "a", QUICK, on_lost=fails, on_error=told.append)
        elector.start()
        assert elector.lead(20)
        place.strike(Rule(Refuse(500)))
        place.until(lambda: any("RuntimeError: no time" in line for line in told))
        assert elector.lost is not None


NO_LEASES = (
    Said(200, b"<html>sign in</html>"),
    Said(200, json.dumps({"kind": "List"}).encode()),
    Said(200, json.dumps({"kind": "Lease", "metadata": {"uid": "u", "resourceVersion": "1"}, "spec": []}).encode()),
    Said(200, b'{"kind":"Lease","metadata":{"uid":"u","resourceVersion":"1"},"spec":{"strategy":"Oldest"}}'),
    Said(302, b"", {"Location": "/"}),
    Said(404, b"nothing here"),
)


def test_what_is_no_lease_is_neither_taken_nor_stormed(tmp_path: Path) -> None:
    """A page, a list, a broken lease, another's lease, elsewhere, nothing."""
    with ExitStack() as stack:
        servers = [stack.enter_context(http_server(lambda asked, said=said: said)) for said in NO_LEASES]  # type: ignore[misc]
        told: list[list[str]] = [[] for _ in servers]
        electors = []
        for n, server in enumerate(servers):
            cluster = Cluster(server.kubeconfig(tmp_path / str(n)))
            electors.append(Elector(cluster, NAMESPACE, LEASE, "a", QUICK, on_error=told[n].append))
            electors[-1].start()
        assert [elector.lead(0.2) for elector in electors] == [False] * len(electors)
        seconds = 0.2 * len(electors)
        for elector, server, lines in zip(electors, servers, told, strict=True):
            asked = len(server.asked)
            assert elector.stop()
            assert len(lines) == 1
            assert "PUT" not in {request.method for request in server.asked}
            assert asked <= seconds / (QUICK.retry_period * 0.8) + 4


def test_identities_are_of_one_process() -> None:
    assert new_identity() != new_identity()
