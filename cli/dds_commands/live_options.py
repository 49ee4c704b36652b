"""The options of `dds serve`, `dds publish`, `dds autoscale` and `dds doctor`: each command has one class, made of groups that
several commands share. The order of the fields is that of the help."""

# ruff: noqa: RUF009 - `setting` makes a field

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from dds_adapters import plugins
from dds_adapters.fabric import APIS
from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_adapters.runtime.live_settings import (
    AUTOSCALER_LEASE,
    CHECKPOINT_EVENTS,
    CONNECTIONS,
    LEASE,
    PUBLISHER_LEASE,
    SCAN_SECONDS,
    SERVERS_SECONDS,
    WRITERS,
)
from dds_commands.settings import setting
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AUTOSCALE_MODES, AutoscaleMode
from dds_core.kit.policy import MODES, Mode
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PUBLISH_MODES, PublishMode
from dds_core.scaler.component import SCALER

OFF = "0"
LEVELS = ("debug", "info", "warning", "error")
FORMS = ("text", "json")
PROVIDER_ID, BARE_METAL = "provider-id", "bmh"
COMPONENTS: dict[str, frozenset[str]] = {
    "scaler": frozenset({SCALER.name}),
    "publisher": frozenset({PUBLISHER.name}),
    "both": frozenset({SCALER.name, PUBLISHER.name}),
    "autoscaler": frozenset({AUTOSCALER.name}),
}
"""Components that `dds doctor` checks, by the value of --component."""
_LEASE = LeaseSettings()
_INTERVAL = click.FloatRange(1, 3600)
_THREADS = click.IntRange(1, 64)
_POLICY = "Policy file (YAML, TOML or JSON); reloaded while running."
_NAMED = "Name of the cluster in dds; the log is NAME/{}."


class Extended(click.Choice[str]):
    """A choice of built-in names and of entry points' names; entry points are loaded only if the name is not built in."""

    def __init__(self, own: Sequence[str], group: str) -> None:
        super().__init__(own)
        self._group = group

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return super().convert(value, param, ctx)
        others = plugins.names(self._group)
        if value not in others:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, (*self.choices, *others)))}.", param, ctx)
        return str(value)


# -- groups --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Kube:
    """The API server, and where the ConfigMap is."""

    kubeconfig: str | None = setting(
        "By default $KUBECONFIG, else the pod's service account, else ~/.kube/config.", metavar="FILE"
    )
    context: str | None = setting("Context of the kubeconfig; by default the current one.", metavar="NAME")
    namespace: str = setting(
        "Namespace of the ConfigMap that describes the fabric.", metavar="NAMESPACE", default=NAMESPACE
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """The log and the cluster."""

    log: str | None = setting(
        "Database URL or SQLite file of the log; by default a file under $XDG_STATE_HOME.", metavar="URL"
    )
    migrate: bool = setting("Create or upgrade the log's database schema at start.", default=False)
    cluster_name: str = setting(_NAMED.format(SCALER.name), metavar="NAME", default="cluster")
    kube: Kube


@dataclass(frozen=True, kw_only=True)
class PublisherPlace(Place):
    cluster_name: str = setting(_NAMED.format(PUBLISHER.name), metavar="NAME", default="cluster")


@dataclass(frozen=True, kw_only=True)
class AutoscalerPlace(Place):
    cluster_name: str = setting(_NAMED.format(AUTOSCALER.name), metavar="NAME", default="cluster")


@dataclass(frozen=True, kw_only=True)
class OfProcess:
    """A process: its Lease, addresses, checkpoints and threads."""

    leader_elect: bool = setting(
        "Work only while holding the Lease; for several replicas on one PostgreSQL.", default=False
    )
    lease_name: str = setting("Name of the Lease.", metavar="NAME", default=LEASE)
    lease_namespace: str | None = setting(
        "Namespace of the Lease; by default that of the ConfigMap.", metavar="NAMESPACE"
    )
    lease_duration: float = setting(
        "Seconds without renewal after which another replica takes the Lease.",
        type=float,
        metavar="SECONDS",
        default=_LEASE.duration,
    )
    lease_renew_deadline: float = setting(
        "Seconds without renewal after which the leader gives up.",
        type=float,
        metavar="SECONDS",
        default=_LEASE.renew_deadline,
    )
    lease_retry_period: float = setting(
        "Seconds between attempts, ±20 %.", type=float, metavar="SECONDS", default=_LEASE.retry_period
    )
    health_probe_bind_address: str = setting(
        "Address of /livez and /readyz; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8081"
    )
    metrics_bind_address: str = setting(
        "Address of /metrics; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8080"
    )
    metrics_secure: bool = setting("Serve metrics over TLS to clients that the API server authorizes.", default=False)
    metrics_cert_file: str | None = setting(
        "Certificate (PEM) of the metrics; by default generated at start.", metavar="FILE"
    )
    metrics_key_file: str | None = setting("Private key of --metrics-cert-file.", metavar="FILE")
    checkpoint_events: int = setting(
        "Events between checkpoints, or more if they are long; 0 for none.",
        type=click.IntRange(min=0),
        metavar="NUMBER",
        default=CHECKPOINT_EVENTS,
    )
    archive_folder: str | None = setting(
        "Move the events before each checkpoint to files in this folder.", metavar="FOLDER"
    )
    writers: int = setting("Threads that write to the API server.", type=_THREADS, metavar="NUMBER", default=WRITERS)


@dataclass(frozen=True, kw_only=True)
class OfPublisherProcess(OfProcess):
    lease_name: str = setting("Name of the Lease.", metavar="NAME", default=PUBLISHER_LEASE)
    health_probe_bind_address: str = setting(
        "Address of /livez and /readyz; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8083"
    )
    metrics_bind_address: str = setting(
        "Address of /metrics; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8082"
    )


@dataclass(frozen=True, kw_only=True)
class OfAutoscalerProcess(OfProcess):
    lease_name: str = setting("Name of the Lease.", metavar="NAME", default=AUTOSCALER_LEASE)
    health_probe_bind_address: str = setting(
        "Address of /livez and /readyz; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8085"
    )
    metrics_bind_address: str = setting(
        "Address of /metrics; 0 for none.", metavar="HOST:PORT", default="127.0.0.1:8084"
    )


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The log lines on standard error."""

    log_level: str = setting("Lowest severity logged to standard error.", type=click.Choice(LEVELS), default="info")
    log_format: str = setting("Format of log lines.", type=click.Choice(FORMS), default="text")


@dataclass(frozen=True, kw_only=True)
class OfFabric:
    """The fabric."""

    fabric: str | None = setting(
        "Fabric that is asked for free devices: a manager's API (fm, cm, nec), an inventory (file, the default), or a name of an "
        "installed package; any other name, such as help, lists all.",
        type=Extended(APIS, plugins.FABRICS),
    )
    fabric_endpoint: str | None = setting("Address of the fabric's manager.", metavar="URL")
    tenant_id: str | None = setting("Tenant UUID (fm, cm).", metavar="UUID")
    cluster_id: str | None = setting("Cluster UUID (cm).", metavar="UUID")
    credentials_folder: str | None = setting("Folder with one file per credential (fm, cm).", metavar="FOLDER")
    inventory: str | None = setting("YAML inventory of the fabric (file).", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class MachineIds:
    """Which machine a node is."""

    machine_ids: str = setting(
        "Where a node's machine UUID comes from: provider ID or BareMetalHost annotation.",
        type=click.Choice((PROVIDER_ID, BARE_METAL)),
        default=PROVIDER_ID,
    )

    @property
    def bare_metal_hosts(self) -> bool:
        """Whether BareMetalHost objects say it."""
        return self.machine_ids == BARE_METAL


@dataclass(frozen=True, kw_only=True)
class OfSurvey:
    """The queries to the fabric."""

    fabric: OfFabric
    scan_interval: float = setting(
        "Seconds between scans of the fabric.", type=_INTERVAL, metavar="SECONDS", default=SCAN_SECONDS
    )
    fabric_connections: int = setting(
        "Parallel requests to the fabric.", type=_THREADS, metavar="NUMBER", default=CONNECTIONS
    )
    nodes: MachineIds


@dataclass(frozen=True, kw_only=True)
class MachinesFile:
    machines: str | None = setting("YAML file with a section machines; the autoscaler needs it.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class OfServers:
    """The source of an autoscaler's servers, and its gRPC server."""

    source: MachinesFile
    machines_interval: float = setting(
        "Seconds between queries for the servers.", type=_INTERVAL, metavar="SECONDS", default=SERVERS_SECONDS
    )
    grpc_bind_address: str = setting(
        "gRPC address for Cluster Autoscaler; beyond loopback TLS is required.",
        metavar="HOST:PORT",
        default="127.0.0.1:8086",
    )
    grpc_cert_file: str | None = setting("Certificate of --grpc-bind-address.", metavar="FILE")
    grpc_key_file: str | None = setting("Private key of --grpc-cert-file.", metavar="FILE")
    grpc_client_ca_file: str | None = setting("CA of Cluster Autoscaler's client certificate.", metavar="FILE")


# -- commands ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PublishBeside:
    """What of `dds serve` is for the publisher alone."""

    publish_policy: str | None = setting("Policy of the publisher; reloaded while running.", metavar="FILE")
    publish_mode: PublishMode | None = setting(
        "observe writes no pool; overrides the publisher's policy (default observe).",
        type=click.Choice(PUBLISH_MODES),
    )
    publish_lease_name: str = setting("Name of the publisher's Lease.", metavar="NAME", default=PUBLISHER_LEASE)
    survey: OfSurvey


@dataclass(frozen=True, kw_only=True)
class AutoscaleBeside:
    """What of `dds serve` is for the autoscaler alone."""

    autoscale_policy: str | None = setting("Policy of the autoscaler; reloaded while running.", metavar="FILE")
    autoscale_mode: AutoscaleMode | None = setting(
        "observe shows no group; overrides the autoscaler's policy (default observe).",
        type=click.Choice(AUTOSCALE_MODES),
    )
    autoscale_lease_name: str = setting("Name of the autoscaler's Lease.", metavar="NAME", default=AUTOSCALER_LEASE)
    servers: OfServers


@dataclass(frozen=True, kw_only=True)
class Serve:
    """`dds serve`."""

    place: Place
    policy: str | None = setting(_POLICY, metavar="FILE")
    mode: Mode | None = setting(
        "observe writes nothing, attach never detaches; overrides the policy (default observe).",
        type=click.Choice(MODES),
    )
    process: OfProcess
    ui_bind_address: str = setting(
        "Address of the page of dds ui, served by a separate process; 0 for none.", metavar="HOST:PORT", default=OFF
    )
    lines: Lines
    publish: bool = setting("Also run the publisher, with its own log and Lease.", default=False)
    publisher: PublishBeside
    autoscale: bool = setting("Also run the autoscaler, with its own log and Lease.", default=False)
    autoscaler: AutoscaleBeside


@dataclass(frozen=True, kw_only=True)
class Publish:
    """`dds publish`."""

    place: PublisherPlace
    policy: str | None = setting(_POLICY, metavar="FILE")
    mode: PublishMode | None = setting(
        "observe writes nothing; overrides the policy (default observe).", type=click.Choice(PUBLISH_MODES)
    )
    survey: OfSurvey
    process: OfPublisherProcess
    lines: Lines


@dataclass(frozen=True, kw_only=True)
class Autoscale:
    """`dds autoscale`."""

    place: AutoscalerPlace
    policy: str | None = setting(_POLICY, metavar="FILE")
    mode: AutoscaleMode | None = setting(
        "observe shows no group; overrides the policy (default observe).", type=click.Choice(AUTOSCALE_MODES)
    )
    servers: OfServers
    process: OfAutoscalerProcess
    lines: Lines


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """`dds doctor`."""

    kube: Kube
    policy: str | None = setting("Policy of dds serve.", metavar="FILE")
    mode: Mode | None = setting("Mode of dds serve, where it overrides the policy.", type=click.Choice(MODES))
    log: str | None = setting("Database URL or SQLite file of the log of dds serve.", metavar="URL")
    cluster_name: str = setting(_NAMED.format(SCALER.name), metavar="NAME", default="cluster")
    component: str | None = setting(
        "Component to check; by default the scaler, with a fabric given the publisher too, with --machines the autoscaler too.",
        type=click.Choice(tuple(COMPONENTS)),
    )
    publish_policy: str | None = setting("Policy of dds publish.", metavar="FILE")
    publish_mode: PublishMode | None = setting(
        "Mode of dds publish, where it overrides the policy.", type=click.Choice(PUBLISH_MODES)
    )
    fabric: OfFabric
    nodes: MachineIds
    autoscale_policy: str | None = setting("Policy of dds autoscale.", metavar="FILE")
    autoscale_mode: AutoscaleMode | None = setting(
        "Mode of dds autoscale, where it overrides the policy.", type=click.Choice(AUTOSCALE_MODES)
    )
    source: MachinesFile
