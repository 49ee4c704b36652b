"""`dds doctor`: find what keeps scaler, publisher and autoscaler from working, each finding with its remedy. The doctor changes
nothing in the cluster, the fabric or a log."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import click

from dds_adapters.fabric import FabricDenied, FabricSettings, Outside, Provider, open_provider
from dds_adapters.fabric.file import FileProvider
from dds_adapters.fabric.provider import FabricLate, FabricPartly
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.doctor import LEVELS, Autoscaler, Examined, Finding, Machines, Publisher, examine, sound
from dds_adapters.kubernetes.doctor.fabric import Certificate, Login, certificate_of
from dds_adapters.machines.inventory import Inventory
from dds_adapters.machines.machine_settings import ClusterApiSettings, InventorySettings, read_settings
from dds_adapters.sql import Database
from dds_adapters.sql.urls import as_url
from dds_commands.live import (
    COMPONENT,
    FABRIC,
    MACHINE_IDS,
    MACHINES,
    autoscale_policy_source,
    bare_metal_hosts,
    fabric_of,
    policy_source,
    publish_policy_source,
)
from dds_commands.parameters import default_path, output_options, without_password
from dds_commands.running import FINE, INPUT, require
from dds_commands.screen import show, show_data, style, width
from dds_commands.serve_options import FLAG, setting, settings
from dds_commands.sources import Log
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AUTOSCALE_MODES, AutoscaleMode
from dds_core.errors import InputError
from dds_core.kit.policy import MODES, Mode
from dds_core.log import Head
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from dds_core.publisher.policy import PUBLISH_MODES, PublishMode
from dds_core.scaler.state import State

# -- the fabric ----------------------------------------------------------------------------------------------------------

SECOND = 1_000_000
PATIENCE = 20.0
"""Seconds to wait for one answer of the fabric's manager: a person waits for the result."""
LATE = 3
"""After so many timeouts in a row no more requests are sent to the manager: there may be thousands to send."""

T = TypeVar("T")

NAMED = ("fabric", "fabric_endpoint", "inventory")
"""Settings that select a fabric."""


def is_named(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether a setting or the reference driver's variable (CDI_ENDPOINT) selects a fabric."""
    return any(given[name] for name in NAMED) or bool(environment.get("CDI_ENDPOINT"))


class FabricManager:
    """The fabric's manager behind the interface that the doctor's checks use (`doctor.fabric.Manager`); `stack` closes it. It
    sends requests only when a check asks, and keeps or shows no credential and no token. `outside`: clock, transport, chance."""

    def __init__(self, settings: FabricSettings, stack: ExitStack, outside: Outside | None = None) -> None:
        """Raises InputError for unusable settings, FabricOdd for an inventory with errors."""
        self._settings = replace(
            settings, token_seconds=PATIENCE, fm_seconds=PATIENCE, cm_seconds=PATIENCE, nec_seconds=PATIENCE
        )
        self._outside = outside or Outside()
        self._provider: Provider = open_provider(self._settings, self._outside)
        stack.callback(self._provider.close)
        self._late = 0
        self._odd = ""

    @property
    def where(self) -> str:
        """Host and port, or the inventory's path."""
        if self._settings.api == "file":
            return str(self._settings.inventory)
        parts = urlsplit(self._settings.endpoint)
        return f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"

    def certificate(self) -> Certificate | None:
        """The manager's TLS certificate; None without TLS, and if credentials cannot be read (the login reports that). Raises
        Untrusted, and FabricDenied for a configured certificate that cannot be used."""
        parts = urlsplit(self._settings.endpoint)
        if parts.scheme != "https" or parts.hostname is None or self._outside.transport is not None:
            return None
        from dds_adapters.fabric.connections import trusting

        trusted = ""
        if self._settings.credentials is not None:
            from dds_adapters.fabric.fsas.credentials import Folder

            try:
                trusted = Folder(self._settings.credentials).read().certificate
            except FabricDenied:
                return None
        return certificate_of(parts.hostname, parts.port or _PORTS["https"], trusting(trusted), given=bool(trusted))

    def login(self) -> Login | None:
        if self._settings.credentials is None or self._settings.api not in ("fm", "cm"):
            return None
        from dds_adapters.fabric.fsas.credentials import Folder
        from dds_adapters.fabric.fsas.managers import Session
        from dds_adapters.fabric.fsas.token import claims_of, instant_of

        session = Session(self._settings, Folder(self._settings.credentials), self._outside)
        with ExitStack() as stack:
            stack.callback(session.close)
            began = self._now()
            claims = claims_of(session.token.current())
            ended = self._now()
        made, ends = instant_of(claims, "iat"), instant_of(claims, "exp")
        return Login(began, ended, _micros(made), _micros(ends))

    def machines(self) -> Sequence[Machine]:
        try:
            return self._provider.machines()
        except FabricPartly as partly:
            self._odd = str(partly)
            return partly.machines

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        return self._asked(lambda: self._provider.stock(machine, model))

    def left_out(self) -> str | None:
        return self._odd or self._provider.left_out()

    def counted(self) -> frozenset[str] | None:
        return self._provider.models if isinstance(self._provider, FileProvider) else None

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return self._asked(lambda: self._provider.limits(machine, models))

    def _asked(self, question: Callable[[], T]) -> T:
        if self._late >= LATE:
            raise FabricLate("was not asked any more", where=f"after {LATE} questions without an answer in time")
        try:
            found = question()
        except FabricLate:
            self._late += 1
            raise
        self._late = 0
        return found

    def _now(self) -> int:
        return round(self._outside.wall() * SECOND)


_PORTS = {"https": 443, "http": 80}


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


# -- the command ---------------------------------------------------------------------------------------------------------

Component = Literal["scaler", "publisher", "both", "autoscaler"]
COMPONENTS: dict[Component, frozenset[str]] = {
    "scaler": frozenset({COMPONENT}),
    "publisher": frozenset({PUBLISHER.name}),
    "both": frozenset({COMPONENT, PUBLISHER.name}),
    "autoscaler": frozenset({AUTOSCALER.name}),
}
"""Components to check, by the value of --component."""
_ROLES = {"ok": "good", "note": "plain", "warning": "act", "error": "bad", "unknown": "fact"}


@click.command("doctor", short_help="Check cluster, fabric, configuration, permissions, policies and logs.")
@setting("--kubeconfig", "By default $KUBECONFIG, else the pod's service account, else ~/.kube/config.", metavar="FILE")
@setting("--context", "Context of the kubeconfig; by default the current one.", metavar="NAME")
@setting(
    "--namespace",
    "Namespace of the ConfigMap that describes the fabric.",
    metavar="NAMESPACE",
    default=NAMESPACE,
    show_default=True,
)
@setting("--policy", "Policy of dds serve.", metavar="FILE")
@setting("--mode", "Mode of dds serve, where it overrides the policy.", type=click.Choice(MODES))
@setting("--log", "Database URL or SQLite file of the log of dds serve.", metavar="URL")
@setting(
    "--cluster-name",
    f"Name of the cluster in dds; the log is NAME/{COMPONENT}.",
    metavar="NAME",
    default="cluster",
    show_default=True,
)
@setting(
    "--component",
    "Component to check; by default the scaler, with a fabric given the publisher too, with --machines the autoscaler too.",
    type=click.Choice(tuple(COMPONENTS)),
)
@setting("--publish-policy", "Policy of dds publish.", metavar="FILE")
@setting("--publish-mode", "Mode of dds publish, where it overrides the policy.", type=click.Choice(PUBLISH_MODES))
@settings((*FABRIC, MACHINE_IDS))
@setting("--autoscale-policy", "Policy of dds autoscale.", metavar="FILE")
@setting(
    "--autoscale-mode",
    "Mode of dds autoscale, where it overrides the policy.",
    type=click.Choice(AUTOSCALE_MODES),
)
@settings((MACHINES,))
@output_options("table", "json", "jsonl")
def doctor(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    policy: str | None,
    mode: Mode | None,
    log: str | None,
    cluster_name: str,
    component: Component | None,
    publish_policy: str | None,
    publish_mode: PublishMode | None,
    autoscale_policy: str | None,
    autoscale_mode: AutoscaleMode | None,
    machines: str | None,
    form: str,
    **fabric: Any,
) -> int:
    """Check everything that dds serve, dds publish and dds autoscale need: API server, permissions, ConfigMap, models, pools
    and nodes, the fabric's manager, machines, Cluster Autoscaler's flags, policies, logs and clocks. Give it the settings
    and the kubeconfig of these commands.

    It changes nothing: it reads, sends reviews and dry runs, and logs in to the fabric's manager. It ends with 1 on an
    error: a fault that prevents a part of the work.
    """
    require("serve")
    wanted = COMPONENTS[component] if component else _concerned(fabric, machines)
    with ExitStack() as stack:
        publisher = Publisher(
            policy=publish_policy_source(publish_policy, publish_mode, FLAG),
            manager=lambda: FabricManager(fabric_of(fabric, os.environ), stack),
            log=f"{cluster_name}/{PUBLISHER.name}",
            bare_metal_hosts=bare_metal_hosts(fabric),
        )
        autoscaler = Autoscaler(
            policy=autoscale_policy_source(autoscale_policy, autoscale_mode, FLAG),
            machines=partial(_machines, machines),
            log=f"{cluster_name}/{AUTOSCALER.name}",
        )
        examined = Examined(
            connect=lambda: _closed_with(stack, Cluster(kubeconfig, context)),
            policy=policy_source(policy, mode, FLAG, os.environ) if COMPONENT in wanted else None,
            journal=partial(_Database, log or default_path(), stack),
            now=lambda: time.time_ns() // 1000,
            log=f"{cluster_name}/{COMPONENT}",
            namespace=namespace,
            publisher=publisher if PUBLISHER.name in wanted else None,
            autoscaler=autoscaler if AUTOSCALER.name in wanted else None,
        )
        found = list(examine(examined))
    if form == "table":
        _show(found)
    else:
        show_data(map(asdict, found), form)
    return FINE if sound(found) else INPUT


def _concerned(fabric: Mapping[str, Any], machines: str | None) -> set[str]:
    """Components whose settings were given; the scaler needs none."""
    publishes = {PUBLISHER.name} if is_named(fabric, os.environ) else set()
    return {COMPONENT, *publishes, *({AUTOSCALER.name} if machines else ())}


def _machines(path: str | None) -> Machines:
    """Read the settings only: no request goes to a provider. Raises InputError; FabricError for an unusable inventory file."""
    if path is None:
        raise InputError(
            "it is needed", where="--machines", fix="give the file that dds autoscale has; see docs/machines.md"
        )
    settings = read_settings(Path(path))
    if isinstance(settings, InventorySettings):
        inventory = Inventory(settings)
        inventory.servers()  # reads the file of requests, too
        return Machines(settings.kind, inventory.groups())
    here = isinstance(settings, ClusterApiSettings) and settings.kubeconfig is None
    return Machines(settings.kind, frozenset(settings.groups), here)


def _closed_with(stack: ExitStack, cluster: Cluster) -> Cluster:
    stack.callback(cluster.close)
    return cluster


class _Database:
    """The database of the log; `stack` closes it. Raises what `Database` raises."""

    def __init__(self, named: str, stack: ExitStack) -> None:
        self.where = without_password(named)
        self._database = stack.enter_context(Database(as_url(named)))

    def heads(self) -> list[Head]:
        return self._database.heads()

    def state(self, name: str) -> State:
        state: State = Log(self._database.log(name), self.where).state(None, None)
        return state


def _show(found: list[Finding]) -> None:
    """Print each finding beside its check with its remedy below, then the number of findings by level."""
    dress = style()
    levels, checks = max(map(len, LEVELS)), max(len(one.check) for one in found)
    column = levels + checks + 4
    for one in found:
        lines = [*_wrapped(one.what, column), *(_wrapped(f"→ {one.mend}", column) if one.mend else ())]
        show(f"{dress(one.level.ljust(levels), _ROLES[one.level])}  {one.check.ljust(checks)}  {lines[0]}")
        for line in lines[1:]:
            show(" " * column + line)
    counts = Counter(one.level for one in found)
    show(", ".join(f"{counts[level]} {level}" for level in LEVELS if counts[level]))


def _wrapped(text: str, column: int) -> list[str]:
    return wrap(text, max(width() - column, 40), break_long_words=False, break_on_hyphens=False)
