"""Kubernetes Events (events.k8s.io/v1): what people see of us with `kubectl describe`.

An event's name follows from what it is about, why and when, so that a retry makes no second one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.writer.live_object import MANAGER, Changed, Ref, Server, settle
from dds_adapters.kubernetes.writer.stamps import rfc3339
from dds_adapters.kubernetes.writer.tasks import Done, Result, Versions
from dds_core.text import scrub

EVENTS = "events"
API_VERSION = "events.k8s.io/v1"
OF_CLUSTER = "default"
"""The namespace of events about objects that have none."""
WORD_LENGTH = 128
NAME_LENGTH = 230
"""Of an object's name as much as leaves room for the hash."""

Type = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Regarding:
    """An object, as an event refers to it. `api_version` "" stands for the one in which `resource` is served."""

    kind: str
    resource: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = ""

    def reference(self, versions: Versions) -> dict[str, str]:
        version = self.api_version or versions(self.resource)
        whole = {
            "apiVersion": version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in whole.items() if value}


@dataclass(frozen=True, slots=True)
class TellPeople:
    """One event. `at` is an instant in microseconds, `instance` which of us says it. `part` tells events apart that are about one
    object, for one reason, at one instant."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    type: Type
    at: int
    instance: str
    related: Regarding | None = None
    part: str = ""

    @property
    def name(self) -> str:
        part = f"\0{self.part}" if self.part else ""
        digest = hashlib.sha256(f"{self.regarding.uid}\0{self.reason}\0{self.at}{part}".encode()).hexdigest()[:16]
        return f"{self.regarding.name[:NAME_LENGTH].rstrip('.-')}.{digest}"

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or OF_CLUSTER

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(lambda server: self._once(server, versions), api, lambda _: API_VERSION)

    def _once(self, server: Server, versions: Versions) -> Result:
        try:
            server.create(Ref(EVENTS, self.name, self.namespace), self._body(versions))
        except Changed:  # it is there
            return Done(written=False)
        return Done()

    def _body(self, versions: Versions) -> dict[str, Any]:
        related = {"related": self.related.reference(versions)} if self.related is not None else {}
        return {
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": rfc3339(self.at, precise=True),
            "reportingController": MANAGER,
            "reportingInstance": self.instance[:WORD_LENGTH],
            "action": self.action[:WORD_LENGTH],
            "reason": self.reason[:WORD_LENGTH],
            "note": scrub(self.note),
            "type": self.type,
            "regarding": self.regarding.reference(versions),
            **related,
        }
