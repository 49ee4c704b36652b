"""What the tests of the fabric's clients share: time that passes when somebody waits, a manager that a function plays, models."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import httpx

from dds_adapters.fabric import Api, FabricSettings, Outside, Provider, open_provider
from dds_core.publisher.model import Machine, PoolModel

TENANT = "3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10"
CLUSTER = "9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24"
A100 = PoolModel(0, "NVIDIA A100", "nvidia-a100", "gpu.nvidia.com")
H100 = PoolModel(1, "NVIDIA H100", "nvidia-h100", "gpu.nvidia.com")
M1 = Machine("m-1", "one", "0")
FIELDS = {
    "username": "user",
    "password": "a-password",
    "realm": "CDI",
    "client_id": "client",
    "client_secret": "a-secret",
}
TOKEN = "/protocol/openid-connect/token"

Handler = Callable[[httpx.Request], httpx.Response]


class Clock:
    """Seconds that pass only while somebody waits; `waits` are the waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def seconds(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1_800_000_000

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def folder(path: Path, **fields: str) -> Path:
    """Credentials as a mounted Secret has them."""
    path.mkdir(exist_ok=True)
    for name, value in {**FIELDS, **fields}.items():
        (path / name).write_text(value, encoding="utf-8")
    return path


def jwt(**claims: Any) -> str:
    """A token that says this of itself; nothing is signed."""
    parts = ({"alg": "none"}, claims)
    return ".".join(
        (*(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts), "sig")
    )


def said(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """An answer in JSON."""
    return httpx.Response(status, headers=headers, content=json.dumps(body).encode())


def login(clock: Clock, life: float = 300.0) -> httpx.Response:
    return said({"access_token": jwt(exp=int(clock.wall() + life)), "expires_in": int(life)})


class Desk:
    """A client, and the manager that `handler` plays behind the login. `asked` are the requests, the logins among them."""

    def __init__(self, path: Path, handler: Handler, api: Api = "fm", fields: Mapping[str, str] | None = None) -> None:
        self.clock = Clock()
        self.handler = handler
        self.token: Handler = lambda request: login(self.clock)
        self.asked: list[httpx.Request] = []
        self.observed: list[tuple[str, float, str]] = []
        self.settings = FabricSettings(
            api,
            endpoint="http://fabric.example" if api == "nec" else "https://fabric.example/base/",
            tenant=TENANT,
            cluster=CLUSTER,
            credentials=folder(path / "credentials", **(fields or {})),
        )
        self.provider: Provider = open_provider(self.settings, self.outside(httpx.MockTransport(self._answer)))

    def outside(self, transport: httpx.BaseTransport | None) -> Outside:
        return Outside(
            clock=self.clock.seconds,
            wall=self.clock.wall,
            sleep=self.clock.sleep,
            random=Random(1),
            transport=transport,
            observe=lambda call, seconds, outcome: self.observed.append((call, seconds, outcome)),
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if request.url.path.endswith(TOKEN):
            return self.token(request)
        return self.handler(request)

    @property
    def logins(self) -> int:
        return sum(one.url.path.endswith(TOKEN) for one in self.asked)

    @property
    def calls(self) -> list[httpx.Request]:
        return [one for one in self.asked if not one.url.path.endswith(TOKEN)]
