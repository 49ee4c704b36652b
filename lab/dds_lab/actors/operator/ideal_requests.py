"""ComposabilityRequests of the ideal operator: "" → NodeAllocating → Updating → Running → Cleaning → Deleting.

Each reconcile does one step; its write triggers the next one. This controller never places an order with the fabric.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random

from dds_lab.actors.objects import said
from dds_lab.actors.operator.operator_settings import API_VERSION, MANAGED_BY, REQUESTS, RESOURCES, OperatorSettings
from dds_lab.actors.operator.planning import NoNode, Plan, node_of, plan
from dds_lab.actors.operator.view import OperatorView, kept_back, let_go, owner
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.time import Time


class IdealRequests:
    def __init__(self, client: Client, time: Time, settings: OperatorSettings, view: OperatorView) -> None:
        self._client = client
        self._settings = settings
        self._view = view
        self._random: Random = time.random("operator/requests")
        self._names: Random = time.random("operator/names")
        self._queue = WorkQueue(time, self._look, settings.look, self._random)
        self._by_node: dict[str, dict[str, None]] = {}  # target node → requests

    def stop(self) -> None:
        self._queue.stop()

    def changed(self, old: Object | None, new: Object | None) -> None:
        for obj, add in ((old, False), (new, True)):
            if obj is not None:
                names = self._by_node.setdefault(obj["spec"]["resource"].get("target_node", ""), {})
                if add:
                    names[obj["metadata"]["name"]] = None
                else:
                    names.pop(obj["metadata"]["name"], None)
        if new is not None:
            self._queue.add(new["metadata"]["name"])

    def resource_changed(self, old: Object | None, new: Object | None) -> None:
        """Queue the request at once when one of its resources is created or deleted, or changes its status."""
        obj = new or old
        if obj is None or not owner(obj):
            return
        if old is None or new is None or old.get("status") != new.get("status"):
            self._queue.add(owner(obj))

    def node_changed(self, old: Object | None, new: Object | None) -> None:
        """Each request notices a deleted node at its own next poll."""
        if new is None and old is not None:
            for name in tuple(self._by_node.get(old["metadata"]["name"], ())):
                self._queue.add_after(name, self._random.uniform(0, self._settings.poll))

    def _look(self, name: str, finish: Finish) -> None:
        request = self._view.requests.get(name)
        if request is not None:
            try:
                self._step(request)
                self._queue.forget(name)
            except ApiError:
                self._queue.retry(name)
            except NoNode as error:
                self._tell(request, str(error))
                self._queue.retry(name)
        finish()

    def _step(self, request: Object) -> None:
        name, metadata = request["metadata"]["name"], request["metadata"]
        target = request["spec"]["resource"].get("target_node", "")
        lost = self._settings.deletes_with_node and target and self._view.nodes.get(target) is None
        if lost and not metadata.get("deletionTimestamp"):
            self._client.delete(REQUESTS, name, uid=metadata["uid"])
            return
        copied = self._copied(request)
        if copied != _resources(request):
            self._write(request, resources=copied)
            return
        steps: dict[str, Callable[[Object], object]] = {
            "": self._begin,
            "NodeAllocating": self._allocate,
            "Updating": self._bring_about,
            "Running": self._turned,  # every later change queues it; no poll is needed
            "Cleaning": self._clean,
            "Deleting": partial(let_go, self._client, REQUESTS),
        }
        if said(request, "state") in steps:
            steps[said(request, "state")](request)

    def _begin(self, request: Object) -> None:
        kept = kept_back(self._client, REQUESTS, request)
        if kept is not None:
            self._write(kept, state="NodeAllocating", scalarResource=request["spec"]["resource"])

    def _allocate(self, request: Object) -> None:
        if request["metadata"].get("deletionTimestamp"):
            self._write(request, state="Cleaning")
            return
        known = self._known_nodes(request)
        found = plan(request, self._view.owned(request["metadata"]["name"]), known, lambda: self._occupied(request))
        self._write(request, state="Updating", error="", resources=self._entries(request, found))

    def _bring_about(self, request: Object) -> None:
        """Create missing resources and delete those that are not listed. Running when all are Online."""
        if self._turned(request):
            return
        name, wanted = request["metadata"]["name"], _resources(request)
        owned = {one["metadata"]["name"]: one for one in self._view.owned(name)}
        for one in owned.values():
            if one["metadata"]["name"] not in wanted and not one["metadata"].get("deletionTimestamp"):
                self._delete(one)
        for missing in wanted:
            if missing not in owned:
                self._create(request, missing, wanted[missing]["node_name"])
        if all(one in owned and said(owned[one], "state") == "Online" for one in wanted):
            self._write(request, state="Running", error="")
        else:
            self._queue.add_after(name, self._settings.poll)

    def _turned(self, request: Object) -> bool:
        """Write the next state if the request is deleted or its spec differs from the one last handled. True if so."""
        wanted = request["spec"]["resource"]
        if request["metadata"].get("deletionTimestamp"):
            self._write(request, state="Cleaning")
            return True
        if (request.get("status") or {}).get("scalarResource") != wanted:
            self._write(request, state="NodeAllocating", scalarResource=wanted)
            return True
        return False

    def _clean(self, request: Object) -> None:
        owned = list(self._view.owned(request["metadata"]["name"]))
        for one in owned:
            if not one["metadata"].get("deletionTimestamp"):
                self._delete(one)
        if owned:
            self._queue.add_after(request["metadata"]["name"], self._settings.poll)
        else:
            self._write(request, state="Deleting")

    def _copied(self, request: Object) -> Object:
        """status.resources, updated with the status of the resources."""
        copied = dict(_resources(request))
        for one in self._view.owned(request["metadata"]["name"]):
            name = one["metadata"]["name"]
            if name in copied:
                copied[name] = _entry(one)
        return copied

    def _entries(self, request: Object, found: Plan) -> Object:
        entries = {one["metadata"]["name"]: _entry(one) for one in found.kept}
        kind = request["spec"]["resource"]["type"]
        for node in found.nodes:
            entries[self._new_name(kind)] = {"state": "", "node_name": node}
        return entries

    def _new_name(self, kind: str) -> str:
        """A name that no resource has: a restarted operator draws the names of its predecessor again."""
        while True:
            name = f"{kind}-{uuid.UUID(int=self._names.getrandbits(128), version=4)}"
            if self._view.resources.get(name) is None:
                return name

    def _create(self, request: Object, name: str, node: str) -> None:
        wanted = request["spec"]["resource"]
        spec = {
            "type": wanted["type"],
            "model": wanted["model"],
            "target_node": node,
            **({"force_detach": True} if wanted.get("force_detach") else {}),
        }
        labels = {MANAGED_BY: request["metadata"]["name"]}
        obj = {
            "apiVersion": API_VERSION,
            "kind": "ComposableResource",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
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

    def _tell(self, request: Object, words: str) -> None:
        with suppress(ApiError):  # the next try writes it again
            self._write(request, error=words)

    def _write(self, request: Object, **fields: object) -> None:
        before = request.get("status") or {}
        status = {**before, **fields}
        status = {key: value for key, value in status.items() if value != "" or before.get(key)}
        if status != before:
            self._client.update(REQUESTS, {**request, "status": status}, subresource="status")


def _entry(resource: Object) -> Object:
    status = resource.get("status") or {}
    entry = {"state": status.get("state", ""), "node_name": resource["spec"].get("target_node", "")}
    for field in ("device_id", "cdi_device_id", "error"):
        if status.get(field):
            entry[field] = status[field]
    return entry


def _resources(request: Object) -> Object:
    found: Object = (request.get("status") or {}).get("resources") or {}
    return found
