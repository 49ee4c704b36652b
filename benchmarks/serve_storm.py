"""A server that lets everything happen at once: a recorded burst, copied under other names, on all watches, as fast as it goes.

Each copy has nodes, a fabric, pods, claims and devices of its own, in the recorded order; lists have nothing but the
configuration and the device classes. The last object of each watch has a uid that begins with LAST.

`python -m benchmarks.serve_storm COPIES KUBECONFIG` tells how many events there are, lets them come at a line of input, and
serves until it is killed.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections import defaultdict
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from dds_adapters.kubernetes import read_recording
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS

RECORDING = Path(__file__).parents[1] / "tests/data/recordings/burst.jsonl.gz"
LAST = "ffffffff"
"""Begins the uid of an object that is the last of its watch."""
LISTED = ("configmaps", "deviceclasses")
SERVED = VERSIONS.keys() - {"devicetaintrules"}
_NAMES = re.compile(
    rb'\bnode00|\bburst-|\bcomposability-(?=\w)|-fabric1\b|"cohdi.io/fabric":"1"|"values":\["1"\]|(?P<uid>\b[0-9a-f]{8}(?=-))'
)


def _copy(raw: bytes, number: int) -> bytes:
    """The object under names of its own: what refers to it in other objects is renamed alike."""

    def renamed(found: re.Match[bytes]) -> bytes:
        name = found[0]
        if found["uid"]:
            return b"%02x" % number + name[2:]
        if b"1" in name:
            return name.replace(b"1", b"%d" % (number + 1))
        return name.replace(b"00", b"%02d-" % number) if name == b"node00" else name + b"%02d-" % number

    return _NAMES.sub(renamed, raw)


class Storm:
    """`streams` has for each watched resource all that its watch will send, `lists` what a list has, `events` is their number."""

    def __init__(self, copies: int) -> None:
        self.lists: dict[str, list[bytes]] = defaultdict(list)
        events: dict[str, list[bytes]] = defaultdict(list)
        recorded = [one for one in read_recording(RECORDING) if one.type != "BOOKMARK"]
        for one in recorded:
            if one.resource in LISTED:
                self.lists[one.resource].append(one.raw)
        moving = [one for one in recorded if one.resource not in LISTED]
        for number in range(copies):
            for one in moving:
                events[one.resource].append(_event(one.type, _copy(one.raw, number)))
        for resource, lines in events.items():
            first = next(one.raw for one in moving if one.resource == resource and one.type == "ADDED")
            lines.append(_event("ADDED", _last(first)))
        self.events = sum(map(len, events.values()))
        self.streams = {resource: b"".join(lines) for resource, lines in events.items()}
        self.go = threading.Event()

    def converse(self, connection: socket.socket) -> None:
        """Answer one request after the other."""
        with connection, connection.makefile("rb") as requests:
            while line := requests.readline():
                size = 0
                while head := requests.readline().strip():
                    name, _, value = head.partition(b":")
                    size = int(value) if name.lower() == b"content-length" else size
                requests.read(size)
                method, url, _ = line.decode().split()
                try:
                    if "watch=true" in url:
                        self._watch(connection, _resource(url))
                    else:
                        connection.sendall(self._answer(method, url))
                except OSError:  # the client has gone
                    return

    def _watch(self, connection: socket.socket, resource: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.go.wait()
        connection.sendall(self.streams.get(resource, b""))
        threading.Event().wait()

    def _answer(self, method: str, url: str) -> bytes:
        resource = _resource(url)
        if resource == "kube-system":
            return _response(200, b'{"metadata":{"uid":"kube-system-of-the-storm"}}')
        if method != "GET" or resource not in SERVED:
            return _response(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        if "continue" in parse_qs(urlsplit(url).query):
            return _response(410, b'{"kind":"Status","code":410,"reason":"Expired"}')
        items = b",".join(self.lists.get(resource, ()))
        return _response(200, b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % items)


def _resource(url: str) -> str:
    return urlsplit(url).path.rpartition("/")[2]


def _event(type: str, raw: bytes) -> bytes:
    line = b'{"type":"%b","object":%b}\n' % (type.encode(), raw)
    return b"%x\r\n%b\r\n" % (len(line), line)


def _last(raw: bytes) -> bytes:
    """An object that nothing refers to."""
    shape = json.loads(_copy(raw, 250))
    shape["metadata"] |= {"name": "last", "uid": LAST + shape["metadata"]["uid"][8:]}
    return msgspec.json.encode(shape)


def _response(code: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body)


def serve(copies: int, kubeconfig: str) -> None:
    """Until killed."""
    storm = Storm(copies)
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    Path(kubeconfig).write_text(
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{listener.getsockname()[1]}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    threading.Thread(target=_accept, args=(listener, storm), daemon=True).start()
    print(json.dumps({"events": storm.events, "watches": len(storm.streams)}), flush=True)
    sys.stdin.readline()
    storm.go.set()
    threading.Event().wait()


def _accept(listener: socket.socket, storm: Storm) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=storm.converse, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
