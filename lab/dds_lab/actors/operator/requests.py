"""ComposabilityRequests: "" → NodeAllocating → Updating → Running → Cleaning → Deleting.

Their one worker is another than those of resources, and never places an order with the fabric. A changed status of a resource is
copied into the request. That a resource is gone is found out at the next poll, by the ideal operator at once. That the node is
gone is found out at the next poll.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from random import Random

from dds_lab.actors.objects import said
from dds_lab.actors.operator.names import (
    API_VERSION,
    DETACH_DEVICE,
    MANAGED_BY,
    REQUESTS,
    RESOURCES,
)
from dds_lab.actors.operator.placement import GOING, NoNode, node_of, place
from dds_lab.actors.operator.view import Draft, OperatorView, owner
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.scenario.parts import OperatorPart
from dds_lab.time import Time

COPIED = ("state", "error", "device_id", "cdi_device_id")


class Requests:
    """The queue has names of requests, and of resources whose status is to be copied."""

    def __init__(self, client: Client, time: Time, settings: OperatorPart, view: OperatorView) -> None:
        self._client = client
        self._settings = settings
        self._view = view
        self._names: Random = time.random("operator/names")
        self._queue = WorkQueue(time, self._look, settings.look.latency(), time.random("operator/requests"))
        self._resting: dict[str, Draft] = {}  # by name: the last look changed nothing, so the next one does the same
        self._steps: dict[str, Callable[[Draft], float | None]] = {
            "": self._enter,
            "NodeAllocating": self._place,
            "Updating": self._update,
            "Running": self._rest,
            "Cleaning": self._clear,
            "Deleting": Draft.let_go,
        }

    def stop(self) -> None:
        self._queue.stop()

    def changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(new["metadata"]["name"])
        elif old is not None:
            self._resting.pop(old["metadata"]["name"], None)

    def resource_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.get("status") != new.get("status"):
            self._queue.add(new["metadata"]["name"])
        if self._settings.ideal and old is not None and new is None:
            self._queue.add(owner(old))

    def _look(self, name: str, finish: Finish) -> None:
        again: float | None = None
        draft = self._resting.get(name)
        if draft is None or not self._view.requests.has(draft.obj, name):
            request = self._view.requests.get(name)
            draft = Draft(self._client, REQUESTS, request) if request is not None else None
        try:
            if draft is not None:
                again = self._reconcile(draft)
            elif (resource := self._view.resources.get(name)) is not None:
                self._copy(resource)
            self._queue.forget(name)
            if again is not None:
                self._queue.add_after(name, again)
        except (ApiError, NoNode) as error:
            self._resting.pop(name, None)
            if draft is not None:
                draft.fail(error.what)
            self._queue.retry(name)
        finish()

    def _copy(self, resource: Object) -> None:
        """Copy the status of a resource into its request, if it has one. Raises ApiError."""
        if (resource["metadata"].get("labels") or {}).get(DETACH_DEVICE):
            return
        name, request = resource["metadata"]["name"], self._view.requests.get(owner(resource))
        if request is None:
            raise ApiError(404, "NotFound", f'ComposabilityRequest "{owner(resource)}" not found')
        entries = _entries(request)
        if name in entries:
            new = {field: said(resource, field) for field in COPIED if field == "state" or said(resource, field)}
            entries = {**entries, name: {**new, "node_name": entries[name].get("node_name", "")}}
        Draft(self._client, REQUESTS, request).save(resources=entries)

    def _reconcile(self, draft: Draft) -> float | None:
        """Do one step. The result is when to look again (seconds), None for not before a change."""
        target = draft.obj["spec"]["resource"].get("target_node", "")
        lost = self._settings.deletes_with_node and target and self._view.nodes.get(target) is None
        if lost and not draft.going:
            draft.delete()
            return None
        if self._resting.get(draft.name) is draft:
            draft.rewrite()
            return self._settings.poll
        state = draft.said("state")
        if draft.going and state in ("NodeAllocating", "Updating", "Running"):
            draft.save(state="Cleaning")
            return None
        step = self._steps.get(state)
        return step(draft) if step is not None else None

    def _enter(self, draft: Draft) -> None:
        draft.keep()
        draft.save(state="NodeAllocating", error="", scalarResource=_wanted(draft))

    def _place(self, draft: Draft) -> None:
        """Choose the resources to give up, and nodes for new ones. Entries of resources that are going, or that were never
        created, stay (so that these are created again), but not those of the ideal operator."""
        owned = [one for one in self._view.owned(draft.name) if said(one, "state") not in GOING]
        found = place(draft.obj, owned, self._known_nodes(draft.obj), lambda: self._occupied(draft.obj))
        kept = {one["metadata"]["name"] for one in found.kept}
        given_up = {one["metadata"]["name"] for one in owned} - kept
        entries = {
            name: entry
            for name, entry in _entries(draft.obj).items()
            if (name in kept if self._settings.ideal else name not in given_up)
        }
        kind = draft.obj["spec"]["resource"]["type"]
        entries |= {self._new_name(kind): {"state": "", "node_name": node} for node in found.nodes}
        draft.save(state="Updating", error="", resources=entries, scalarResource=_wanted(draft))

    def _update(self, draft: Draft) -> float | None:
        """Create missing resources and delete those that are not listed. Running when all are Online."""
        if self._differs(draft):
            return None
        wanted = _entries(draft.obj)
        owned = {one["metadata"]["name"]: one for one in self._view.owned(draft.name)}
        for name, one in owned.items():
            if name not in wanted:
                self._delete(one)
        for name in wanted:
            if name not in owned:
                self._create(draft.obj, name, wanted[name]["node_name"])
        if any(one["state"] != "Online" for one in wanted.values()):
            return self._settings.poll
        draft.save(state="Running", error="", scalarResource=_wanted(draft))
        return None

    def _rest(self, draft: Draft) -> float | None:
        if self._differs(draft):
            return None
        read = draft.obj
        draft.save(error="")
        if draft.obj is read:
            self._resting[draft.name] = draft
        return self._settings.poll

    def _differs(self, draft: Draft) -> bool:
        """Whether the spec differs from the one last handled. If so, the resources are chosen anew."""
        wanted = _wanted(draft)
        if (draft.obj.get("status") or {}).get("scalarResource") == wanted:
            return False
        draft.save(state="NodeAllocating", scalarResource=wanted)
        return True

    def _clear(self, draft: Draft) -> float | None:
        owned = self._view.owned(draft.name)
        if not owned:
            draft.save(state="Deleting")
            return None
        for one in owned:
            self._delete(one)
        draft.save(error="")
        return self._settings.poll

    def _new_name(self, kind: str) -> str:
        """A name that no resource has: a restarted operator draws the names of its predecessor again."""
        while True:
            name = f"{kind}-{uuid.UUID(int=self._names.getrandbits(128), version=4)}"
            if self._view.resources.get(name) is None:
                return name

    def _create(self, request: Object, name: str, node: str) -> None:
        wanted = request["spec"]["resource"]
        spec = {"type": wanted["type"], "model": wanted["model"], "target_node": node}
        if wanted.get("force_detach"):
            spec["force_detach"] = True
        metadata = {"name": name, "labels": {MANAGED_BY: request["metadata"]["name"]}}
        obj = {"apiVersion": API_VERSION, "kind": "ComposableResource", "metadata": metadata, "spec": spec}
        with tolerating(409):
            self._client.create(RESOURCES, obj)

    def _delete(self, resource: Object) -> None:
        with tolerating(404):
            self._client.delete(RESOURCES, resource["metadata"]["name"], uid=resource["metadata"]["uid"])

    def _known_nodes(self, request: Object) -> dict[str, Object]:
        """The nodes that matter to the request. With a target only a few of them are read."""
        target = request["spec"]["resource"].get("target_node")
        if not target:
            return {one["metadata"]["name"]: one for one in self._view.nodes.values()}
        names = [target]
        names += [one["spec"].get("target_node", "") for one in self._view.owned(request["metadata"]["name"])]
        found = {name: self._view.nodes.get(name) for name in names}
        return {name: node for name, node in found.items() if node is not None}

    def _occupied(self, request: Object) -> Iterator[str]:
        """The nodes of other samenode requests."""
        for other in self._view.requests.values():
            mine = other["metadata"]["name"] == request["metadata"]["name"]
            if not mine and other["spec"]["resource"].get("allocation_policy", "samenode") == "samenode":
                yield node_of(other)


def _wanted(draft: Draft) -> Object:
    """The wanted devices, without empty fields."""
    wanted = draft.obj["spec"]["resource"]
    return {key: value for key, value in wanted.items() if value is not False and value not in ("", {}, None)}


def _entries(request: Object) -> Object:
    found: Object = (request.get("status") or {}).get("resources") or {}
    return found
