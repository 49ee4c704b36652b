"""The settings of a live process, as checked plain values. Nothing is opened here. The caller reads them from flags,
environment or files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dds_adapters.fabric.fabric_settings import FabricSettings
from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_adapters.machines.machine_settings import MachinesSettings
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.errors import InputError
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import Policy

LEASE = "dds-scaler"
PUBLISHER_LEASE = "dds-publisher"
AUTOSCALER_LEASE = "dds-autoscaler"
CHECKPOINT_EVENTS = 20_000
WRITERS = 8
SCAN_SECONDS = 5.0
"""From the start of one survey of the fabric to the start of the next."""
CONNECTIONS = 4
"""Number of parallel requests to a fabric."""
SERVERS_SECONDS = 10.0
"""Between two requests for the servers. After an order the next one comes at once."""
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True)
class Listen:
    """An address to listen on. An empty host means all addresses, port 0 any free port."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Self:
        """From HOST:PORT, :PORT or [IPV6]:PORT. Raises InputError."""
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        bracketed = bare != host
        if not (colon and port.isascii() and port.isdigit() and int(port) <= 65_535 and bracketed == (":" in bare)):
            raise InputError(f"{text!r} is no address to listen on", fix="write HOST:PORT, such as 127.0.0.1:8081")
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class LiveSettings:
    """The settings that stay the same while a process runs. Raises InputError for values that are not valid or do not fit
    together.

    `identity` is unique to this process (`kubernetes.lease.elector.new_identity`). `config_namespace` is that of the fabric's
    ConfigMap. Nothing listens for `health` or `metrics` if they are None. With `metrics_secure`, metrics are served over TLS
    and only to clients that the API server accepts (TokenReview, SubjectAccessReview). `metrics_cert` and `metrics_key` are
    given together; by default a certificate is made at start. Without `metrics_secure` they give TLS for any client. A
    checkpoint is written every `checkpoint_events` events (0: never), or more seldom if it is long
    (`loop.checkpoint_after`); the events before it are moved to `archive_folder`, if given. `writers` is a number of threads.
    """

    identity: str
    config_namespace: str = NAMESPACE
    leader_elect: bool = False
    lease_namespace: str = NAMESPACE
    lease_name: str = LEASE
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    health: Listen | None = Listen("127.0.0.1", 8081)
    metrics: Listen | None = Listen("127.0.0.1", 8080)
    metrics_secure: bool = False
    metrics_cert: Path | None = None
    metrics_key: Path | None = None
    checkpoint_events: int = CHECKPOINT_EVENTS
    archive_folder: Path | None = None
    writers: int = WRITERS

    def __post_init__(self) -> None:
        if not self.identity:
            raise InputError("the identity of a scaler may not be empty", fix="give one that no other process has")
        for value, what in ((self.config_namespace, "namespace"), (self.lease_namespace, "lease namespace")):
            if not _LABEL.fullmatch(value):
                raise InputError(f"{value!r} is no name of a namespace", where=what, fix="use a-z, 0-9 and -")
        if not _SUBDOMAIN.fullmatch(self.lease_name):
            raise InputError(
                f"{self.lease_name!r} is no name of a lease", where="lease name", fix="use a-z, 0-9, - and ."
            )
        if (self.metrics_cert is None) != (self.metrics_key is None):
            lacking = "key" if self.metrics_key is None else "certificate"
            raise InputError(f"the {lacking} is missing", where="metrics", fix="give certificate and key, or neither")
        if self.health is not None and self.health == self.metrics and self.health.port:
            raise InputError(
                f"health and metrics are both to listen on {self.health}", where="metrics", fix="give another port"
            )
        if self.checkpoint_events < 0:
            raise InputError("it is below 0", where="checkpoint events", fix="give a number of events, 0 for never")
        if self.archive_folder is not None and not self.checkpoint_events:
            what = "only what lies before a checkpoint can be archived, and none is written"
            raise InputError(what, where="archive folder", fix="set checkpoint events above 0")
        if self.writers < 1:
            raise InputError("nothing could be written without a thread", where="writers", fix="give 1 or more")


@dataclass(frozen=True)
class Scaling:
    """What a scaler needs. `policy` is called repeatedly and may raise PolicyError; `stored` makes a policy of the log's last
    one, for a start at which `policy` raises."""

    settings: LiveSettings
    policy: Callable[[], Policy]
    stored: Callable[[Mapping[str, Any]], Policy] | None = None


@dataclass(frozen=True)
class Publishing:
    """What a publisher needs. It starts a survey of the fabric every `interval` seconds, with at most `connections` parallel
    requests. `bare_metal_hosts`: BareMetalHosts say which machine a node is."""

    settings: LiveSettings
    policy: Callable[[], PublishPolicy]
    fabric: FabricSettings = field(default_factory=lambda: FabricSettings("file"))
    interval: float = SCAN_SECONDS
    connections: int = CONNECTIONS
    bare_metal_hosts: bool = False
    stored: Callable[[Mapping[str, Any]], PublishPolicy] | None = None


@dataclass(frozen=True)
class Autoscaling:
    """What an autoscaler needs. It polls the servers every `interval` seconds. Cluster Autoscaler calls it at `address`, over
    TLS with the three files (certificate, key, CA of clients); without them on loopback only."""

    settings: LiveSettings
    policy: Callable[[], AutoscalePolicy]
    machines: MachinesSettings
    address: str
    tls: tuple[Path, Path, Path] | None = None
    interval: float = SERVERS_SECONDS
    stored: Callable[[Mapping[str, Any]], AutoscalePolicy] | None = None
