"""A small composable cluster to be examined, on virtual time: the lab's own, with whatever is wrong in it.

clinic = Clinic(version="1.35")
found = clinic.look(api.binding_conditions)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dds_adapters.kubernetes.doctor import Finding
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.rbac import WHERES
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import Policy
from dds_lab import shipped
from dds_lab.api.requests import MASTERS, User
from dds_lab.driver import Direct
from dds_lab.lab import Lab
from dds_lab.time import VirtualTime
from tests.support.roles import (
    ALL_OF_AUTOSCALER,
    ALL_OF_PUBLISHER,
    EVERYTHING,
    Powers,
    autoscaler_role,
    binding,
    publisher_role,
    role,
)

WHERE = "https://lab"
ROLE_USER = "system:serviceaccount:composable-dra:dds"
Object = dict[str, Any]


class DoctorLab:
    """The scenario `playground` (two nodes, two models) after a minute; `cluster` replaces parts of its cluster."""

    def __init__(self, seconds: float = 60.0, parts: Mapping[str, Any] | None = None, **cluster: Any) -> None:
        found = shipped.find("playground")
        scenario = found.model_copy(
            update={
                "cluster": found.cluster.model_copy(update=cluster),
                "parts": found.parts.model_copy(update={"scaler": None, **(parts or {})}),
            }
        )
        self.lab = Lab(scenario, VirtualTime(1, scenario.start), track_updates=True)
        self.lab.start()
        self.lab.run(seconds)
        self.admin = self.lab.client("admin")

    def context(
        self,
        policy: Policy | None = None,
        *,
        user: str = "admin",
        groups: tuple[str, ...] = (MASTERS,),
        skew: int = 0,
        namespace: str = "composable-dra",
        publishing: PublishPolicy | None = None,
        bare_metal_hosts: bool = False,
        autoscaling: AutoscalePolicy | None = None,
        has_machines: bool = False,
    ) -> ExaminationContext:
        """Who examines it; `skew` is what our clock is ahead, in microseconds."""
        return ExaminationContext(
            Direct(self.lab.server, user, groups),
            WHERE,
            lambda: self.lab.time.now() + skew,
            policy=policy,
            namespace=namespace,
            publishing=publishing,
            bare_metal_hosts=bare_metal_hosts,
            autoscaling=autoscaling,
            has_machines=has_machines,
        )

    def look(self, check: Callable[[ExaminationContext], Iterable[Finding]], **more: Any) -> list[Finding]:
        """What a check finds."""
        return list(check(self.context(**more)))

    def with_role(self, powers: Powers = EVERYTHING, without: Iterable[str] = ()) -> Mapping[str, Any]:
        """Let a user have exactly the scaler's roles, less rules for these resources; who that is, for `look`."""
        return self._with_roles([role(where, powers) for where in WHERES], without)

    def with_publisher_role(self, powers: Powers = ALL_OF_PUBLISHER, without: Iterable[str] = ()) -> Mapping[str, Any]:
        """The same with the publisher's."""
        return self._with_roles([publisher_role(where, powers) for where in WHERES], without)

    def with_autoscaler_role(
        self, powers: Powers = ALL_OF_AUTOSCALER, without: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """And with the autoscaler's."""
        return self._with_roles([autoscaler_role(where, powers) for where in WHERES], without)

    def _with_roles(self, roles: Iterable[Object], without: Iterable[str]) -> Mapping[str, Any]:
        for made in roles:
            made["rules"] = [one for one in made["rules"] if not set(one["resources"]) & set(without)]
            namespace = made["metadata"].get("namespace", "")
            kind = "roles" if namespace else "clusterroles"
            self.admin.create(kind, made, namespace)
            bound = binding(made, "dds", "composable-dra")
            self.admin.create(kind.removesuffix("s") + "bindings", bound, namespace)
        return {"user": ROLE_USER, "groups": User("").groups}


def levels(found: Iterable[Finding]) -> list[str]:
    """The levels alone, in order."""
    return [one.level for one in found]


def worst(found: Iterable[Finding], level: str) -> list[str]:
    """What was found of a level."""
    return [one.what for one in found if one.level == level]
