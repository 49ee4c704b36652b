"""Objects of cluster-api, as far as dds reads them: v1beta1 and v1beta2, which have the same data in different places."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from dds_adapters.fabric.answers import Part
from dds_adapters.fabric.error_text import said
from dds_core.autoscaler.records import ServerState

GROUP = "cluster.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The versions that dds understands, the better one first."""
CLUSTER = f"{GROUP}/cluster-name"
"""Label of all objects of a cluster."""
DELETE = f"{GROUP}/delete-machine"
"""Annotation of the Machine that cluster-api deletes first when replicas are lowered."""
ORDER = "dds.cohdi.io/order"
"""dds's annotation beside it: the order that made the Machine, which the ledger no longer has then."""

_MAKING = frozenset({"InfrastructureReady", "BootstrapReady", "BootstrapConfigReady"})
"""Conditions of a Machine that is being made. Trouble of a running Machine is no failure to make it."""


class _Owner(Part):
    uid: str
    controller: bool | None = None


class Meta(Part):
    name: str
    uid: str
    annotations: dict[str, str] | None = None
    owners: list[_Owner] | None = Field(default=None, alias="ownerReferences")
    created: str = Field(default="", alias="creationTimestamp")
    deleted: str | None = Field(default=None, alias="deletionTimestamp")

    @property
    def controller(self) -> str:
        """The uid of the object that made this one."""
        return next((one.uid for one in self.owners or () if one.controller), "")


class Owned(Part):
    """Any object made by another one."""

    metadata: Meta


class Condition(Part):
    type: str
    status: str
    severity: str | None = None
    reason: str | None = None
    message: str | None = None


class _Before(Part):
    """The fields of v1beta1, which v1beta2 still has as deprecated."""

    failure_reason: str | None = Field(default=None, alias="failureReason")
    failure_message: str | None = Field(default=None, alias="failureMessage")
    conditions: list[Condition] | None = None


class _Deprecated(Part):
    v1beta1: _Before | None = None


class _Status(_Before):
    phase: str | None = None
    deprecated: _Deprecated | None = None

    @property
    def told(self) -> Iterator[_Before]:
        yield self
        if self.deprecated is not None and self.deprecated.v1beta1 is not None:
            yield self.deprecated.v1beta1


class _MachineSpec(Part):
    provider_id: str | None = Field(default=None, alias="providerID")


class Machine(Owned):
    spec: _MachineSpec
    status: _Status = _Status()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def provider_id(self) -> str:
        return self.spec.provider_id or ""

    @property
    def deleting(self) -> bool:
        return self.metadata.deleted is not None

    @property
    def marked(self) -> bool:
        return DELETE in (self.metadata.annotations or {})

    @property
    def order(self) -> str:
        return (self.metadata.annotations or {}).get(ORDER, "")

    @property
    def state(self) -> ServerState:
        if self.deleting:
            return "deleting"
        if self.failure is not None:
            return "failed"
        return "running" if self.status.phase == "Running" else "creating"

    @property
    def failure(self) -> tuple[str, str] | None:
        """Code and message if it cannot be made or is lost for good."""
        for told in self.status.told:
            if told.failure_reason or told.failure_message:
                return said(told.failure_reason or "Failed"), said(told.failure_message or "")
        if self.status.phase != "Running":
            for told in self.status.told:
                for one in told.conditions or ():
                    if one.type in _MAKING and one.status == "False" and one.severity == "Error":
                        return said(one.reason or one.type), said(one.message or "")
        return ("Failed", "its phase is Failed") if self.status.phase == "Failed" else None


class _OwnerSpec(Part):
    replicas: int = Field(ge=0)
    cluster: str = Field(alias="clusterName", min_length=1, max_length=63)


class MachineOwner(Owned):
    """A MachineDeployment or MachineSet."""

    spec: _OwnerSpec


class _Version(Part):
    version: str


class Group(Part):
    """The API server's description of the API group."""

    versions: list[_Version]


def out_of_resources(code: str) -> bool:
    """Whether a code means that no server was available (cluster-api's own is InsufficientResources)."""
    return "insufficient" in code.lower() or "quota" in code.lower()
