"""What the lab's actors see of a foreign cluster and write to it: only what is the lab's.

Whatever is created carries the label, and so does what the operator puts its finalizer on. Nodes are those with the label.
Pods of other nodes are hidden from the kubelets, requests for them from the operator, and other slices from the drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from dds_adapters.kubernetes.cluster import Cluster, Scope
from dds_adapters.kubernetes.watch.watch_spec import OPERATOR as GROUP
from dds_lab.actors.operator.names import REQUESTS, RESOURCES
from dds_lab.api.kinds import Object
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.status import ApiError
from dds_lab.joined.marks import FINALIZERS, LABEL, TOLERATION, is_made, is_marked, target_of
from dds_lab.joined.remote import PATIENCE, Post, RemoteServer, RemoteWatch

ALL_SLICES = frozenset({"judge", "tally", "composable-resource-operator", "reference-scaler", "checks"})
"""Users who look at everybody's slices and never write one."""
KUBELET = "system:nodes"
STEPS = frozenset({"workloads", "story"})
"""Users who act on objects that a scenario names: they may change and delete the lab's alone."""


class JoinedServer(RemoteServer):
    """`name` is the label's value, `nodes` the nodes of the lab, `kept` those of them whose kubelets are the lab's."""

    def __init__(
        self, cluster: Cluster, post: Post, note: Callable[[str], None], name: str, patience: float = PATIENCE
    ) -> None:
        super().__init__(cluster, post, note, patience)
        self.name = name
        self.over = False
        """True: the actors write nothing any more, also those whose timers still run."""
        self.nodes: Collection[str] = ()
        self.kept: Collection[str] = ()

    def perform(self, call: Call) -> Outcome:
        plural = call.resource.plural
        if self.over and call.user.name != "checks":
            raise ApiError(503, "ServiceUnavailable", "the lab is leaving")
        own = call.resource.group == GROUP and not call.subresource
        if call.verb == "create" and not call.subresource:
            call = replace(call, body=self._labelled(call.body, plural))
        elif own and call.verb == "update" and set(FINALIZERS) & set(call.body["metadata"].get("finalizers") or ()):
            call = replace(call, body=self._labelled(call.body))
        elif call.verb == "patch" and call.writing.how == "apply":
            call = replace(call, body=self._labelled(call.body, plural))
        elif call.verb == "list" and (chosen := self._chosen(call)) != call.reading.labels:
            call = replace(call, reading=replace(call.reading, labels=chosen))
        if call.user.name in STEPS and call.verb in ("update", "patch", "delete") and call.subresource != "status":
            self._check(call)
        return super().perform(call)

    def _check(self, call: Call) -> None:
        """Raises ApiError for an object that is not the lab's, and for the deletion of a node that exists."""
        found = super().perform(replace(call, verb="get", subresource="", body=None)).object
        is_node = call.resource.plural == "nodes"
        here = call.resource.plural == "pods" and found["spec"].get("nodeName") in self.kept
        if not (is_marked(found) or here) or (is_node and call.verb == "delete" and not is_made(found)):
            raise ApiError(403, "Forbidden", f"{call.resource.name} {call.path} is not the lab's, so it is left alone")

    def watch(self, call: Call) -> RemoteWatch:
        scope = Scope(call.namespace, call.reading.fields, self._chosen(call))
        return self._shared(call.resource, scope).follow(self._sight(call))

    def _chosen(self, call: Call) -> str:
        """The label selector of a list or watch."""
        plural, user = call.resource.plural, call.user.name
        scoped = (plural == "nodes" and user != "checks") or (plural == "resourceslices" and user not in ALL_SLICES)
        return ",".join(filter(None, (call.reading.labels, LABEL if scoped else "")))

    def _sight(self, call: Call) -> Callable[[Object], bool]:
        if call.resource.plural == "pods" and call.user.name == KUBELET:
            return lambda pod: pod["spec"].get("nodeName") in self.kept
        if call.resource.plural in (REQUESTS, RESOURCES):
            return self._is_ours
        return lambda obj: True

    def _is_ours(self, obj: Object) -> bool:
        """Whether a request or resource is for a node of the lab, or for none."""
        target = target_of(obj)
        return is_marked(obj) or not target or target in self.nodes

    def _labelled(self, body: Object, plural: str = "") -> Object:
        metadata = body.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), LABEL: self.name}
        marked: Object = {**body, "metadata": {**metadata, "labels": labels}}
        if plural == "pods":  # nothing of the lab lands on other nodes
            spec = body["spec"]
            marked["spec"] = {
                **spec,
                "tolerations": [*(spec.get("tolerations") or ()), TOLERATION],
                "nodeSelector": {**(spec.get("nodeSelector") or {}), LABEL: self.name},
            }
        elif plural == "resourceclaimtemplates":  # the claims that the cluster makes of it carry the label too
            spec = body["spec"]
            inner = spec.get("metadata") or {}
            labels = {**(inner.get("labels") or {}), LABEL: self.name}
            marked["spec"] = {**spec, "metadata": {**inner, "labels": labels}}
        return marked
