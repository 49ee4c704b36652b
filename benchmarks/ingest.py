"""Listening: from the socket to changes that can be taken, and on to facts; beside the official client's own watch.

The server is a process of its own that has all its bytes ready: pages of a list, and a watch on which each event is a chunk, as
kube-apiserver sends them. Events are recorded claims of the recorded size, under new names. What is measured is the listener.

`python -m benchmarks.ingest serve` is the other process.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.measure import Contender, Row, Timing, compare, contender, short, side_by_side
from dds_adapters.kubernetes import Translator, read_recording
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.watch.delta_queue import SYNCED, DeltaQueue
from dds_adapters.kubernetes.watch.reflector import Reflector
from dds_adapters.kubernetes.watch.watch_spec import WatchSpec
from dds_core import State
from dds_core.errors import DdsError
from dds_core.scaler.folds import apply

CLAIMS, CHANGES = 10_000, 4
EVENTS = CLAIMS * CHANGES
TYPED = 2_000
"""The typed watch is given no more: it would take a quarter of a minute."""
WANTED = 15_000
PAGE = 500
PATH = "/apis/resource.k8s.io/v1/resourceclaims"
RECORDING = Path(__file__).parents[1] / "tests/data/recordings/burst.jsonl.gz"


def measure(rounds: int) -> list[Row]:
    """Changes a second, facts a second, the limit of decoding alone, the official client; and the time of a first list."""
    with serving() as kubeconfig, closing(Cluster(kubeconfig)) as cluster:
        found = side_by_side(
            [
                contender("to changes", lambda: _reflected(cluster, _count)),
                contender("to facts", lambda: _reflected(cluster, _Facts().taken)),
                contender("lines and nothing else", lambda: _raw(cluster)),
                _typed(kubeconfig),
            ],
            min(rounds, 5),
        )
        listed = min(_listed(cluster) for _ in range(3))
    changes, facts = found["to changes"], found["to facts"]
    return [
        _at_least("watch of claims, socket to changes taken", changes),
        Row("watch of claims, socket to facts folded, nothing logged", f"{short(facts.rate)} events/s"),
        compare("the same", changes, found["lines and nothing else"], unit="events", at_least=0.4),
        compare("the same", changes, found["the official client's typed watch"], unit="events", at_least=10),
        Row(f"first list of {CLAIMS} claims, to SYNCED", f"{listed:.2f} s", target="≤ 5 s", met=listed <= 5),
    ]


def _at_least(what: str, timing: Timing) -> Row:
    target = f"≥ {short(WANTED)} events/s"
    return Row(what, f"{short(timing.rate)} events/s", target=target, met=timing.rate >= WANTED)


# -- the listeners -------------------------------------------------------------------------------------------------------------


class _Facts:
    """A taker that translates for a state, and folds."""

    def __init__(self) -> None:
        self._state = State()
        self._translator = Translator(self._state)
        self.facts = 0

    def taken(self, arrivals: DeltaQueue) -> None:
        for one in arrivals.take(0.01):
            if one.raw:
                for fact in self._translator.translate(one.resource, one.type, one.raw):
                    apply(self._state, fact, one.at)
                    self.facts += 1


def _count(arrivals: DeltaQueue) -> None:
    arrivals.take(0.01)


class _Counted(DeltaQueue):
    """Counts what was put, so that the end is known although newer states replace older ones."""

    def __init__(self) -> None:
        super().__init__()
        self.put_so_far = 0

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        super().put(resource, uid, type, raw)
        self.put_so_far += 1


def _fail(resource: str, error: DdsError) -> None:
    raise error


def _reflected(cluster: Cluster, take: Callable[[DeltaQueue], None]) -> int:
    """An empty list, then all events of the watch."""
    arrivals = _Counted()
    reflector = Reflector(WatchSpec("resourceclaims", ("resource.k8s.io/v1",)), cluster, arrivals, _fail)
    reflector.start()
    while arrivals.put_so_far < EVENTS or len(arrivals):
        take(arrivals)
    reflector.stop()
    return EVENTS


def _raw(cluster: Cluster) -> int:
    """What the transport and the splitting into lines cost."""
    watch = cluster.watch("resourceclaims", "resource.k8s.io/v1", "1", 300)
    with closing(watch):
        for number, _ in enumerate(watch.events, 1):
            if number == EVENTS:
                break
    return EVENTS


def _typed(kubeconfig: str) -> Contender:
    def watch() -> int:
        from kubernetes import client, config
        from kubernetes import watch as watching

        new_client: Any = config.new_client_from_config
        with closing(new_client(kubeconfig)) as api:
            listing: Any = client.ResourceV1Api(api).list_resource_claim_for_all_namespaces
            new_watch: Any = watching.Watch
            stream = new_watch(return_type="ResourceV1ResourceClaim").stream
            for number, _ in enumerate(stream(listing, resource_version="1"), 1):
                if number == TYPED:
                    break
        return TYPED

    return contender("the official client's typed watch", watch)


def _listed(cluster: Cluster) -> float:
    """Seconds from the start of a reflector to SYNCED, with everything taken."""
    arrivals = DeltaQueue()
    watched = WatchSpec("resourceclaims", ("resource.k8s.io/v1beta1",))
    reflector = Reflector(watched, cluster, arrivals, _fail)
    begun = time.perf_counter()
    reflector.start()
    while not any(one.type == SYNCED for one in arrivals.take(1)):
        pass
    taken = time.perf_counter() - begun
    reflector.stop()
    return taken


# -- the server ----------------------------------------------------------------------------------------------------------------


@contextmanager
def serving() -> Iterator[str]:
    """The server in a process of its own; gives a kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="dds-ingest-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ingest", "serve"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            path = Path(folder) / "kubeconfig"
            path.write_text(
                f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
                "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
            )
            yield str(path)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _serve() -> None:
    """Lists of v1 are empty and its watch has all events; lists of v1beta1 are full and its watch is silent."""
    largest = max((one.raw for one in read_recording(RECORDING) if one.resource == "resourceclaims"), key=len)
    claims = [_claim(largest, number) for number in range(CLAIMS)]
    stream = b"".join(
        _chunk(b'{"type":"%s","object":%s}\n' % (b"MODIFIED" if turn else b"ADDED", _at_version(claim, turn)))
        for turn in range(CHANGES)
        for claim in claims
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_converse, args=(connection, claims, stream), daemon=True).start()


def _claim(largest: bytes, number: int) -> bytes:
    """A recorded claim as it is when most is in it, with a name and uid of its own and a mark for its version."""
    shape = json.loads(largest)
    shape["metadata"] |= {
        "name": f"train-{number}",
        "uid": f"{number:08x}-c1a1-4000-8000-0123456789ab",
        "resourceVersion": "@@",
    }
    return json.dumps(shape, separators=(",", ":")).encode()


def _at_version(claim: bytes, turn: int) -> bytes:
    return claim.replace(b"@@", b"%d" % (turn + 2), 1)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _converse(connection: socket.socket, claims: list[bytes], stream: bytes) -> None:
    with connection, connection.makefile("rb") as requests:
        while line := requests.readline():
            while requests.readline().strip():
                pass
            url = urlsplit(line.split()[1].decode())
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            full = "/v1beta1/" in url.path
            try:
                if "watch" in query:
                    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    connection.sendall(head + (b"" if full else stream))
                else:
                    connection.sendall(_page(claims if full else [], int(query.get("continue", 0))))
            except OSError:  # the listener has seen enough
                return


def _page(claims: list[bytes], start: int) -> bytes:
    more = str(start + PAGE) if start + PAGE < len(claims) else ""
    items = b",".join(_at_version(claim, 0) for claim in claims[start : start + PAGE])
    body = b'{"metadata":{"resourceVersion":"1","continue":"%b"},"items":[%b]}' % (more.encode(), items)
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


if __name__ == "__main__":
    _serve()
