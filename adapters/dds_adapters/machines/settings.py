"""Which provider of machines, and what it needs of each group. One section, `machines`, of a file in YAML.

Nothing here asks anybody. What a group is for (bounds, template) is the policy's business; here its name alone is the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dds_adapters.fabric.documents import Strict, of_form, read_document
from dds_core.errors import InputError

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
GroupName = Annotated[str, of_form(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "at most 63 letters, digits and . _ -")]
Namespace = Annotated[str, of_form(_LABEL, "the name of a namespace")]
ObjectName = Annotated[
    str, of_form(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", "the name of an object (small letters, digits, - and .)")
]


def _path(value: object) -> object:
    return Path(value) if isinstance(value, str) and value else value


File = Annotated[Path, BeforeValidator(_path)]


class Scalable(Strict):
    """What makes the Machines of a group."""

    kind: Literal["MachineDeployment", "MachineSet"] = "MachineDeployment"
    namespace: Namespace
    name: ObjectName

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class ClusterApiSettings(Strict):
    """Machines of cluster-api. Without `kubeconfig` the management cluster is found as every other cluster is."""

    kind: Literal["cluster-api"]
    kubeconfig: File | None = None
    context: str | None = Field(default=None, min_length=1)
    groups: dict[GroupName, Scalable] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_once(self) -> ClusterApiSettings:
        seen: dict[str, str] = {}
        for group, scalable in self.groups.items():
            if (other := seen.setdefault(str(scalable), group)) != group:
                raise ValueError(f"groups.{group}: {scalable} is that of {other}, too")
        return self


class InventorySettings(Strict):
    """Servers in a file, which an operator or a script powers on and off as the file of requests asks."""

    kind: Literal["inventory"]
    servers: File
    requests: File

    @model_validator(mode="after")
    def _two(self) -> InventorySettings:
        if self.servers == self.requests:
            raise ValueError("requests: is the file of the servers")
        return self


MachinesSettings = ClusterApiSettings | InventorySettings
KINDS = ("cluster-api", "inventory")


class _Document(BaseModel):
    """The file; its other sections are read by others."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)

    machines: Annotated[MachinesSettings, Field(discriminator="kind")]


def read_settings(path: Path) -> MachinesSettings:
    """The section `machines` of the file; its paths are relative to that file. Raises InputError with the place of each fault."""
    fix = "correct it; see docs/machines.md"
    empty = f"write machines: {{kind: {' or '.join(KINDS)}, ...}}"
    found = read_document(path, _Document, InputError, str(path), fix, empty=empty, hidden=KINDS).machines
    if isinstance(found, InventorySettings):
        files = {"servers": path.parent / found.servers, "requests": path.parent / found.requests}
        return found.model_copy(update=files)
    if found.kubeconfig is not None:
        return found.model_copy(update={"kubeconfig": path.parent / found.kubeconfig})
    return found
