"""What a live scaler is told when it starts, read and checked. Plain values: nothing here is opened, listened on or asked.

Where they come from (flags, environment, files) is the business of whoever makes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_core.errors import InputError

LEASE = "dds-scaler"
"""Name of the scaler's Lease, and the default of its setting."""
PUBLISHER_LEASE = "dds-publisher"
"""The same for the publisher."""
AUTOSCALER_LEASE = "dds-autoscaler"
"""The same for the autoscaler."""
CHECKPOINT_EVENTS = 100_000
WRITERS = 8
SCAN_SECONDS = 5.0
"""From one round of questions to a fabric to the next."""
CONNECTIONS = 4
"""Questions to a fabric that run side by side."""
SERVERS_SECONDS = 10.0
"""From one question for the servers to the next; after an order the next one comes at once."""
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True)
class Listen:
    """An address to listen on; an empty host means all addresses, port 0 any that is free."""

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
    """Everything that stays as it is for as long as a scaler runs. Raises InputError where values do not fit each other.

    `identity` is this process's alone (`kubernetes.lease.elector.new_identity`). `config_namespace` is where the ConfigMap of
    the fabric is. `health` and `metrics` are None where nothing is to listen. With `metrics_secure` the metrics are served over
    TLS only to those whom the API server knows and lets (TokenReview, SubjectAccessReview), by the certificate that is given or
    one made at start; the two files go together, and are served by as well without `metrics_secure`, to anybody. A checkpoint
    is written after so many events as `checkpoint_events` (0: never); what lies before it goes into `archive_folder` where one
    is given. `writers` are threads.
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
