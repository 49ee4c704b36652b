"""The lab's API server under load: 100 watches, 20,000 claims, 2,000 writes a second, over real sockets.

The server, the watchers and the writer are processes of their own. A write carries the instant at which it was sent (the clock is
the machine's, so that processes can compare), and a watcher takes the difference when the event arrives. Watchers count
lines and never decode: what is measured is the server.

`python -m benchmarks.lab_load serve` and `… watch` are the two other processes.
"""

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import cast

from benchmarks.measure import Row, short
from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.http_frontend.credentials import Credentials
from dds_lab.http_frontend.serving import HttpFrontend, calm_collector, run
from dds_lab.time import RealTime, VirtualTime

CLAIMS, NAMESPACES, WATCHES, WRITES = 20_000, 100, 100, 2_000
CONNECTIONS = 8
SECONDS = 10
WANTED_MS = 100
PATH = "/apis/resource.k8s.io/v1"
_SENT = re.compile(rb'"t":"(\d+)"')


@dataclass(frozen=True)
class Reached:
    """What one run reached: writes and deliveries a second, and how long events were under way, in milliseconds."""

    writes: float
    deliveries: float
    missing: int
    median: float
    p99: float
    worst: float
    cpu: float
    """Share of one core that the server took."""


def measure(rounds: int) -> list[Row]:
    """Both ways to spread the watches, and the most that goes through when nobody keeps to a pace."""
    apart = _best(rounds, everything=False, pace=WRITES)
    together = _best(rounds, everything=True, pace=WRITES)
    flat_out = _best(rounds, everything=False, pace=0)
    return [
        *_rows("each watch on a namespace", apart),
        *_rows("each watch on everything", together),
        Row("each watch on a namespace, no pause between writes", _writes(flat_out), _times(flat_out)),
    ]


def _rows(what: str, found: Reached) -> list[Row]:
    kept = found.writes >= 0.98 * WRITES and not found.missing
    return [
        Row(what, _writes(found), f"server: {found.cpu:.0%} of a core", target=f"≥ {short(WRITES)} writes/s", met=kept),
        Row(f"{what}: delivery", _times(found), target=f"p99 < {WANTED_MS} ms", met=kept and found.p99 < WANTED_MS),
    ]


def _writes(found: Reached) -> str:
    return f"{short(found.writes)} writes/s, {short(found.deliveries)} events/s"


def _times(found: Reached) -> str:
    return f"median {found.median:.1f} ms, p99 {found.p99:.1f} ms, worst {found.worst:.0f} ms"


def _best(rounds: int, *, everything: bool, pace: int) -> Reached:
    """The round with the median p99: one slow moment of the machine is not the server's."""
    found = sorted((_run(everything, pace) for _ in range(min(rounds, 3))), key=lambda each: each.p99)
    return found[len(found) // 2]


def _run(everything: bool, pace: int) -> Reached:
    with _process("serve") as server:
        address, token = json.loads(_line(server))
        with _process("watch", address, token, "all" if everything else "apart") as listeners:
            assert _line(listeners) == "ready\n"
            before = _cpu(server.pid)
            sent, seconds = _written(address, token, pace)
            cpu = (_cpu(server.pid) - before) / seconds
            assert listeners.stdin is not None
            listeners.stdin.write(f"{sent * (WATCHES if everything else 1)}\n")
            listeners.stdin.flush()
            told = json.loads(_line(listeners))
    median, p99, worst = told["times"]
    return Reached(sent / seconds, told["seen"] / seconds, told["missing"], median, p99, worst, cpu)


@contextmanager
def _process(*args: str) -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.lab_load", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- the server --------------------------------------------------------------------------------------------------


def serve() -> None:
    """Serve 20,000 claims until killed."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = RealTime(loop, lambda: time.time_ns() // 1000, 0)
        server = ApiServer(gates=Gates.for_version("1.36"), now=clock.now, random=Random(1))
        client = Client(server, VirtualTime(0, 0), "setup")
        for at in range(NAMESPACES):
            client.create("namespaces", {"metadata": {"name": f"ns{at}"}})
        spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}}
        for at in range(CLAIMS):
            client.create("resourceclaims", {"metadata": {"name": f"c{at}"}, "spec": spec}, f"ns{at % NAMESPACES}")
        credentials = Credentials()
        face = HttpFrontend(server, clock, credentials)
        await face.listen(tls=False)
        calm_collector()
        print(json.dumps([face.url.partition("://")[2], credentials.tokens["admin"]]), flush=True)
        await asyncio.Event().wait()

    run(main)


# -- the watchers ------------------------------------------------------------------------------------------------


class _Watcher(asyncio.Protocol):
    def __init__(self, request: bytes, delays: list[int]) -> None:
        self._request = request
        self._delays = delays
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns() // 1000
        whole, _, rest = data.rpartition(b"\n")
        self._delays += [now - int(sent) for sent in _SENT.findall(self._rest + whole)]
        self._rest = rest


def watch(address: str, token: str, spread: str) -> None:
    """Open the watches, say so, and tell at the end what has arrived."""

    async def main() -> None:
        gc.disable()  # it is not what is measured
        loop = asyncio.get_running_loop()
        host, _, port = address.rpartition(":")
        delays: list[int] = []
        query = "watch=1&timeoutSeconds=3000&resourceVersion=" + await _version(address, token)
        for at in range(WATCHES):
            scope = "" if spread == "all" else f"/namespaces/ns{at % NAMESPACES}"
            request = _request("GET", f"{PATH}{scope}/resourceclaims?{query}", token)
            await loop.create_connection(lambda request=request: _Watcher(request, delays), host, int(port))  # type: ignore[misc]
        await asyncio.sleep(1)
        print("ready", flush=True)
        expected = int(await loop.run_in_executor(None, sys.stdin.readline))
        deadline = loop.time() + 30
        while len(delays) < expected and loop.time() < deadline:
            await asyncio.sleep(0.1)
        delays.sort()
        times = [delays[int(share * (len(delays) - 1))] / 1000 for share in (0.5, 0.99, 1.0)]
        print(json.dumps({"seen": len(delays), "missing": expected - len(delays), "times": times}), flush=True)

    run(main)


async def _version(address: str, token: str) -> str:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(_request("GET", f"{PATH}/resourceclaims?limit=1", token))
    found = re.search(rb'"metadata":{"resourceVersion":"(\d+)"', await reader.read(65536))
    writer.close()
    assert found
    return found[1].decode()


def _request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: lab\r\nAuthorization: Bearer {token}\r\nUser-Agent: load/1\r\n"
    more = f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{more}\r\n".encode() + body


# -- the writer --------------------------------------------------------------------------------------------------


def _written(address: str, token: str, pace: int) -> tuple[int, float]:
    found: list[tuple[int, float]] = []

    async def main() -> None:
        found.append(await _write(address, token, pace))

    run(main)
    return found[0]


async def _write(address: str, token: str, pace: int) -> tuple[int, float]:
    """Patch labels of the claims in turn for some seconds: so many a second, or as many as are answered. Gives how many
    writes were made, and the seconds that they took."""
    number = count()
    start = time.monotonic()

    async def line() -> int:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        made = 0
        while time.monotonic() - start < SECONDS:
            at = next(number)
            if pace and (wait := start + at / pace - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            body = b'{"metadata":{"labels":{"t":"%d"}}}' % (time.monotonic_ns() // 1000)
            path = f"{PATH}/namespaces/ns{at % NAMESPACES}/resourceclaims/c{at % CLAIMS}"
            writer.write(_request("PATCH", path, token, body))
            await _answered(reader)
            made += 1
        writer.close()
        return made

    made = sum(await asyncio.gather(*(line() for _ in range(CONNECTIONS))))
    return made, time.monotonic() - start


async def _answered(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"a write was refused: {head!r}")
    size = re.search(rb"Content-Length: (\d+)", head)
    assert size
    await reader.readexactly(int(size[1]))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        watch(*sys.argv[2:])
