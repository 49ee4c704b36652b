"""Whatever happens on the wire, who lists and watches as one should loses nothing and is told nothing that was not.

Cuts, cuts in the middle of a line, silence, storms of 410, duplicates, delays and a short history, all at random, between the
HTTP semantics of the API server and a consumer of the kind that every controller contains.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dds_lab.api.gates import Gates
from dds_lab.api.requests import MASTERS, Request, Response, User
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.faults.wire import Asked, Cut, Delay, Duplicate, Expire, FaultyStream, HalfOpen, Refuse, Rule, WireFaults
from dds_lab.latency import Fixed, Uniform
from dds_lab.time import MICROSECONDS, Timer, VirtualTime

START = 1_800_000_000 * MICROSECONDS
CONFIG = "/api/v1/namespaces/default/configmaps"
STRIKING_S = 120.0
"""The faults end then; what is still missing has to come by itself."""
READ_TIMEOUT_S = 5.0
WATCH_S = 20

Key = tuple[str, int]


class Wire:
    """Requests to the server with faults in between, without a socket."""

    def __init__(self, server: ApiServer, faults: WireFaults, time: VirtualTime) -> None:
        self._server = server
        self._faults = faults
        self._time = time

    def list(self) -> dict[str, Any] | None:
        """The list, None when it was refused."""
        if self._faults.for_request(Asked("dds", "list", "configmaps")).refused is not None:
            return None
        answer = self._server.respond(Request("GET", CONFIG, "", {"authorization": "Bearer dds"}))
        assert isinstance(answer, Response) and answer.code == 200
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def watch(self, version: str, cut: Callable[[bytes], None]) -> FaultyStream | None:
        """A stream with faults, None when it was refused."""
        effects = self._faults.for_request(Asked("dds", "watch", "configmaps", versioned=True))
        if effects.refused is not None:
            return None
        query = f"watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}"
        stream = self._server.respond(Request("GET", CONFIG, query, {"authorization": "Bearer dds"}))
        assert not isinstance(stream, Response)
        return FaultyStream(stream, effects.watch, self._time.now, self._faults.random, cut)


class Consumer:
    """Lists, watches on from there, goes on from the last version after a broken watch, lists anew after 410."""

    def __init__(self, wire: Wire, time: VirtualTime) -> None:
        self._wire = wire
        self._time = time
        self.objects: dict[str, Any] = {}
        self.told: list[tuple[Key, Any]] = []
        self.spans: list[tuple[int, int]] = []
        """Versions of each list, and of the last that was seen before the next one."""
        self._version = 0
        self._stream: FaultyStream | None = None
        self._silence: Timer | None = None
        self._due: Timer | None = None
        self._list()

    def _list(self) -> None:
        found = self._wire.list()
        if found is None:
            self._time.after(1.0, self._list)
            return
        self.objects = {each["metadata"]["name"]: each for each in found["items"]}
        self.told += [(_key(each), each) for each in found["items"]]
        self._version = int(found["metadata"]["resourceVersion"])
        self.spans.append((self._version, self._version))
        self._watch()

    def _watch(self) -> None:
        self._stream = self._wire.watch(str(self._version), self._broken)
        if self._stream is None:
            self._time.after(1.0, self._watch)
            return
        self._heard()
        self._stream.on_ready(self._read)
        self._read()

    def _read(self) -> None:
        stream = self._stream
        if stream is None:
            return
        for line in stream.take():
            self._heard()
            if not self._take(json.loads(line)):
                self._leave()
                self._time.after(0.1, self._list)
                return
        if stream.closed and self._stream is stream:
            self._leave()
            self._time.after(0.1, self._watch)
        elif self._stream is stream:
            self._arm(stream)

    def _take(self, event: dict[str, Any]) -> bool:
        if event["type"] == "ERROR":
            assert event["object"]["code"] == 410
            return False
        told = event["object"]
        version = int(told["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            self.told.append((_key(told), told))
            if event["type"] == "DELETED":
                self.objects.pop(told["metadata"]["name"], None)
            else:
                self.objects[told["metadata"]["name"]] = told
        self._version = max(self._version, version)
        self.spans[-1] = (self.spans[-1][0], self._version)
        return True

    def _broken(self, rest: bytes) -> None:
        assert not rest.endswith(b"\n")
        self._leave()
        self._time.after(0.1, self._watch)

    def _arm(self, stream: FaultyStream) -> None:
        if self._due is not None:
            self._due.cancel()
        if stream.due is not None:
            self._due = self._time.after((stream.due - self._time.now()) / MICROSECONDS, self._tick)

    def _tick(self) -> None:
        self._due = None
        if self._stream is not None:
            self._stream.tick()
            self._read()

    def _heard(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._time.after(WATCH_S + READ_TIMEOUT_S, self._silent)

    def _silent(self) -> None:
        self._leave()
        self._watch()

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        for timer in (self._silence, self._due):
            if timer is not None:
                timer.cancel()
        self._silence = self._due = None
        if stream is not None:
            stream.on_ready(None)
            stream.close()


class Writer:
    """Random writes at random times, and what really was."""

    def __init__(self, server: ApiServer, time: VirtualTime) -> None:
        self._client = Client(server, time, "writer")
        self._time = time
        self._random = time.random("writer")
        self.versions: dict[Key, Any] = {}
        server.store.subscribe(
            "configmaps", lambda change: self.versions.update({_key(change.new.object): change.new.object})
        )
        self._write()

    def _write(self) -> None:
        name = f"c{self._random.randrange(5)}"
        there = self._client.find("configmaps", name, "default")
        if there is None:
            self._client.create("configmaps", {"metadata": {"name": name}, "data": {"n": "0"}}, "default")
        elif self._random.random() < 0.3:
            self._client.delete("configmaps", name, "default")
        else:
            data = {"n": str(self._random.random())}
            self._client.patch("configmaps", name, {"data": data}, "default")
        if self._time.now() < START + 1.2 * STRIKING_S * MICROSECONDS:
            self._time.after(self._random.expovariate(1.0), self._write)


def _key(obj: dict[str, Any]) -> Key:
    return obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])


shares = st.floats(0.1, 1.0)
waits = st.builds(Uniform, st.just(0.0), st.floats(0.1, 15.0))
actions = st.one_of(
    st.builds(Cut, waits, st.booleans()),
    st.builds(HalfOpen, waits),
    st.just(Expire()),
    st.builds(Duplicate, shares),
    st.builds(Delay, waits),
    st.builds(Refuse, st.sampled_from([429, 500, 503])),
    st.just(Cut(Fixed(0.0))),
)
rules = st.lists(st.builds(Rule, actions, end=st.just(STRIKING_S), share=shares), min_size=1, max_size=4)


@settings(max_examples=100)
@given(rules, st.integers(0, 1_000_000), st.sampled_from([5, 50, 20_000]))
def test_nothing_is_lost_and_nothing_invented(rules: list[Rule], seed: int, history: int) -> None:
    time = VirtualTime(seed, START)
    server = ApiServer(gates=Gates.for_version("1.36"), now=time.now, random=time.random("server"), history=history)
    server.access.register("dds", User("dds", (MASTERS,)))
    writer = Writer(server, time)
    consumer = Consumer(Wire(server, WireFaults(rules, time.now, Random(seed)), time), time)
    time.run(START + round(3 * STRIKING_S * MICROSECONDS))

    there = {each["metadata"]["name"]: each for each in _now(server)}
    known = {name: _bare(each) for name, each in consumer.objects.items()}
    assert known == there, "lost or invented in the end"
    for key, told in consumer.told:
        assert _bare(told) == _bare(writer.versions[key]), "never was"
    seen = {key for key, _ in consumer.told}
    for first, last in consumer.spans:
        missed = [key for key in writer.versions if first < key[1] <= last and key not in seen]
        assert not missed, "lost between a list and the next"


def _bare(obj: dict[str, Any]) -> dict[str, Any]:
    """As in a list, whose items carry no kind."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def _now(server: ApiServer) -> list[dict[str, Any]]:
    answer = server.respond(Request("GET", CONFIG, "", {"authorization": "Bearer dds"}))
    assert isinstance(answer, Response)
    listed: list[dict[str, Any]] = json.loads(answer.body)["items"]
    return listed
