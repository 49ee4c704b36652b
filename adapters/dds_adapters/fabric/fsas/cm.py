"""The Fsas fabric manager together with the cluster manager, which knows how many devices a machine may have.

A machine that is in no node group of the cluster has no limits. Which of a machine's resource specifications is of which model,
the specification's selector says: a condition `model eq <cdi-model-name>`. Of several of one model the strictest counts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from dds_adapters.fabric.answers import odd
from dds_adapters.fabric.fsas.fm import FmProvider
from dds_adapters.fabric.fsas.forms import CmGroupMembers, CmGroups, CmMachineDetail, CmSpec
from dds_adapters.fabric.fsas.session import Session
from dds_adapters.fabric.provider import FabricError, FabricUnreachable
from dds_adapters.fabric.settings import FabricSettings
from dds_core.publishing.model import Limit, Machine, PoolModel

ROOT = "/cluster_manager/cluster_autoscaler"


class CmProvider(FmProvider):
    """Machines and stock as the fabric manager says, limits as the cluster manager says."""

    def __init__(self, session: Session, settings: FabricSettings) -> None:
        super().__init__(session, settings)
        self._lock = threading.Lock()
        self._groups: _Groups | None = None
        tenant, cluster = (quote(one, safe="") for one in (settings.tenant, settings.cluster))
        self._cluster = f"tenants/{tenant}/clusters/{cluster}"

    def machines(self) -> Sequence[Machine]:
        with self._lock:
            self._groups = None  # a new round begins
        return super().machines()

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        if not self._is_member(machine.uuid):
            return {}
        path = f"{ROOT}/v3/{self._cluster}/machines/{self.written(machine)}"
        found, where = self._session.get(CmMachineDetail, "cm.machine", path, self._settings.cm_seconds)
        detail = found.data.cluster.machine
        if detail.uuid.lower() != machine.uuid:
            raise odd(where, "data.cluster.machine.uuid", "is of another machine than the one asked for")
        every = {
            model.model: _strictest([spec for spec in detail.resspecs or () if spec.is_of(model.model)])
            for model in models
        }
        return {model: limit for model, limit in every.items() if limit is not None}

    def _is_member(self, machine: str) -> bool:
        """Whether some node group has the machine. A group that could not be asked may have any that no other has."""
        with self._lock:
            if self._groups is None:
                self._groups = self._ask_groups()
            groups = self._groups
        if machine in groups.members:
            return True
        if groups.error is not None:
            raise groups.error.with_traceback(None)
        return False

    def _ask_groups(self) -> _Groups:
        """Once a round, also when it fails: the machines' questions are many."""
        found = _Groups()
        path = f"{ROOT}/v2/{self._cluster}/nodegroups"
        try:
            groups, _ = self._session.get(CmGroups, "cm.nodegroups", path, self._settings.cm_seconds)
        except FabricError as error:
            found.error = error
            return found
        for group in groups.nodegroups:
            where = f"{path}/{quote(group.uuid, safe='')}"
            try:
                members, _ = self._session.get(CmGroupMembers, "cm.nodegroup", where, self._settings.cm_seconds)
                found.members.update(one.lower() for one in members.mach_ids)
            except FabricError as error:
                found.error = error
                if error.general or isinstance(error, FabricUnreachable):
                    break  # the others would take as long, and all machines wait for them
        return found


class _Groups:
    """The machines of all node groups that could be asked; `error` is why one could not."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.error: FabricError | None = None


def _strictest(specs: Sequence[CmSpec]) -> Limit | None:
    """The least of the highest numbers; of the lowest ones the greatest that this allows. None where nothing is said."""
    most = min((spec.max_resspec_count for spec in specs if spec.max_resspec_count is not None), default=None)
    least = max((spec.min_resspec_count for spec in specs if spec.min_resspec_count is not None), default=None)
    if most is None and least is None:
        return None
    return Limit(most, least if most is None or least is None else min(least, most))
