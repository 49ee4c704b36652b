"""The autoscaler's state, folded from its log: all that its rules know, questions that several of them ask, dump and load."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from dds_core.autoscaler.policy import AutoscalePolicy, ServerGroup
from dds_core.autoscaler.records import Load, Server, Worker
from dds_core.autoscaler.rooms import Rooms
from dds_core.kit import work
from dds_core.kit.policy import MICROSECONDS, logged
from dds_core.kit.state import Form
from dds_core.model import Claim, Config

_NOTHING = Config(uid="")


class Fleet(Rooms):
    @property
    def config(self) -> Config:
        """The ConfigMap; an empty one if there is none."""
        return next(iter(self.cluster.configs.rows.values()), _NOTHING)

    def uid_of(self, kind: type[Any], namespace: str, name: str) -> str | None:
        """As in the base class; of the ConfigMap there is only one, whatever its name."""
        return next(iter(self.cluster.configs), None) if kind is Config else super().uid_of(kind, namespace, name)

    @property
    def mode(self) -> str:
        """The mode in effect: the ConfigMap can only lower the policy's."""
        return "observe" if self.config.mode == "observe" else self.policy.mode

    @property
    def live(self) -> bool:
        """Whether decisions are carried out."""
        return self.mode != "observe"

    # -- nodes and servers ---------------------------------------------------------------------------------------------

    def worker(self, name: str) -> Worker | None:
        uid = self.named.get((Worker, "", name))
        return self.cluster.workers.get(uid) if uid is not None else None

    def server(self, worker: Worker) -> Server | None:
        """The server of a node."""
        uid = self.cluster.server_of.get(worker.provider_id) if worker.provider_id else None
        return self.cluster.servers.get(uid) if uid is not None else None

    def node_of(self, server: Server) -> Worker | None:
        """The node of a server; None until it has registered."""
        uid = self.cluster.worker_of.get(server.provider_id) if server.provider_id else None
        return self.cluster.workers.get(uid) if uid is not None else None

    def of_group(self, group: str) -> list[Worker]:
        """The nodes of a group's servers, by name."""
        found = (self.node_of(one) for one in self.cluster.servers.rows.values() if one.group == group)
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def coming(self, group: str) -> list[str]:
        """The standing orders of a group, oldest first."""
        rows = (
            (order.since, name) for name, order in self.orders.rows.items() if order.group == group and not order.over
        )
        return [name for _, name in sorted(rows)]

    def loads_at(self, node: str) -> list[Load]:
        """The pods that count on a node."""
        return [self.cluster.loads.rows[uid] for uid in sorted(self.cluster.loads_on[node])]

    def claims_of(self, load: Load) -> list[Claim] | None:
        """The claims of a pod in order; None if one of them does not exist yet."""
        names = [*load.claims, *([load.extended_claim] if load.extended_claim else [])]
        found = [self.uid_of(Claim, load.namespace, name) for name in names]
        claims = [self.cluster.claims.get(uid) if uid is not None else None for uid in found]
        known = [one for one in claims if one is not None]
        return known if len(known) == len(names) else None

    # -- changes -------------------------------------------------------------------------------------------------------

    def touch_everything(self) -> None:
        """Look at every order, server and node: a level pass."""
        self.dirty.orders |= self.orders.rows.keys()
        self.dirty.servers |= self.cluster.servers.rows.keys() | self.leaving.rows.keys()
        self.dirty.nodes |= self.cluster.workers.rows.keys()

    def compose_due(self, order: str) -> int:
        """The instant from which an order without a node has failed."""
        return self.orders.rows[order].since + self.policy.compose_seconds * MICROSECONDS

    def own_groups(self) -> Iterator[ServerGroup]:
        """The groups to show."""
        if self.live:
            yield from self.policy.groups


PROJECTION = 1

_FORM = Form(Fleet, PROJECTION, partial(logged, AutoscalePolicy))
dump, load, same = _FORM.dump, _FORM.load, _FORM.same

Work = work.Work[Fleet]
"""One run of the autoscaler's rules."""
