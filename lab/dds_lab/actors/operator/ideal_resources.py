"""ComposableResources of the ideal operator: "" → Attaching → Online → Detaching → Deleting.

Each reconcile does one step. A worker waits for the fabric's answer to its order, but there are many. The live object is read
before an order, so that only a lost answer makes the operator order again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from dds_lab.actors.fabric import Answer, Fabric
from dds_lab.actors.objects import said
from dds_lab.actors.operator.operator_settings import (
    DETACH_DEVICE,
    DETACH_RESOURCE,
    RESOURCES,
    OperatorSettings,
    Plugins,
)
from dds_lab.actors.operator.taint_rules import TaintRules
from dds_lab.actors.operator.view import OperatorView, kept_back, let_go
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object
from dds_lab.time import Time

NVIDIA = "gpu.nvidia.com"
WORKERS = 16


class NotNow(Exception):
    """A step must wait; the text says why. Either processes use a device that is to be detached, or the node has no NVIDIA
    driver, without which the operator attaches nothing (in the lab only memory, since labs have GPUs of other vendors)."""


class IdealResources:
    def __init__(
        self,
        client: Client,
        time: Time,
        settings: OperatorSettings,
        view: OperatorView,
        fabric: Fabric,
        plugins: Plugins,
    ) -> None:
        self._client = client
        self._settings = settings
        self._view = view
        self._fabric = fabric
        self._plugins = plugins
        self._taints = TaintRules(client, settings.taint_version)
        self._random: Random = time.random("operator/resources")
        self._queue = WorkQueue(time, self._look, settings.look, self._random, WORKERS)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._queue.stop()

    def changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or _matters(old, new)):
            self._queue.add(new["metadata"]["name"])

    def node_changed(self, old: Object | None, new: Object | None) -> None:
        """Each resource notices a deleted node at its own next poll."""
        if new is None and old is not None:
            self._poll(old["metadata"]["name"])

    def machine_changed(self, node: str) -> None:
        """The operator notices changed health at the next poll, and only of resources that are Online."""
        if any(
            self._fabric.health(node, said(one, "cdi_device_id")) or said(one, "error") for one in self._online(node)
        ):
            self._poll(node)

    def device_shown(self, uuid: str) -> None:
        for one in self._view.holding(uuid):
            self._queue.add(one["metadata"]["name"])

    def _online(self, node: str) -> list[Object]:
        return [one for one in self._view.on_node(node) if said(one, "state") == "Online"]

    def _poll(self, node: str) -> None:
        for one in self._view.on_node(node):
            self._queue.add_after(one["metadata"]["name"], self._random.uniform(0, self._settings.poll))

    def _look(self, name: str, finish: Finish) -> None:
        resource = self._view.resources.get(name)
        if resource is None:
            self._queue.forget(name)
            finish()
            return
        try:
            if self._step(resource, finish):
                return  # the fabric's answer ends this reconcile
            self._queue.forget(name)
        except ApiError:
            self._queue.retry(name)
        except NotNow as error:
            self._failed(resource, str(error))
        finish()

    def _step(self, resource: Object, finish: Finish) -> bool:
        """Do one step. True if it placed an order, whose answer calls `finish`."""
        now = said(resource, "state")
        lost = (
            self._settings.deletes_with_node and self._view.nodes.get(resource["spec"].get("target_node", "")) is None
        )
        if lost and now != "Deleting":
            self._node_gone(resource)
            return False
        if now == "":
            self._begin(resource)
        elif now == "Attaching":
            return self._attach(resource, finish)
        elif now == "Online":
            self._check(resource)
        elif now == "Detaching":
            return self._detach(resource, finish)
        elif now == "Deleting":
            let_go(self._client, RESOURCES, resource)
        return False

    def _node_gone(self, resource: Object) -> None:
        """The devices in the lost machine stay there: the operator does not order their detach."""
        metadata = resource["metadata"]
        self._taints.remove(metadata["name"])
        if not metadata.get("deletionTimestamp"):
            self._client.delete(RESOURCES, metadata["name"], uid=metadata["uid"])
            resource = self._client.get(RESOURCES, metadata["name"])
        self._write(resource, state="Deleting")

    def _begin(self, resource: Object) -> None:
        labels, kept = resource["metadata"].get("labels") or {}, kept_back(self._client, RESOURCES, resource)
        found = {"device_id": labels.get(DETACH_DEVICE, ""), "cdi_device_id": labels.get(DETACH_RESOURCE, "")}
        if kept is not None:
            self._write(kept, state="Attaching", **{key: value for key, value in found.items() if value})

    def _attach(self, resource: Object, finish: Finish) -> bool:
        node = resource["spec"]["target_node"]
        if not said(resource, "device_id"):
            resource = self._newest(resource)
        going = bool(resource["metadata"].get("deletionTimestamp"))
        if not said(resource, "device_id"):
            if going:
                self._write(resource, state="Deleting")
                return False
            if resource["spec"]["type"] != "gpu" and NVIDIA not in self._plugins.drivers():
                raise NotNow(f"no nvidia driver found on node {node}")
            self._fabric.attach(node, resource["spec"]["model"], self._answer(resource, finish, self._attached))
            return True
        if going and said(resource, "error"):
            self._write(resource, state="Detaching")
            return False
        if self._view.shown(said(resource, "device_id")) is not None:
            self._write(resource, state="Online", error="")
            return False
        self._plugins.restart_plugin(node)
        return False

    def _attached(self, resource: Object, answer: Answer) -> None:
        if answer.device is None:
            self._failed(resource, answer.error)
            return
        resource = self._newest(resource)
        if said(resource, "device_id"):
            return
        self._write(resource, device_id=answer.device.serial, cdi_device_id=answer.device.resource)

    def _check(self, resource: Object) -> None:
        metadata = resource["metadata"]
        if metadata.get("deletionTimestamp"):
            self._write(resource, state="Detaching")
        elif DETACH_DEVICE in (metadata.get("labels") or {}):
            self._client.delete(RESOURCES, metadata["name"], uid=metadata["uid"])
        else:
            self._write(
                resource, error=self._fabric.health(resource["spec"]["target_node"], said(resource, "cdi_device_id"))
            )

    def _detach(self, resource: Object, finish: Finish) -> bool:
        name, node, device = resource["metadata"]["name"], resource["spec"]["target_node"], said(resource, "device_id")
        if not device:
            self._write(resource, state="Deleting")
            return False
        if self._fabric.where(device) != node or self._came_again(resource):
            self._detached(resource)
            return False
        if not resource["spec"].get("force_detach") and self._fabric.users(device):
            raise NotNow(f"compute processes are still running on {device} of {node}")
        shown = self._view.shown(device)
        if shown is not None:
            self._taints.add(name, shown, device)
        self._fabric.detach(node, said(resource, "cdi_device_id"), self._answer(resource, finish, self._removed))
        return True

    def _removed(self, resource: Object, answer: Answer) -> None:
        if answer.device is None:
            self._failed(resource, answer.error)
        else:
            self._detached(resource)

    def _detached(self, resource: Object) -> None:
        """The fabric has the device back. Wait until no slice shows it."""
        name, device = resource["metadata"]["name"], said(resource, "device_id")
        if self._view.shown(device) is None or self._came_again(resource):
            self._taints.remove(name)
            self._write(resource, state="Deleting", device_id="", cdi_device_id="", error="")
            return
        self._plugins.restart_plugin(resource["spec"]["target_node"])
        self._queue.add_after(name, self._settings.poll)

    def _came_again(self, resource: Object) -> bool:
        """Whether the detached device is on its node again as another resource, before any slice showed that it was gone."""
        others = (
            one
            for one in self._view.holding(said(resource, "device_id"))
            if one["metadata"]["uid"] != resource["metadata"]["uid"]
        )
        here = (one for one in others if one["spec"]["target_node"] == resource["spec"]["target_node"])
        return any(not one["metadata"].get("deletionTimestamp") for one in here)

    def _newest(self, resource: Object) -> Object:
        """The live resource."""
        return self._client.find(RESOURCES, resource["metadata"]["name"]) or resource

    def _answer(
        self, resource: Object, finish: Finish, then: Callable[[Object, Answer], None]
    ) -> Callable[[Answer], None]:
        """A callback for the fabric's answer. Answers after `stop` are ignored."""

        def come(answer: Answer) -> None:
            if self._stopped:
                return
            name = resource["metadata"]["name"]
            try:
                then(resource, answer)
                if not answer.error:
                    self._queue.forget(name)
            except ApiError:
                self._queue.retry(name)
            finish()

        return come

    def _failed(self, resource: Object, words: str) -> None:
        """Write the error into the status and try again, each time after twice the delay."""
        name = resource["metadata"]["name"]
        with suppress(ApiError):  # the next try writes it
            self._write(self._view.resources.get(name) or resource, error=words)
        self._queue.retry(name)

    def _write(self, resource: Object, **fields: str) -> None:
        before = resource.get("status") or {}
        status = {**before, **fields}
        status = {key: value for key, value in status.items() if value or key in before or _always(key, fields)}
        if status != before:
            self._client.update(RESOURCES, {**resource, "status": status}, subresource="status")


def _always(key: str, fields: dict[str, str]) -> bool:
    """Write an empty error with Online and Deleting, so that the field exists."""
    return key == "error" and fields.get("state") in ("Online", "Deleting")


def _matters(old: Object, new: Object) -> bool:
    """Whether the change can start a step. Nearly all changes of an Online resource are its last-used annotation, which
    cannot."""
    before, after = old["metadata"], new["metadata"]
    return (
        old.get("status") != new.get("status")
        or before.get("deletionTimestamp") != after.get("deletionTimestamp")
        or before.get("finalizers") != after.get("finalizers")
        or before.get("labels") != after.get("labels")
        or before["uid"] != after["uid"]
    )
