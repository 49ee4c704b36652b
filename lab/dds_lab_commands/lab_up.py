"""`dds lab up`: serve a lab on real time until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dds_commands.parameters import made, state_folder
from dds_commands.running import FINE
from dds_commands.screen import show
from dds_core.errors import InputError
from dds_lab import shipped
from dds_lab.http_frontend import HttpFrontend
from dds_lab.http_frontend.serving import LOOPBACK, run
from dds_lab.lab import Lab
from dds_lab.manager.frontend import ManagerFrontend
from dds_lab.scenario import Scenario
from dds_lab.serving import Address, serve


@click.command("up")
@click.argument("scenario", metavar="[SCENARIO]", default="playground")
@click.option("--listen", "host", metavar="HOST", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port; by default any free one.")
@click.option("--kubeconfig", "path", metavar="FILE", help="Kubeconfig to write; by default a new file.")
@click.option("--no-tls", is_flag=True, help="Serve plain HTTP; only on loopback.")
@click.option("--speed", type=click.FloatRange(0.001, 10_000), help="Lab seconds per real second.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed instead of the scenario's.")
def up(
    scenario: str, host: str, port: int, path: str | None, no_tls: bool, speed: float | None, seed: int | None
) -> int:
    """Serve a scenario on real time, and write a kubeconfig for it, until Ctrl-C.

    Without SCENARIO it serves a small cluster in which nothing happens by itself. It listens on loopback; any other address
    needs TLS. Every request needs a token of the kubeconfig. A hardware manager in the scenario always listens on loopback;
    its credentials are written to a folder beside the kubeconfig.
    """
    found = shipped.find(scenario)
    target = Path(path) if path is not None else _own_file(found.name)
    if path is not None and target.exists():
        raise InputError("it is there already", where=path, fix="choose another name or remove it")
    address = Address(host, port, not no_tls)
    secret = target.with_suffix(".cdi")
    if found.parts.manager is not None and secret.exists():
        raise InputError("it is there already", where=str(secret), fix="choose another --kubeconfig or remove it")
    try:
        run(lambda: _serve(found, address, target, secret, speed, seed))
    finally:
        with contextlib.suppress(OSError):
            target.unlink()
        shutil.rmtree(secret, ignore_errors=True)
    show("the lab is gone")
    return FINE


async def _serve(
    scenario: Scenario, address: Address, kubeconfig: Path, secret: Path, speed: float | None, seed: int | None
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    lines: list[str] = []
    await serve(
        scenario, address, stop, _announce(kubeconfig, lines), speed=speed, seed=seed,
        managed=lambda face: lines.extend(manager_lines(face, secret)),
    )  # fmt: skip


def manager_lines(face: ManagerFrontend, secret: Path) -> list[str]:
    """Lines that say how to reach the hardware's manager. Writes its credentials to the folder `secret`."""
    settings = face.manager.settings
    told = [f"the hardware's manager ({settings.api}) is at {face.url}"]
    if settings.api != "nec":
        face.write_credentials(secret)
        cluster = f", cluster {settings.cluster}" if settings.api == "cm" else ""
        told += [f"  credentials: {secret}", f"  tenant {settings.tenant}{cluster}"]
    return told


def _announce(kubeconfig: Path, manager: Sequence[str]) -> Callable[[HttpFrontend, Lab], None]:
    def announce(face: HttpFrontend, lab: Lab) -> None:
        face.kubeconfig(kubeconfig)
        contexts = ", ".join(face.credentials.tokens)
        show(f"{lab.scenario.name} is served at {face.url}, {lab.scenario.about or 'a lab'}")
        show(f"  export KUBECONFIG={kubeconfig}")
        show("  kubectl get nodes,resourceslices,resourceclaims -A")
        show("  kubectl get composabilityrequests,composableresources -w")
        for line in manager:
            show(line)
        _tell(f"contexts: {contexts}. Ctrl-C ends it.")
        lab.tell = _tell

    return announce


def _tell(text: str) -> None:
    show(text)
    sys.stdout.flush()  # a program that reads the output through a pipe waits for it


def _own_file(scenario: str) -> Path:
    """Path of a kubeconfig that belongs to this process alone."""
    return made(state_folder("lab"), "give --kubeconfig FILE") / f"{scenario}-{os.getpid()}.kubeconfig"
