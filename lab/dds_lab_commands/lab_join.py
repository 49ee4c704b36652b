"""`dds lab join` and `dds lab leave`: a scenario's hardware in an existing cluster, and its removal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click
import yaml

from dds_adapters.kubernetes.cluster import Cluster
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, note, show
from dds_core.errors import DdsError, InputError
from dds_lab import shipped
from dds_lab.api.status import ApiError
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.http_frontend.serving import run as run_loop
from dds_lab.joined.checks import Options
from dds_lab.joined.joining import How, Played, leave_now
from dds_lab.joined.joining import join as join_cluster
from dds_lab.joined.leaving import Left
from dds_lab.joined.marks import USER_AGENT, role
from dds_lab.manager.frontend import ManagerFrontend
from dds_lab.scenario import Scenario
from dds_lab_commands.lab_up import manager_lines

_PARTS = ("operator", "publisher", "vendor", "kubelet", "steps")
_SECRET = "kubectl create secret generic credentials -n composable-resource-operator-system --from-file="


@click.command("join")
@click.argument("scenario", metavar="[SCENARIO]", default="playground")
@click.option("--kubeconfig", "path", metavar="FILE", help="Cluster and user.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default the current one.")
@click.option("--nodes", metavar="NAMES", help="Existing nodes, separated by commas, that get the devices.")
@click.option("--without", multiple=True, type=click.Choice(_PARTS), help="Leave this part out; repeatable.")
@click.option("--scaler", is_flag=True, help="Play the simulated reference scaler too.")
@click.option(
    "--manager", type=click.Choice(("fm", "cm", "nec")), help="Serve a manager of the hardware with this API."
)
@click.option(
    "--listen", "host", metavar="HOST", default=LOOPBACK, show_default=True, help="Where the manager listens."
)
@click.option(
    "--beside", multiple=True, type=click.Choice(("operator", "drivers")), help="Join although there are these."
)
@click.option("--record", "recording", metavar="FILE", help="Record the cluster, and judge its scaler meanwhile.")
@click.option("--keep", is_flag=True, help="Leave the objects at the end; 'dds lab leave' removes them.")
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would be made.")
@click.option("--print-role", is_flag=True, help="Print the ClusterRole that the user needs, and end.")
def join(
    scenario: str, path: str | None, context: str | None, nodes: str | None, without: tuple[str, ...], scaler: bool,
    manager: Literal["fm", "cm", "nec"] | None, host: str, beside: tuple[str, ...], recording: str | None,
    keep: bool, dry: bool, print_role: bool,
) -> int:  # fmt: skip
    """Add a scenario's hardware to a cluster, in real time, until Ctrl-C: nodes and devices that do not exist, pools, drivers,
    the operator with its fabric, and the scenario's work. The cluster's scheduler and controllers and its scaler do the rest.

    Everything carries the label lab.dynamic-device-scaler.io/joined, and goes at the end. After a crash the next call, or
    `dds lab leave`, removes what is left. Ends with 2 if a step fails, or with --record if the judge finds something.
    """
    if print_role:
        sys.stdout.write(yaml.safe_dump(role(), sort_keys=False))
        return FINE
    if path is None:
        raise InputError("no cluster is named", fix="give --kubeconfig FILE")
    chosen = tuple(one.strip() for one in nodes.split(",") if one.strip()) if nodes is not None else ()
    if nodes is not None and not chosen:
        raise InputError("names no node", where="--nodes", fix="give names, separated by commas")
    options = Options(chosen, frozenset(without), scaler, manager or "", frozenset(beside))
    with tempfile.TemporaryDirectory(prefix="dds-lab-") as folder:
        how = How(
            dry=dry, keep=keep, recording=recording, judged=recording is not None, host=host,
            managed=lambda face: _managed(face, Path(folder)),
        )  # fmt: skip
        return played(shipped.find(scenario), path, context, options, how)


def _managed(face: ManagerFrontend, folder: Path) -> list[str]:
    """Lines that say how a program reaches the hardware's manager."""
    wanted = face.manager.settings.api != "nec"
    return [*manager_lines(face, folder), *([f"  {_SECRET}{folder}"] if wanted else [])]


@click.command("leave")
@click.option("--kubeconfig", "path", metavar="FILE", required=True, help="Cluster and user.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default the current one.")
def leave(path: str, context: str | None) -> int:
    """Remove everything that `dds lab join` has made in a cluster, however it ended. One that still runs ends first."""
    with contextlib.closing(Cluster(path, context, user_agent=USER_AGENT)) as cluster, _words(cluster):
        left = leave_now(cluster, note)
    if not left.removed and not left.stays:
        show("there is no lab")
    return _tell_left(left)


def played(scenario: Scenario, path: str, context: str | None, options: Options, how: How) -> int:
    """Join, play and leave; the exit code."""
    with contextlib.closing(Cluster(path, context, user_agent=USER_AGENT)) as cluster, _words(cluster):
        found = run_loop(lambda: _play(cluster, scenario, options, how))
    if how.dry:
        return FINE
    if found.why:
        note(f"ended early: {found.why}")
    for one in found.failures:
        note(one)
    if how.judged:
        show(f"the judge found {counted(len(found.found), 'fault')}" if found.found else "the judge found nothing")
    if how.keep:
        show("its objects stay; 'dds lab leave' removes them")
        code = FINE
    else:
        code = _tell_left(found.left)
    return VERIFICATION if found.found or found.failures else code


@contextlib.contextmanager
def _words(cluster: Cluster) -> Iterator[None]:
    """What the API server answers, as one line."""
    try:
        yield
    except ApiError as error:
        fix = "see that the API server is reachable, and what this user may do"
        raise DdsError(f"{error.code} {error.reason}: {error}", where=cluster.where, fix=fix) from None


async def _play(cluster: Cluster, scenario: Scenario, options: Options, how: How) -> Played:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    names = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        stop.set()
        for name in names:  # a second signal ends it at once
            loop.remove_signal_handler(name)
        if not how.dry:
            _say("leaving")

    for name in names:
        loop.add_signal_handler(name, end)
    return await join_cluster(cluster, scenario, options, how, stop, _say)


def _say(text: str) -> None:
    show(text)
    sys.stdout.flush()  # a program that reads the output through a pipe waits for it


def _tell_left(left: Left) -> int:
    for kind, number in sorted(left.removed.items()):
        show(f"removed {number} {kind}")
    for one in left.stays:
        note(f"stays: {one}")
    return FINE if not [one for one in left.stays if not one.startswith("namespaces")] else 1
