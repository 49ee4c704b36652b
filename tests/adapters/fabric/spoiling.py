"""A simulated manager behind real HTTP(S), with answers as managers, gateways and proxies give them."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.adapters.fabric.rig import TOKEN

HOP = ("content-length", "transfer-encoding", "connection")


@dataclass(frozen=True)
class Said:
    """An answer; only half of the body comes at once if the other half is to be waited for `late` seconds."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    late: float = 0.0

    def with_json(self, change: Callable[[Any], None]) -> Said:
        found = json.loads(self.body)
        change(found)
        return replace(self, body=json.dumps(found).encode())


def _odd_entries(found: Any) -> None:
    """Beside the good ones. A device that is listed twice in the same words is one."""
    if "resources" in found:
        nic = {"device": {"deviceID": "nic-9", "model": 25600}, "detected": True, "nodeIDs": []}
        drive = {"device": {"deviceID": "", "model": "Disk"}, "detected": False}
        found["resources"] += [nic, drive, None, found["resources"][-1]]
        found["count"] = len(found["resources"])
    elif "nodes" in found:
        found["nodes"].append({"id": 7})
    elif "nodegroups" in found:
        found["nodegroups"].append({"uuid": ""})
    elif "machines" in found.get("data", {}):
        found["data"]["machines"] += [{"mach_uuid": 5}, "a machine"]


def _upper(found: Any) -> None:
    for one in (*found.get("nodes", ()), *found.get("data", {}).get("machines", ())):
        for key in one.keys() & {"id", "mach_uuid"}:
            one[key] = one[key].upper()


def _first_page(answer: Said) -> Said:
    def counted(found: Any) -> None:
        if "count" in found:
            found["count"] += 10

    linked = {**answer.headers, "Link": '</x?page=2>; rel="next"'} if b'"count"' not in answer.body else answer.headers
    return replace(answer.with_json(counted), headers=linked)


PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"

SPOILT: dict[str, Callable[[Said], Said]] = {
    "entries": lambda answer: answer.with_json(_odd_entries),
    "gzip": lambda answer: replace(
        answer, body=gzip.compress(answer.body), headers={**answer.headers, "Content-Encoding": "gzip"}
    ),
    "bom": lambda answer: replace(answer, body=b"\xef\xbb\xbf" + answer.body),
    "case": lambda answer: answer.with_json(_upper),
    "page": _first_page,
    "task": lambda _: Said(202, b'{"applyID": "0af1"}'),
    "busy": lambda _: Said(429, b'{"code": "E42900"}', {"Retry-After": "7"}),
    "web page": lambda _: Said(502, PAGE, {"Content-Type": "text/html"}),
    "login page": lambda _: Said(200, PAGE, {"Content-Type": "text/html"}),
    "redirect": lambda _: Said(302, b"", {"Location": "https://elsewhere.example/"}),
    "late": lambda answer: replace(answer, late=3.0),
}


class Served:
    """Serves what the transport answers, all but logins spoilt as `how` says."""

    def __init__(self, transport: httpx.BaseTransport, tls: ssl.SSLContext | None) -> None:
        self.how = ""
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Tests read errors, not this."""

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])))

            def _answer(self, body: bytes) -> None:
                path, mark, query = self.path.partition("?")
                url = f"http://manager.example{path.lower() if served.how == 'case' else path}{mark}{query}"
                request = httpx.Request(self.command, url, headers=dict(self.headers.items()), content=body)
                try:
                    answer = transport.handle_request(request)
                except httpx.TransportError:  # the simulated manager is away
                    self.close_connection = True
                    return
                said = Said(answer.status_code, answer.read(), dict(answer.headers))
                if TOKEN not in self.path and said.status == 200:
                    said = SPOILT[served.how](said) if served.how in SPOILT else said
                self.send_response(said.status)
                for name, value in said.headers.items():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                half = len(said.body) // 2 if said.late else 0
                self.wfile.write(said.body[:half])
                time.sleep(said.late)
                try:
                    self.wfile.write(said.body[half:])
                except OSError:  # who asked has gone
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls is not None else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
