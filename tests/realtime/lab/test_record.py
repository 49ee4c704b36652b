"""`record` against a served API: what is in the cluster and what happens there gets into the file, whatever happens to watches.
What is left out of it: tests/lab/record."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording, replay_events
from dds_core.errors import FileError, InputError
from dds_core.scaler.policy import Policy
from dds_lab.api.gates import Gates
from dds_lab.api.requests import User
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.crds import DEFINITIONS
from dds_lab.faults.wire import Cut, Expire, Rule, WireFaults
from dds_lab.http_frontend import Credentials, Served, serving
from dds_lab.http_frontend.credentials import ADMIN
from dds_lab.latency import Fixed
from dds_lab.record import Cluster, Recorded, Unreachable, record
from dds_lab.record.recording_file import RecordingFile
from tests.adapters.kubernetes.samples import BY_NAME


class Now:
    """Time for in-process clients that only write."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def after(self, seconds: float, call: Callable[[], None]) -> Any:
        raise AssertionError("nothing here waits")

    def random(self, name: str) -> Random:
        return Random(name)


def make(faults: Callable[[], int] | None = None) -> ApiServer:
    now = Now()
    gates = Gates.for_version("1.36", {"DRADeviceTaintRules": True}, ("resource.k8s.io/v1beta2",))
    server = ApiServer(gates=gates, now=now.now, random=Random(1))
    client = Client(server, now, "admin")
    for definition in DEFINITIONS:
        client.create("customresourcedefinitions", definition)
    client.create("namespaces", {"metadata": {"name": "composable-dra"}})
    return server


@pytest.fixture
def served() -> Iterator[Served]:
    users = {"admin": ADMIN, "nobody": User("nobody")}
    with serving(make(), Credentials(users)) as address:
        yield address


class Recording:
    """A recording that runs in a thread."""

    def __init__(self, kubeconfig: str, path: Path, **options: Any) -> None:
        self.path = path
        self.notes: list[str] = []
        self.found = Recorded()
        self._stop, self.begun = threading.Event(), threading.Event()
        self._cluster = Cluster(kubeconfig)
        self._thread = threading.Thread(target=self._run, kwargs=options)
        self._thread.start()

    def _run(self, **options: Any) -> None:
        with closing(self._cluster), RecordingFile(str(self.path)) as file:
            self.found = record(
                self._cluster, file, stop=self._stop, note=self.notes.append, begun=self.begun.set, **options
            )

    def until(self, enough: Callable[[list[RecordedEvent]], bool], seconds: float = 20.0) -> list[RecordedEvent]:
        """The events, once there are enough of them; then it is stopped. The file is read while it is being written."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if enough(self.events()):
                break
            time.sleep(0.1)
        self.stop()
        return self.events()

    def events(self) -> list[RecordedEvent]:
        found: list[RecordedEvent] = []
        try:
            for event in read_recording(self.path):
                found.append(event)
        except Exception as error:
            assert self._thread.is_alive(), error
        return found

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()


def kubeconfig(served: Served, folder: Path) -> str:
    return served.kubeconfig(folder / "kubeconfig")


def fed(served: Served, name: str) -> int:
    """Play a recording into the server, so far as its objects can be made by anybody; gives how many writes that were."""
    client = Client(served.server, Now(), "admin")
    writes = 0
    for event in read_recording(BY_NAME[name]):
        obj = _bare(event)
        resource = "resourceslices" if event.resource == "resourceslices" else event.resource
        if event.type == "BOOKMARK" or resource not in ("configmaps", "deviceclasses", "nodes", "resourceslices"):
            continue
        revision = served.server.store.revision
        served.run(partial(_write, client, resource, event.type, obj))
        writes += served.server.store.revision > revision  # what changes nothing is no event
    return writes


def _bare(event: RecordedEvent) -> dict[str, Any]:
    obj: dict[str, Any] = json.loads(event.raw)
    for field in ("resourceVersion", "uid", "managedFields", "creationTimestamp", "generation"):
        obj["metadata"].pop(field, None)
    return obj


def _write(client: Client, resource: str, type: str, obj: dict[str, Any]) -> None:
    meta = obj["metadata"]
    if type == "ADDED":
        client.create(resource, obj, meta.get("namespace", ""))
    elif type == "DELETED":
        client.delete(resource, meta["name"], meta.get("namespace", ""))
    else:
        live = client.get(resource, meta["name"], meta.get("namespace", ""))
        client.update(resource, {**obj, "metadata": {**live["metadata"], "labels": meta.get("labels", {})}})


@pytest.mark.smoke
def test_what_is_there_and_what_happens_is_recorded_once_and_in_order(served: Served, tmp_path: Path) -> None:
    client = Client(served.server, Now(), "admin")
    served.run(lambda: client.create("nodes", _node("before")))
    recording = Recording(kubeconfig(served, tmp_path), tmp_path / "r.jsonl.gz")
    assert recording.begun.wait(20)
    writes = fed(served, "first_attach")
    events = recording.until(lambda events: len(events) >= 1 + writes)
    assert recording.notes == []
    first = events[0]
    assert (first.resource, first.type) == ("nodes", "ADDED")
    assert Counter(event.resource for event in events) == recording.found.events
    assert [e.at for e in events] == sorted(e.at for e in events)
    per_name = [(e.resource, e.type) for e in events if b'"node0000"' in e.raw and e.resource == "nodes"]
    assert per_name[0] == ("nodes", "ADDED")
    assert len(events) == 1 + writes
    assert list(replay_events(events, Policy()))


@pytest.mark.parametrize(
    "fault", [Cut(Fixed(0.3)), Cut(Fixed(0.3), mid_line=True), Expire()], ids=lambda f: type(f).__name__
)
def test_a_broken_watch_loses_and_doubles_nothing(fault: Cut | Expire, tmp_path: Path) -> None:
    server = make()
    share = 1.0 if isinstance(fault, Cut) else 0.5
    faults = WireFaults([Rule(fault, share=share)], Now().now, Random(7))
    with serving(server, faults=faults) as served:
        client = Client(server, Now(), "admin")
        recording = Recording(kubeconfig(served, tmp_path), tmp_path / "r.jsonl", resources=("nodes",))
        assert recording.begun.wait(20)
        for number in range(30):
            served.run(partial(client.create, "nodes", _node(f"n{number}")))
            if number % 3 == 0:
                served.run(partial(client.delete, "nodes", f"n{number}"))
            time.sleep(0.05)
        expected = {f"n{number}" for number in range(30) if number % 3}
        events = recording.until(lambda events: _alive(events) == expected)
    assert _alive(events) == expected
    assert sum(faults.struck) > 0
    added = Counter(name for type, name in _named(events) if type == "ADDED")
    assert set(added.values()) == {1}


def test_who_may_read_nothing_is_told_so(served: Served, tmp_path: Path) -> None:
    config = kubeconfig(served, tmp_path)
    file = RecordingFile(str(tmp_path / "r.jsonl"))
    with closing(Cluster(config, "nobody")) as cluster, file, pytest.raises(InputError, match="nothing can be read"):
        record(cluster, file, stop=threading.Event(), note=lambda text: None, seconds=5)


def test_a_server_that_is_not_there_is_unreachable(served: Served, tmp_path: Path) -> None:
    config = Path(kubeconfig(served, tmp_path))
    config.write_text(config.read_text().replace(served.url, "https://127.0.0.1:1"))
    file = RecordingFile(str(tmp_path / "r.jsonl"))
    with closing(Cluster(str(config))) as cluster, file, pytest.raises(Unreachable):
        record(cluster, file, stop=threading.Event(), note=lambda text: None, seconds=5)


def test_it_ends_by_itself_when_its_time_is_up(served: Served, tmp_path: Path) -> None:
    with closing(Cluster(kubeconfig(served, tmp_path))) as cluster, RecordingFile(str(tmp_path / "r.jsonl")) as file:
        begun = time.monotonic()
        found = record(cluster, file, stop=threading.Event(), note=lambda text: None, seconds=0.5)
        assert time.monotonic() - begun < 8
    assert found.not_served == found.refused == []


@pytest.mark.parametrize("text", ["", "{", "apiVersion: v1", "clusters: 3"])
def test_what_is_no_kubeconfig_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(InputError, match="kubeconfig"):
        Cluster(str(path))
    with pytest.raises(InputError, match="none"):
        Cluster(str(tmp_path / "none"))


def _node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def _named(events: list[RecordedEvent]) -> list[tuple[str, str]]:
    return [(event.type, json.loads(event.raw)["metadata"]["name"]) for event in events if event.type != "BOOKMARK"]


def _alive(events: list[RecordedEvent]) -> set[str]:
    alive: set[str] = set()
    for type, name in _named(events):
        alive.discard(name) if type == "DELETED" else alive.add(name)
    return alive


def test_what_is_not_served_or_may_not_be_read_is_told_and_the_rest_is_recorded(tmp_path: Path) -> None:
    gates = Gates.for_version("1.36")
    server = ApiServer(gates=gates, now=Now().now, random=Random(1))
    client = Client(server, Now(), "admin")
    client.create("nodes", _node("n0"))
    rules = [{"apiGroups": ["", "cro.hpsys.ibm.ie.com", "resource.k8s.io"], "verbs": ["get", "list", "watch"]}]
    rules[0]["resources"] = ["nodes", "composableresources", "composabilityrequests", "devicetaintrules"]
    client.create("clusterroles", {"metadata": {"name": "r"}, "rules": rules})
    who = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}
    reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "r"}
    client.create("clusterrolebindings", {"metadata": {"name": "r"}, "subjects": [who], "roleRef": reference})
    with serving(server, Credentials({"admin": ADMIN, "reader": User("reader")})) as served:
        config = kubeconfig(served, tmp_path)
        with closing(Cluster(config, "reader")) as cluster, RecordingFile(str(tmp_path / "r.jsonl")) as file:
            found = record(cluster, file, stop=threading.Event(), note=lambda text: None, seconds=0.5)
    assert found.events == {"nodes": 1}
    assert found.not_served == ["devicetaintrules", "composabilityrequests", "composableresources"]
    assert found.refused == ["configmaps", "deviceclasses", "resourceslices", "resourceclaims", "pods"]


def test_a_full_disk_ends_it(served: Served, tmp_path: Path) -> None:
    class Full(RecordingFile):
        def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
            raise FileError("no space left", where=self.path)

    served.run(lambda: Client(served.server, Now(), "admin").create("nodes", _node("n0")))
    file, full = Full(str(tmp_path / "r.jsonl")), pytest.raises(FileError, match="no space left")
    with closing(Cluster(kubeconfig(served, tmp_path))) as cluster, file, full:
        record(cluster, file, stop=threading.Event(), note=lambda text: None)
