"""Settings of the provider of machines, and what it needs for each group: the section `machines` of a YAML file. Other packages
add kinds by entry points `dds.machines`.

Nothing here sends a request. The policy says what a group is for (bounds, template); only the group's name is the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from dds_adapters import plugins
from dds_adapters.documents import Strict, load_document, of_form, validated
from dds_adapters.fabric.fabric_settings import FabricSettings, Outside, check
from dds_adapters.machines.provider import Machines
from dds_core.autoscaler.policy import GroupName
from dds_core.errors import InputError

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
Namespace = Annotated[str, of_form(_LABEL, "the name of a namespace")]
ObjectName = Annotated[
    str, of_form(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", "the name of an object (small letters, digits, - and .)")
]


def _path(value: object) -> object:
    return Path(value) if isinstance(value, str) and value else value


File = Annotated[Path, BeforeValidator(_path)]
"""A path in the settings, relative to their file."""


def _check_each_once(groups: Mapping[str, object]) -> None:
    seen: dict[str, str] = {}
    for group, source in groups.items():
        if (other := seen.setdefault(str(source), group)) != group:
            raise ValueError(f"groups.{group}: {source} is that of {other}, too")


class MachinesSettings(Strict):
    """What every kind has. The keys of `groups` are the names of the node groups; those of an inventory are in its file."""

    kind: str
    groups: Mapping[GroupName, Any] = Field(default={})


class CdiSettings(MachinesSettings):
    """Servers that the Fsas cluster manager composes. `credentials`: the folder of the mounted Secret; `scheme`: the beginning of
    a Node's spec.providerID; `seconds`: the limit of a call with its tries; `groups`: name or UUID of each node group."""

    kind: Literal["cdi"]
    endpoint: str
    tenant: str
    cluster: str
    credentials: File
    scheme: str = Field(default="fsas-cdi://", max_length=100)
    seconds: int = Field(default=60, ge=1, le=600)
    groups: dict[GroupName, Annotated[str, Field(min_length=1, max_length=253)]] = Field(min_length=1)

    @property
    def fabric(self) -> FabricSettings:
        """How to reach its managers."""
        seconds = float(self.seconds)
        return FabricSettings("cm", self.endpoint, self.tenant, self.cluster, self.credentials, cm_seconds=seconds)

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        _check_each_once(self.groups)
        try:
            check(self.fabric)
        except InputError as error:  # without its fix, which is a command's option
            raise ValueError(f"{error.where.removeprefix('fabric ')}: {error.what}") from None
        return self


class Scalable(Strict):
    """The object that makes a group's Machines."""

    kind: Literal["MachineDeployment", "MachineSet"] = "MachineDeployment"
    namespace: Namespace
    name: ObjectName

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class ClusterApiSettings(MachinesSettings):
    """Machines of cluster-api. Without `kubeconfig` the management cluster is found like any other cluster."""

    kind: Literal["cluster-api"]
    kubeconfig: File | None = None
    context: str | None = Field(default=None, min_length=1)
    groups: dict[GroupName, Scalable] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        _check_each_once(self.groups)
        return self


class InventorySettings(MachinesSettings):
    """Servers in a file, which an operator or a script powers on and off as the file of requests says."""

    kind: Literal["inventory"]
    groups: Mapping[GroupName, Any] = Field(default={}, max_length=0)
    servers: File
    requests: File

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.servers == self.requests:
            raise ValueError("requests: is the file of the servers")
        return self


class MachinesPlugin(NamedTuple):
    """What an entry point `dds.machines` gives. `settings` is the form of the section `machines`, with a literal `kind`. `open`
    makes the provider: it sends no request yet, and raises InputError for unusable settings."""

    settings: type[MachinesSettings]
    open: Callable[[Any, Outside], Machines]


KINDS = ("cdi", "cluster-api", "inventory")


class _Section(BaseModel):
    """The file; other sections are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)


class _Document(_Section):
    machines: Annotated[CdiSettings | ClusterApiSettings | InventorySettings, Field(discriminator="kind")]


def read_settings(path: Path) -> MachinesSettings:
    """The section `machines` of the file; its paths are relative to that file. Raises InputError with the place of each fault."""
    fix = "correct it; see docs/machines.md"
    others = plugins.names(plugins.MACHINES)
    kinds = (*KINDS, *others)
    empty = f"write machines: {{kind: {' or '.join(kinds)}, ...}}"
    written = load_document(path, InputError, str(path), fix, empty=empty)
    document = _document_with(_kind_in(written) if others else "")
    found: MachinesSettings = validated(written, document, InputError, str(path), fix, hidden=KINDS).machines
    files = {name: path.parent / file for name, file in found if isinstance(file, Path)}
    return found.model_copy(update=files)


def plugin_of(kind: str) -> MachinesPlugin | None:
    """Another package's kind of that name, None without one. Raises InputError if it is no MachinesPlugin."""
    found = plugins.load(plugins.MACHINES, kind)
    if found is not None and not isinstance(found, MachinesPlugin):
        raise InputError(f"{kind!r} is no MachinesPlugin", where=plugins.MACHINES, fix="mend or remove that package")
    return found


def _document_with(kind: str) -> type[Any]:
    other = plugin_of(kind) if kind and kind not in KINDS else None
    return _Document if other is None else create_model("Document", __base__=_Section, machines=(other.settings, ...))


def _kind_in(written: Any) -> str:
    """The kind in the file, "" without one."""
    machines = written.get("machines") if isinstance(written, dict) else None
    kind = machines.get("kind") if isinstance(machines, dict) else None
    return kind if isinstance(kind, str) else ""
