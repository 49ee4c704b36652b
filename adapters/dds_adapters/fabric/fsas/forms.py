"""What is read of the Fsas manager's answers: the fields that are used, and no other."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from dds_adapters.fabric.answers import MAX_MACHINES, FabricId, Free, Items, Part, Text, Uuid

AccessToken = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,16384}$")]
"""Goes into a header as it is."""
MAX_GROUPS = 1000
"""Node groups of a cluster: each is a question of its own."""


class Login(Part):
    """POST id_manager/realms/{realm}/protocol/openid-connect/token"""

    access_token: AccessToken = Field(repr=False)
    expires_in: Annotated[float, Field(ge=0, le=1e9)] | None = None


class ErrorDetail(Part):
    code: Any = None
    message: Any = None


class ErrorBody(Part):
    """{status, detail: {code, message, data}}; the id manager says `error`."""

    detail: ErrorDetail | None = None
    error: Any = None


# -- fabric manager ----------------------------------------------------------------------------------------------------


class FmMachine(Part):
    mach_uuid: Uuid
    mach_name: Text | None = None
    fabric_id: FabricId | None = None


class FmMachineData(Part):
    machines: Annotated[list[Any], Field(max_length=MAX_MACHINES)]
    """Each an `FmMachine`, read by itself: a strange one hides no other."""


class FmMachines(Part):
    """GET fabric_manager/api/v1/machines"""

    data: FmMachineData


class FmAvailable(Part):
    """GET fabric_manager/api/v1/machines/{machine}/available-reserved-resources; some managers leave the fabric out."""

    reserved_res_num_per_fabric: Free
    fabric_id: FabricId | None = None


# -- cluster manager ---------------------------------------------------------------------------------------------------


class CmGroup(Part):
    uuid: Uuid


class CmGroups(Part):
    """GET cluster_manager/cluster_autoscaler/v2/tenants/{tenant}/clusters/{cluster}/nodegroups"""

    nodegroups: Annotated[Items[CmGroup], Field(max_length=MAX_GROUPS)]


class CmGroupMembers(Part):
    """GET …/nodegroups/{group}"""

    mach_ids: Items[Uuid]


class CmCondition(Part):
    column: Any = None
    operator: Any = None
    value: Any = None


class CmExpression(Part):
    conditions: Items[CmCondition] | None = None


class CmSelector(Part):
    expression: CmExpression | None = None


class CmSpec(Part):
    selector: CmSelector | None = None
    min_resspec_count: Free | None = None
    max_resspec_count: Free | None = None

    def is_of(self, model: str) -> bool:
        """Whether its selector asks for this model; the cluster manager compares text for text, and so do we."""
        expression = self.selector.expression if self.selector is not None else None
        conditions = expression.conditions if expression is not None else None
        return any(one.column == "model" and one.operator == "eq" and one.value == model for one in conditions or ())


class CmMachine(Part):
    uuid: Uuid
    resspecs: Items[CmSpec] | None
    """Has to be there: an answer without it would lift every limit of the machine."""


class CmCluster(Part):
    machine: CmMachine


class CmTenant(Part):
    cluster: CmCluster


class CmMachineDetail(Part):
    """GET cluster_manager/cluster_autoscaler/v3/tenants/{tenant}/clusters/{cluster}/machines/{machine}"""

    data: CmTenant
