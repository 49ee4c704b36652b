"""A write that is cut short at any of its requests, before it was sent or after, is finished by carrying it out again, and what
is there then is what one undisturbed write leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer, Unreachable
from dds_adapters.kubernetes.write.tasks import Done, Guard, Later, NotLeading, Result, Write
from tests.support.written_life import live_through, snapshot
from tests.support.written_objects import WrittenObjects


def cut_at(number: int) -> Callable[[str, str], None]:
    """A hook that lets the request of that number go without an answer."""
    requests = count()

    def hook(method: str, path: str) -> None:
        if next(requests) == number:
            raise Unreachable("the connection broke", where=path)

    return hook


def undisturbed() -> tuple[int, dict[str, object]]:
    stage = WrittenObjects()
    live_through(stage, stage.carry_out)
    return sum(stage.writer.requests.values()), snapshot(stage)


@pytest.mark.parametrize("sent", [False, True], ids=["before it is sent", "after it was sent"])
def test_every_request_may_be_the_last(sent: bool) -> None:
    requests, wanted = undisturbed()
    assert requests >= 29
    for number in range(requests):
        stage = WrittenObjects()
        if sent:
            stage.writer.after = cut_at(number)
        else:
            stage.writer.before = cut_at(number)
        cut: list[Write] = []

        def carry(write: Write, stage: WrittenObjects = stage, cut: list[Write] = cut) -> Result:
            result = stage.carry_out(write)
            if isinstance(result, Later):
                cut.append(write)
                result = stage.carry_out(write)
            return result

        live_through(stage, carry)
        assert len(cut) == 1 and snapshot(stage) == wanted, (number, cut)


def test_whether_it_may_write_is_asked_before_each_request() -> None:
    """A lease may be lost while an answer is waited for."""
    stage = WrittenObjects()
    left = iter((10.0, 0.0))
    guard = Guard(stage.writer, lambda: next(left), lambda: True)
    assert guard.ask("GET", "/api/v1/nodes").code == 200
    with pytest.raises(NotLeading):
        guard.ask("GET", "/api/v1/nodes")
    assert sum(stage.writer.requests.values()) == 1


def test_each_write_twice_is_one() -> None:
    _, wanted = undisturbed()
    stage = WrittenObjects()

    def twice(write: Write) -> Result:
        result, before = stage.carry_out(write), stage.writes
        assert stage.carry_out(write) == Done(written=False) and stage.writes - before <= _probes(write)
        return result

    live_through(stage, twice)
    assert snapshot(stage) == wanted


def test_every_change_says_which_object_at_which_version_it_means() -> None:
    """What a paused writer sends late fails, also where the version alone would do."""
    stage, changes = WrittenObjects(), []
    send = stage.writer.ask

    def ask(method: str, path: str, *, body: bytes | None = None, **more: Any) -> Answer:
        if method in ("PATCH", "DELETE"):
            changes.append((method, path, json.loads(body or b"null")))
        return send(method, path, body=body, **more)

    stage.writer.ask = ask  # type: ignore[method-assign]
    live_through(stage, stage.carry_out)
    assert len(changes) > 10
    for method, path, body in changes:
        if isinstance(body, list):
            named = {one["path"].rpartition("/")[2]: one["value"] for one in body if one["op"] == "test"}
        else:
            named = body["preconditions" if method == "DELETE" else "metadata"]
        assert named.get("uid"), path
        assert method == "DELETE" or named.get("resourceVersion"), path


def _probes(write: Write) -> int:
    """An event is not looked for first: that it is there is the answer to making it."""
    return 1 if type(write).__name__ == "TellPeople" else 0
