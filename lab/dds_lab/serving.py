"""Runs a lab on real time and serves it over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import secrets
import time as wall
from collections.abc import Callable
from dataclasses import dataclass

from dds_lab import setup
from dds_lab.api.requests import User
from dds_lab.faults import wire
from dds_lab.http_frontend import Credentials, HttpFrontend
from dds_lab.http_frontend.credentials import ADMIN
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.lab import Lab
from dds_lab.manager import Login
from dds_lab.manager.frontend import ManagerFrontend
from dds_lab.scenario import Scenario
from dds_lab.scenario.trouble import WireFault
from dds_lab.time import RealTime, Time

HISTORY = 100_000


@dataclass(frozen=True)
class Address:
    """The address to listen on; port 0 means any free port."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True


async def serve(
    scenario: Scenario,
    address: Address,
    stop: asyncio.Event,
    ready: Callable[[HttpFrontend, Lab], None],
    *,
    speed: float | None = None,
    seed: int | None = None,
    managed: Callable[[ManagerFrontend], None] = lambda face: None,
) -> None:
    """Serve until `stop` is set. `ready` is called when the server answers. If the scenario has a hardware manager, `managed` is
    called before; the manager always listens on loopback and has new credentials at each start. The objects with which `admin`
    can guard and exchange devices are installed. The lab's time starts at the wall clock's, whatever the scenario says. Raises
    InputError if it cannot listen, BadObject if the API server refuses an object of the scenario."""
    loop = asyncio.get_running_loop()
    time = RealTime(
        loop,
        lambda: wall.time_ns() // 1000,
        scenario.seed if seed is None else seed,
        scenario.speed if speed is None else speed,
    )
    lab = Lab(scenario, time, track_updates=True, history=HISTORY, login=new_login())
    face = HttpFrontend(lab.server, time, _credentials(scenario), wire_faults(scenario, time))
    await face.listen(address.host, address.port, address.tls)
    manager_face = None
    try:
        manager_face = await managed_by(lab)
        lab.start()
        setup.install_guard(lab.client(ADMIN.name), ADMIN.name)
        if manager_face is not None:
            managed(manager_face)
        ready(face, lab)
        await stop.wait()
    finally:
        lab.stop()
        if manager_face is not None:
            await manager_face.stop()
        await face.stop()


async def managed_by(lab: Lab, host: str = LOOPBACK) -> ManagerFrontend | None:
    """The manager's frontend, listening; None if the scenario has no manager. Another host than loopback needs TLS."""
    knobs = lab.scenario.parts.manager
    if lab.manager is None or knobs is None:
        return None
    face = ManagerFrontend(lab.manager, lab.time)
    await face.listen(host, tls=knobs.api != "nec", certificate=knobs.certificate, exposed=host != LOOPBACK)
    return face


def new_login() -> Login:
    """New secrets for this start."""
    return Login(password=secrets.token_urlsafe(18), client_secret=secrets.token_urlsafe(18))


def _credentials(scenario: Scenario) -> Credentials:
    users = {one.name: User(one.name, one.groups) for one in scenario.cluster.users}
    return Credentials({"admin": ADMIN, **users})


def wire_faults(scenario: Scenario, time: Time) -> wire.WireFaults | None:
    """The scenario's wire faults; None without any."""
    rules = [_rule(one) for one in scenario.faults.wire]
    return wire.WireFaults(rules, time.now, time.random("wire")) if rules else None


def _rule(one: WireFault) -> wire.Rule:
    return wire.Rule(
        action=_action(one),
        users=one.users,
        verbs=one.verbs,
        resources=one.resources,
        start=one.since,
        end=float("inf") if one.until is None else one.until,
        share=1.0 if one.action == "duplicate" else one.share,
        limit=one.times or None,
    )


def _action(one: WireFault) -> wire.Action:
    wait = one.wait.latency()
    actions: dict[str, wire.Action] = {
        "status": wire.Refuse(one.code, max(1, round(one.wait.fixed or 0))),
        "slow": wire.Slow(wait),
        "lost": wire.Lost(),
        "cut": wire.Cut(wait, one.mid_line),
        "half_open": wire.HalfOpen(wait),
        "expired": wire.Expire(),
        "duplicate": wire.Duplicate(one.share),
        "delay": wire.Delay(wait),
    }
    return actions[one.action]
