"""The state machine of ComposableResources: "" → Attaching → Online → Detaching → Deleting.

One look at an object does one step. A worker that ordered something from the fabric waits for the answer, so that with
one worker a slow order holds up all others. Orders are not idempotent: an answer that is lost, or cannot be written, is
ordered again.
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
from dds_lab.actors.operator.view import OperatorView, Shown, kept_back, let_go
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.time import Time

KEY = "k8s.io/device-uuid"
NVIDIA = "gpu.nvidia.com"
NOT_THERE = (403, 404, 405)


class TaintRules:
    """The DeviceTaintRules that keep pods off devices while these are being detached, in one version of the API, "" for none at
    all. Where the API refuses one, there is none, silently. `remove` raises ApiError when it has to be tried again."""

    def __init__(self, client: Client, version: str) -> None:
        self._client = client
        self._version = version
        self._resource = f"devicetaintrules.{version}.resource.k8s.io"

    def add(self, resource: str, shown: Shown, uuid: str) -> None:
        if not self._version:
            return
        with suppress(ApiError):  # it is there already, or it is not served: the operator goes on without
            self._client.create(self._resource, self._rule(resource, shown, uuid))

    def remove(self, resource: str) -> None:
        if self._version:
            with tolerating(*NOT_THERE):
                self._client.delete(self._resource, name(resource))

    def _rule(self, resource: str, shown: Shown, uuid: str) -> Object:
        return {
            "apiVersion": f"resource.k8s.io/{self._version}",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name(resource)},
            "spec": {
                "deviceSelector": {"driver": shown.driver, "pool": shown.pool, "device": shown.device},
                "taint": {"key": KEY, "value": uuid, "effect": "NoSchedule"},
            },
        }


def name(resource: str) -> str:
    return f"{resource}-taint"


class NotNow(Exception):
    """A step that has to wait, with the words that say why: somebody computes on a device that is to be detached, or the node has
    no NVIDIA driver, without which the operator attaches nothing (here only memory, as labs have GPUs of other vendors)."""


class Resources:
    """The controller of one kind."""

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
        self._queue = WorkQueue(time, self._look, settings.look, self._random, settings.workers)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._queue.stop()

    # -- what is news

    def changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or _matters(old, new)):
            self._queue.add(new["metadata"]["name"])

    def node_changed(self, old: Object | None, new: Object | None) -> None:
        """That a node is gone is found out at the next poll, which for each object comes at another moment."""
        if new is None and old is not None:
            self._poll(old["metadata"]["name"])

    def machine_changed(self, node: str) -> None:
        """A device's health is asked for at each poll; it matters for those that are Online."""
        if any(
            self._fabric.health(node, said(one, "cdi_device_id")) or said(one, "error") for one in self._online(node)
        ):
            self._poll(node)

    def device_shown(self, uuid: str) -> None:
        if self._settings.watch_slices:
            for one in self._view.holding(uuid):
                self._queue.add(one["metadata"]["name"])

    def _online(self, node: str) -> list[Object]:
        return [one for one in self._view.on_node(node) if said(one, "state") == "Online"]

    def _poll(self, node: str) -> None:
        for one in self._view.on_node(node):
            self._queue.add_after(one["metadata"]["name"], self._random.uniform(0, self._settings.poll))

    # -- one look

    def _look(self, name: str, finish: Finish) -> None:
        resource = self._view.resources.get(name)
        if resource is None:
            self._queue.forget(name)
            finish()
            return
        try:
            if self._step(resource, finish):
                return  # the answer of the fabric ends this look
            self._queue.forget(name)
        except ApiError:
            self._queue.retry(name)
        except NotNow as error:
            self._failed(resource, str(error))
        finish()

    def _step(self, resource: Object, finish: Finish) -> bool:
        """Do one step; True if an order was made whose answer calls `finish`."""
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
        """What was attached to the lost machine stays there: nobody asks the fabric for it."""
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
        name, node = resource["metadata"]["name"], resource["spec"]["target_node"]
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
        if not self._restart_plugin(node) or not self._settings.watch_slices:
            self._queue.add_after(name, self._settings.poll)
        return False

    def _attached(self, resource: Object, answer: Answer) -> None:
        if answer.device is None:
            self._failed(resource, answer.error)
            return
        resource = self._newest(resource)
        if not self._settings.stale_writes and said(resource, "device_id"):
            return  # ordered twice, for what it had read was old; the real operator's write is refused then
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
        """The fabric has it back; the object waits until no slice shows it any more."""
        name, device = resource["metadata"]["name"], said(resource, "device_id")
        if self._view.shown(device) is None or self._came_again(resource):
            self._taints.remove(name)
            self._write(resource, state="Deleting", device_id="", cdi_device_id="", error="")
            return
        told = self._restart_plugin(resource["spec"]["target_node"]) and self._settings.watch_slices
        self._queue.add_after(name, self._settings.poll if told else self._settings.gone)

    def _came_again(self, resource: Object) -> bool:
        """Whether the device that left is attached to its node as another resource by now, before a slice could show that it was
        gone. The real operator, which polls, does not look and takes it off once more."""
        others = (
            one
            for one in self._view.holding(said(resource, "device_id"))
            if one["metadata"]["uid"] != resource["metadata"]["uid"]
        )
        here = (one for one in others if one["spec"]["target_node"] == resource["spec"]["target_node"])
        return self._settings.watch_slices and any(not one["metadata"].get("deletionTimestamp") for one in here)

    # -- parts

    def _newest(self, resource: Object) -> Object:
        """Who orders on what it has read before may order again what it has got, as the real one does."""
        stale = self._settings.stale_writes
        return resource if stale else self._client.find(RESOURCES, resource["metadata"]["name"]) or resource

    def _answer(
        self, resource: Object, finish: Finish, then: Callable[[Object, Answer], None]
    ) -> Callable[[Answer], None]:
        """What to do with the fabric's answer. One that comes after the operator has stopped finds nobody."""

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
        """Tell it in the status and try again, each time twice as late."""
        name = resource["metadata"]["name"]
        with suppress(ApiError):  # told at the next try
            self._write(self._view.resources.get(name) or resource, error=words)
        self._queue.retry(name)

    def _restart_plugin(self, node: str) -> bool:
        """False when it is too young; then somebody has to look again, for no slice will tell."""
        if self._plugins.plugin_age(node) < self._settings.plugin_rest:
            return False
        self._plugins.restart_plugin(node)
        return True

    def _write(self, resource: Object, **fields: str) -> None:
        before = resource.get("status") or {}
        status = {**before, **fields}
        status = {key: value for key, value in status.items() if value or key in before or _always(key, fields)}
        if status != before:
            self._client.update(RESOURCES, {**resource, "status": status}, subresource="status")


def _always(key: str, fields: dict[str, str]) -> bool:
    """An empty error is written with Online and Deleting, as the real one does, so that the field is there."""
    return key == "error" and fields.get("state") in ("Online", "Deleting")


def _matters(old: Object, new: Object) -> bool:
    """Nearly all changes of an Online resource are its annotation with the time of last use, which starts no step."""
    before, after = old["metadata"], new["metadata"]
    return (
        old.get("status") != new.get("status")
        or before.get("deletionTimestamp") != after.get("deletionTimestamp")
        or before.get("finalizers") != after.get("finalizers")
        or before.get("labels") != after.get("labels")
        or before["uid"] != after["uid"]
    )
