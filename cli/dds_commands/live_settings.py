"""The settings that every live command has, whatever it runs: the log, the cluster, the lease, addresses, log lines; and how they
become what a process is told. Nothing is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from dds_adapters.kubernetes import access
from dds_adapters.kubernetes.config import NAMESPACE
from dds_adapters.kubernetes.lease import new_identity
from dds_adapters.kubernetes.lease_state import LeaseSettings
from dds_adapters.live.settings import CHECKPOINT_EVENTS, WRITERS, Listen, LiveSettings
from dds_commands.parameters import without_password
from dds_commands.places import default_path
from dds_commands.settings import DEFAULT, Row, origin, setting
from dds_core.errors import InputError
from dds_core.log.envelope import component_of

Option = Callable[[Any], Any]
_OFF = "0"
LEVELS = ("debug", "info", "warning", "error")
FORMS = ("text", "json")
_LEASE = LeaseSettings()


def place_settings(component: str) -> tuple[Option, ...]:
    """Where the log and the cluster are."""
    return (
        setting(
            "--log",
            "The log: a database URL or the path of a SQLite file; by default a file under $XDG_STATE_HOME.",
            metavar="URL",
        ),
        setting("--migrate/--no-migrate", "Make or upgrade the schema of the log's database at start.", default=False),
        setting(
            "--cluster-name",
            f"What the cluster is called here; its log is named NAME/{component}.",
            metavar="NAME",
            default="cluster",
            show_default=True,
        ),
        setting(
            "--kubeconfig",
            "By default as kubectl does: $KUBECONFIG, a pod's own account, ~/.kube/config.",
            metavar="FILE",
        ),
        setting("--context", "A context of the kubeconfig; by default its current one.", metavar="NAME"),
        setting(
            "--namespace",
            "Namespace of the ConfigMap that describes the fabric.",
            metavar="NAMESPACE",
            default=NAMESPACE,
            show_default=True,
        ),
    )


def process_settings(lease: str, health: str, metrics: str) -> tuple[Option, ...]:
    """How a process runs; by default with a lease of this name, and served on these addresses."""
    return (
        setting(
            "--leader-elect/--no-leader-elect",
            "Lead only while holding a Lease, for several replicas on one PostgreSQL.",
            default=False,
        ),
        setting("--lease-name", "Name of the Lease.", metavar="NAME", default=lease, show_default=True),
        setting("--lease-namespace", "Its namespace; by default that of the ConfigMap.", metavar="NAMESPACE"),
        setting(
            "--lease-duration",
            "Seconds for which others leave a Lease alone that nobody renews.",
            type=float,
            metavar="SECONDS",
            default=_LEASE.duration,
            show_default=True,
        ),
        setting(
            "--lease-renew-deadline",
            "Seconds after which a leader that could not renew has lost.",
            type=float,
            metavar="SECONDS",
            default=_LEASE.renew_deadline,
            show_default=True,
        ),
        setting(
            "--lease-retry-period",
            "Seconds between tries, give or take a fifth.",
            type=float,
            metavar="SECONDS",
            default=_LEASE.retry_period,
            show_default=True,
        ),
        setting(
            "--health-probe-bind-address",
            "Where /livez and /readyz are served; 0 for nowhere.",
            metavar="HOST:PORT",
            default=health,
            show_default=True,
        ),
        setting(
            "--metrics-bind-address",
            "Where /metrics is served; 0 for nowhere.",
            metavar="HOST:PORT",
            default=metrics,
            show_default=True,
        ),
        setting(
            "--metrics-secure/--no-metrics-secure",
            "Serve metrics over TLS, to those whom the API server knows and lets.",
            default=False,
        ),
        setting(
            "--metrics-cert-file", "Certificate (PEM) for the metrics; by default one made at start.", metavar="FILE"
        ),
        setting("--metrics-key-file", "Its key.", metavar="FILE"),
        setting(
            "--checkpoint-events",
            "Events after which a checkpoint is written; 0 for never.",
            type=click.IntRange(min=0),
            metavar="NUMBER",
            default=CHECKPOINT_EVENTS,
            show_default=True,
        ),
        setting("--archive-folder", "Move what lies before a checkpoint into files there.", metavar="FOLDER"),
        setting(
            "--writers",
            "Threads that write to the API server.",
            type=click.IntRange(1, 64),
            metavar="NUMBER",
            default=WRITERS,
            show_default=True,
        ),
    )


LINES = (
    setting(
        "--log-level",
        "Least severity of the lines on standard error.",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
    ),
    setting("--log-format", "Form of these lines.", type=click.Choice(FORMS), default="text", show_default=True),
)
"""What is said on standard error."""


class Where(NamedTuple):
    """The log, the cluster, and how to speak."""

    log: str
    cluster_name: str
    migrate: bool
    kubeconfig: str | None
    context: str | None
    log_level: str
    log_format: str


def where_of(ctx: click.Context, *components: str) -> Where:
    """What the settings say of it. Raises InputError for a name that cannot be a log's, or a URL that cannot be read."""
    given = ctx.params
    log = given["log"] or default_path()
    without_password(log)  # a URL that cannot be read is told here
    for component in components:
        component_of(f"{given['cluster_name']}/{component}")
    return Where(
        log,
        given["cluster_name"],
        given["migrate"],
        given["kubeconfig"],
        given["context"],
        given["log_level"],
        given["log_format"],
    )


def live_of(ctx: click.Context) -> LiveSettings:
    """What a process is told. Raises InputError for values that cannot be used."""
    given = ctx.params
    return LiveSettings(
        identity=new_identity(),
        config_namespace=given["namespace"],
        leader_elect=given["leader_elect"],
        lease_namespace=given["lease_namespace"] or given["namespace"],
        lease_name=given["lease_name"],
        lease=LeaseSettings(given["lease_duration"], given["lease_renew_deadline"], given["lease_retry_period"]),
        health=_listen(ctx, "health_probe_bind_address"),
        metrics=_listen(ctx, "metrics_bind_address"),
        metrics_secure=given["metrics_secure"],
        metrics_cert=path(given["metrics_cert_file"]),
        metrics_key=path(given["metrics_key_file"]),
        checkpoint_events=given["checkpoint_events"],
        archive_folder=path(given["archive_folder"]),
        writers=given["writers"],
    )


def used(row: Row, where: Where, live: LiveSettings) -> Row:
    """A setting with what is used where nothing was said; no password is shown."""
    if row.name == "kubeconfig" and row.origin == DEFAULT and os.environ.get("KUBECONFIG"):
        row = row._replace(origin="environment KUBECONFIG")
    values = {
        "log": without_password(where.log),
        "kubeconfig": access.found(where.kubeconfig, where.context).name,
        "lease-namespace": live.lease_namespace,
    }
    return row._replace(value=values.get(row.name, row.value))


def _listen(ctx: click.Context, name: str) -> Listen | None:
    text = ctx.params[name]
    with naming(ctx, name):
        return None if text == _OFF else Listen.read(text)


@contextmanager
def naming(ctx: click.Context, name: str) -> Iterator[None]:
    """An error names the setting and where its value comes from."""
    try:
        yield
    except InputError as error:
        where = origin(ctx, name)
        key = name.replace("_", "-")
        raise InputError(
            error.what, where=f"--{key}" if where == "flag" else f"{where}: {key}", fix=error.fix
        ) from None


def path(text: str | None) -> Path | None:
    return Path(text) if text is not None else None
