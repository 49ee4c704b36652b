"""However a server fails, a resource costs it at most ten requests in ten seconds.

All ways to fail at once, each with a server of its own, with the waits that are used in earnest, and with dice that always fall
for no wait at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from dds_adapters.kubernetes import cluster as cluster_module
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.watch.delta_queue import DeltaQueue
from dds_adapters.kubernetes.watch.reflector import Reflector, stop_all
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, WatchSpec
from dds_core.errors import DdsError
from dds_lab.faults.wire import Action, Cut, Expire, Lost, Refuse, Rule, Slow
from dds_lab.latency import Fixed
from tests.support.http_server import Asked, HttpServer, Said, http_server
from tests.support.reflected import World, lab

CEILING, WINDOW = 10, 10.0
LIST = json.dumps({"metadata": {"resourceVersion": "5"}, "items": []}).encode()
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}\n'


def page_without_end(asked: Asked) -> Said:
    return Said(200, json.dumps({"metadata": {"resourceVersion": "5", "continue": "on"}, "items": []}).encode())


def watched_as(said: Said) -> Callable[[Asked], Said]:
    """A server whose lists are fine and whose watches are not."""
    return lambda asked: said if "watch=true" in asked.path else Said(200, LIST)


def error(code: int, **more: object) -> Said:
    status = {"kind": "Status", "code": code, "reason": "Because", **more}
    return Said(200, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n", closed=True)


SCRIPTED: dict[str, Callable[[Asked], Said]] = {
    **{f"always {code}": lambda _, code=code: Said(code) for code in (400, 401, 403, 404, 410, 418, 500, 502, 504)},  # type: ignore[misc]
    "429, ask at once": lambda _: Said(429, b"{}", {"Retry-After": "0"}),
    "redirected": lambda _: Said(302, b"", {"Location": "/"}),
    "no JSON": lambda _: Said(200, b"<html>"),
    "a list without end": page_without_end,
    "a list without a version": lambda _: Said(200, b'{"items": []}'),
    "watch: 403": watched_as(Said(403)),
    "watch: 404": watched_as(Said(404)),
    "watch: 410": watched_as(Said(410)),
    "watch: 429": watched_as(Said(429)),
    "watch: 500": watched_as(Said(500)),
    "watch: ends at once": watched_as(Said(200, b"", closed=True)),
    "watch: a bookmark and its end": watched_as(Said(200, BOOKMARK, closed=True)),
    "watch: no JSON": watched_as(Said(200, b"<html>\n", closed=True)),
    "watch: ERROR 410": watched_as(error(410)),
    "watch: ERROR 500": watched_as(error(500)),
    "watch: ERROR 429": watched_as(error(429, details={"retryAfterSeconds": 0})),
    "watch: ERROR of no kind": watched_as(Said(200, b'{"type":"ERROR","object":[]}\n', closed=True)),
}
WIRE: dict[str, Action] = {
    "lab: 409": Refuse(409),
    "lab: 429": Refuse(429, 0),
    "lab: 500": Refuse(500),
    "lab: 503": Refuse(503),
    "lab: 410": Expire(),
    "lab: lost answers": Lost(),
    "lab: cut": Cut(Fixed(0.0)),
}


class Impatient(Random):
    """The lowest that can be drawn."""

    def uniform(self, a: float, b: float) -> float:
        return a


class Counted:
    """A cluster's reflector for devicetaintrules (two versions to try), and what it sent, when."""

    def __init__(self, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
        self.times: list[float] = []
        self.troubles: list[DdsError] = []
        rules = WatchSpec("devicetaintrules", VERSIONS["devicetaintrules"])
        note = lambda _, trouble: self.troubles.append(trouble)  # noqa: E731
        self.reflector = Reflector(rules, cluster, DeltaQueue(), note, random=Impatient(1))
        sent = cluster._sent

        def counting(*given: object) -> object:
            self.times.append(time.monotonic())
            return sent(*given)  # type: ignore[arg-type]

        patch.setattr(cluster, "_sent", counting)

    @property
    def most(self) -> int:
        """The most requests in any window."""
        return max((sum(at - WINDOW < one <= at for one in self.times) for at in self.times), default=0)


def test_a_failing_server_gets_at_most_ten_requests_in_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: dict[str, Counted] = {}
    with ExitStack() as stack:
        for seed, (name, answer) in enumerate(SCRIPTED.items()):
            server: HttpServer = stack.enter_context(http_server(answer))
            path = server.kubeconfig(tmp_path / f"k{seed}")
            counted[name] = Counted(stack.enter_context(closing(Cluster(path))), monkeypatch)
        for seed, (name, action) in enumerate(WIRE.items()):
            count = Rule(Slow(Fixed(0.0)))
            served, cluster, _ = stack.enter_context(lab(tmp_path, Rule(action), count, seed=seed))
            World(served, "nodes").create("n")
            counted[name] = Counted(cluster, monkeypatch)
        nobody = tmp_path / "nobody"
        with http_server(lambda _: Said()) as gone:
            gone.kubeconfig(nobody)
        counted["nobody there"] = Counted(stack.enter_context(closing(Cluster(str(nobody)))), monkeypatch)

        for each in counted.values():
            each.reflector.start()
        time.sleep(WINDOW + 3)
        assert stop_all((each.reflector for each in counted.values()), 2.0) == []

    most = {name: each.most for name, each in counted.items()}
    assert {name: number for name, number in most.items() if number > CEILING} == {}
    assert {name for name, number in most.items() if number < 2} == set(), "each was tried again"
    assert {name for name, each in counted.items() if not each.troubles} == set(), "each was told"


@pytest.mark.smoke
def test_after_one_failure_a_list_of_many_pages_is_still_read_at_once(tmp_path: Path) -> None:
    """History is gone, say: the twenty pages of ten thousand claims must not take as many seconds."""
    asked: list[str] = []

    def answer(one: Asked) -> Said:
        asked.append(one.path)
        if len(asked) == 1:
            return Said(500)
        if "watch=true" in one.path:
            return Said(200, b"")
        more = {} if len(asked) == 22 else {"continue": f"page-{len(asked)}"}
        return Said(200, json.dumps({"metadata": {"resourceVersion": "5", **more}, "items": []}).encode())

    with http_server(answer) as server, closing(Cluster(server.kubeconfig(tmp_path / "k"))) as cluster:
        watched = WatchSpec("nodes", VERSIONS["nodes"])
        reflector = Reflector(watched, cluster, DeltaQueue(), lambda *_: None, random=Impatient(1))
        reflector.start()
        assert reflector.synced.wait(5.0), f"{len(asked)} requests in 5 s"
        assert stop_all([reflector], 2.0) == []


def test_a_sound_server_is_read_as_fast_as_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab(tmp_path) as (served, cluster, _):
        world = World(served, "nodes")
        for number in range(60):
            world.create(f"n{number}")
        monkeypatch.setattr(cluster_module, "PAGE", 2)
        reflector = Reflector(WatchSpec("nodes", ("v1",)), cluster, DeltaQueue(), lambda *_: None)
        reflector.start()
        assert reflector.synced.wait(8)
        assert reflector.requests >= 30
        assert reflector.stop(5)
