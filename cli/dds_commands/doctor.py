"""`dds doctor`: find what keeps scaler, publisher and autoscaler from working, each finding with its remedy. The doctor changes
nothing in the cluster, the fabric or a log."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from dds_adapters.fabric import FabricDenied, FabricSettings, Outside, Provider, open_provider
from dds_adapters.fabric.file import FileProvider
from dds_adapters.fabric.provider import FabricLate, FabricPartly
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.doctor import (
    LEVELS,
    Examined,
    ExaminedAutoscaler,
    ExaminedPublisher,
    Finding,
    Machines,
    examine,
    sound,
)
from dds_adapters.kubernetes.doctor.fabric import Certificate, Login, certificate_of
from dds_adapters.machines.inventory import Inventory
from dds_adapters.machines.machine_settings import ClusterApiSettings, InventorySettings, read_settings
from dds_adapters.sql import Database
from dds_adapters.sql.urls import as_url
from dds_commands.live import autoscale_policy_source, fabric_of, policy_source, publish_policy_source
from dds_commands.live_options import COMPONENTS, OfFabric
from dds_commands.live_options import Doctor as Options
from dds_commands.parameters import default_path, output_options, without_password
from dds_commands.running import FINE, INPUT, require
from dds_commands.screen import show, show_data, style, width
from dds_commands.settings import FLAG, takes
from dds_commands.sources import Log
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.errors import InputError
from dds_core.log import Head
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock
from dds_core.scaler.component import SCALER

# -- the fabric ----------------------------------------------------------------------------------------------------------

SECOND = 1_000_000
PATIENCE = 20.0
"""Seconds to wait for one answer of the fabric's manager: a person waits for the result."""
LATE = 3
"""After so many timeouts in a row no more requests are sent to the manager: there may be thousands to send."""

T = TypeVar("T")


def is_named(given: OfFabric, environment: Mapping[str, str]) -> bool:
    """Whether a setting or the reference driver's variable (CDI_ENDPOINT) selects a fabric."""
    return bool(given.fabric or given.fabric_endpoint or given.inventory or environment.get("CDI_ENDPOINT"))


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

_ROLES = {"ok": "good", "note": "plain", "warning": "act", "error": "bad", "unknown": "fact"}


@click.command("doctor", short_help="Check cluster, fabric, configuration, permissions, policies and logs.")
@takes(Options)
@output_options("table", "json", "jsonl")
def doctor(given: Options, form: str) -> int:
    """Check everything that dds serve, dds publish and dds autoscale need: API server, permissions, ConfigMap, models, pools
    and nodes, the fabric's manager, machines, Cluster Autoscaler's flags, policies, logs and clocks. Give it the settings
    and the kubeconfig of these commands.

    It changes nothing: it reads, sends reviews and dry runs, and logs in to the fabric's manager. It ends with 1 on an
    error: a fault that prevents a part of the work.
    """
    require("serve")
    wanted = COMPONENTS[given.component] if given.component else _concerned(given)
    with ExitStack() as stack:
        publisher = ExaminedPublisher(
            policy=publish_policy_source(given.publish_policy, given.publish_mode, FLAG),
            manager=lambda: FabricManager(fabric_of(given.fabric, os.environ), stack),
            log=f"{given.cluster_name}/{PUBLISHER.name}",
            bare_metal_hosts=given.nodes.bare_metal_hosts,
        )
        autoscaler = ExaminedAutoscaler(
            policy=autoscale_policy_source(given.autoscale_policy, given.autoscale_mode, FLAG),
            machines=partial(_machines, given.source.machines),
            log=f"{given.cluster_name}/{AUTOSCALER.name}",
        )
        policy = policy_source(given.policy, given.mode, FLAG, os.environ)
        examined = Examined(
            connect=lambda: stack.enter_context(closing(Cluster(given.kube.kubeconfig, given.kube.context))),
            policy=policy if SCALER.name in wanted else None,
            journal=partial(_Database, given.log or default_path(), stack),
            now=lambda: time.time_ns() // 1000,
            log=f"{given.cluster_name}/{SCALER.name}",
            namespace=given.kube.namespace,
            publisher=publisher if PUBLISHER.name in wanted else None,
            autoscaler=autoscaler if AUTOSCALER.name in wanted else None,
        )
        found = list(examine(examined))
    if form == "table":
        _show(found)
    else:
        show_data(map(asdict, found), form)
    return FINE if sound(found) else INPUT


def _concerned(given: Options) -> set[str]:
    """Components whose settings were given; the scaler needs none."""
    publishes = {PUBLISHER.name} if is_named(given.fabric, os.environ) else set()
    return {SCALER.name, *publishes, *({AUTOSCALER.name} if given.source.machines else ())}


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


class _Database:
    """The database of the log; `stack` closes it. Raises what `Database` raises."""

    def __init__(self, named: str, stack: ExitStack) -> None:
        self.where = without_password(named)
        self._database = stack.enter_context(Database(as_url(named)))

    def heads(self) -> list[Head]:
        return self._database.heads()

    def state(self, name: str) -> Any:
        return Log(self._database.log(name), self.where).state(None, None)


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
