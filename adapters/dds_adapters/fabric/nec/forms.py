"""What is read of CDIM's answers: the fields that are used, and no other."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from dds_adapters.fabric.answers import MAX_MACHINES, DeviceId, Items, Part, Text, Uuid


def _last_segment(value: Any) -> Any:
    """CDIM names nodes by their provider id, in letters of either size; what follows the last slash is the machine."""
    return value.rpartition("/")[2].lower() if isinstance(value, str) else value


class NecNode(Part):
    id: Annotated[Uuid, BeforeValidator(_last_segment)]
    name: Text | None = None


class NecNodes(Part):
    """GET /cdim/api/v1/nodes?detail=true"""

    nodes: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each a `NecNode`, read by itself."""


class NecStatus(Part):
    state: Any = None
    health: Any = None


class NecDevice(Part):
    deviceID: DeviceId  # noqa: N815 - the API's word
    model: Text | None = None
    status: NecStatus | None = None

    @property
    def healthy(self) -> bool:
        return self.status is not None and (self.status.state, self.status.health) == ("Enabled", "OK")


class NecResource(Part):
    """A resource; some versions wrap it once more."""

    device: NecDevice
    detected: bool = False
    nodeIDs: Items[Text] | None = None  # noqa: N815 - the API's word

    @model_validator(mode="before")
    @classmethod
    def _unwrapped(cls, value: Any) -> Any:
        inner = value.get("resource") if isinstance(value, dict) else None
        return inner if isinstance(inner, dict) else value

    @property
    def free(self) -> bool:
        return self.detected and not self.nodeIDs


class NecResources(Part):
    """GET /cdim/api/v1/resources?detail=true"""

    resources: Items[NecResource]


class NecError(Part):
    """{code, message}"""

    code: Any = None
    message: Any = None
