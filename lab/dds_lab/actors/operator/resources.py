"""ComposableResources: "" → Attaching → Online → Detaching → Deleting.

Every change of an object starts a reconcile. There is one worker. What is read before an order is written after it: if the object
changed meanwhile, the device's ids are lost and the operator orders again. After an error, whose text goes into the status, it
tries again with a back-off; a text that differs from the one before is a change, and so starts a reconcile at once.

The ideal operator has many workers. It reads the live object, remembers a device that came until the resource names it, and so
orders again only after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from dds_core.errors import DdsError
from dds_lab.actors.fabric import Answer, Fabric
from dds_lab.actors.operator import orders
from dds_lab.actors.operator.names import (
    DETACH_DEVICE,
    DETACH_RESOURCE,
    RESOURCES,
    Plugins,
)
from dds_lab.actors.operator.view import Draft, OperatorView, Shown
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.scenario.parts import OperatorPart
from dds_lab.time import Time

# -- the DeviceTaintRules that keep pods off a device while it is detached ---------------------------------------------

KEY = "k8s.io/device-uuid"
REFUSED = (403, 404, 405, 422)


class TaintRules:
    """`version`: their API version, "" for no rules. `optional`: the operator continues without rules that the API refuses or
    does not serve. Raises ApiError otherwise."""

    def __init__(self, client: Client, version: str, optional: bool) -> None:
        self._client = client
        self._version = version
        self._tolerated = REFUSED if optional else ()
        self._resource = f"devicetaintrules.{version}.resource.k8s.io"

    def add(self, resource: str, shown: Shown | None, uuid: str) -> None:
        with tolerating(*self._tolerated):
            if self._version and not self._exists(resource) and shown is not None:
                self._client.create(self._resource, self._rule(resource, shown, uuid))

    def remove(self, resource: str) -> None:
        with tolerating(*self._tolerated):
            if self._version and self._exists(resource, f"failed to get DeviceTaintRule {_name(resource)}: "):
                self._client.delete(self._resource, _name(resource))

    def _exists(self, resource: str, what: str = "") -> bool:
        try:
            self._client.resource(self._resource)
        except ApiError:
            version = f"resource.k8s.io/{self._version}"
            words = f'{what}no matches for kind "DeviceTaintRule" in version "{version}"'
            raise ApiError(404, "NotFound", words) from None
        return self._client.find(self._resource, _name(resource)) is not None

    def _rule(self, resource: str, shown: Shown, uuid: str) -> Object:
        return {
            "apiVersion": f"resource.k8s.io/{self._version}",
            "kind": "DeviceTaintRule",
            "metadata": {"name": _name(resource)},
            "spec": {
                "deviceSelector": {"driver": shown.driver, "pool": shown.pool, "device": shown.device},
                "taint": {"key": KEY, "value": uuid, "effect": "NoSchedule"},
            },
        }


def _name(resource: str) -> str:
    return f"{resource}-taint"


NVIDIA = "gpu.nvidia.com"
WORKERS = 16
"""Of the ideal operator."""
GONE = 3.0
"""Seconds after which a device that was removed and is still published is looked at again; the ideal operator polls."""
REST = 10.0
"""Seconds. A plugin's pod that is not older is not deleted."""
NO_SMI = "get gpu info command failed: err: 'command terminated with exit code 9', stderr: '', stdout: ''"
ORDERED: Final = -1.0
"""Result of a step: an order was placed, and its answer continues the reconcile."""

Step = Callable[[], float | None]
"""Part of a reconcile. The result is when to look again (seconds), None for not before a change, or ORDERED."""


class Failed(DdsError):
    """A step failed; the text goes into the status."""


class Resources:
    def __init__(
        self,
        client: Client,
        time: Time,
        settings: OperatorPart,
        view: OperatorView,
        fabric: Fabric,
        plugins: Plugins,
        taint_version: str,
    ) -> None:
        self._client = client
        self._settings = settings
        self._view = view
        self._fabric = fabric
        self._plugins = plugins
        counts = settings.api == "cm" and not settings.ideal
        self._orders: orders.Orders = orders.ClusterOrders(fabric, view) if counts else orders.FabricOrders(fabric)
        self._rules = TaintRules(client, taint_version, optional=settings.ideal)
        workers = WORKERS if settings.ideal else 1
        self._queue = WorkQueue(time, self._look, settings.look.latency(), time.random("operator/resources"), workers)
        self._resting: dict[str, Draft] = {}  # by name: Online, and the last look changed nothing
        self._came: dict[str, Answer] = {}  # ideal only: resource → the device that came, until the resource names it
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._queue.stop()

    def changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(new["metadata"]["name"])
        elif old is not None:
            self._resting.pop(old["metadata"]["name"], None)

    def look_at(self, resources: Iterable[Object]) -> None:
        """Reconcile at once what has not changed itself."""
        for one in resources:
            self._queue.add(one["metadata"]["name"])

    # -- a reconcile

    def _look(self, name: str, finish: Finish) -> None:
        draft = self._resting.get(name)
        if draft is None or not self._view.resources.has(draft.obj, name):
            resource = self._view.resources.get(name)
            if resource is None:
                self._queue.forget(name)
                self._came.pop(name, None)
                finish()
                return
            draft = Draft(self._client, RESOURCES, resource)
        self._go_on(draft, finish, partial(self._step, draft, finish))

    def _go_on(self, draft: Draft, finish: Finish, step: Step) -> None:
        try:
            again = step()
            if again == ORDERED:
                return
            self._queue.forget(draft.name)
            if again is not None:
                self._queue.add_after(draft.name, again)
        except (ApiError, Failed) as error:
            self._resting.pop(draft.name, None)
            draft.fail(error.what)
            self._queue.retry(draft.name)
        finish()

    def _answer(
        self, draft: Draft, finish: Finish, then: Callable[[Draft, Answer], float | None]
    ) -> Callable[[Answer], None]:
        """Continues the reconcile with the answer to an order. Answers after `stop` are ignored."""

        def come(answer: Answer) -> None:
            if not self._stopped:
                self._go_on(draft, finish, lambda: then(draft, answer))

        return come

    def _step(self, draft: Draft, finish: Finish) -> float | None:
        if self._settings.ideal:
            draft.renew()
        lost = self._settings.deletes_with_node and self._view.nodes.get(draft.obj["spec"]["target_node"]) is None
        if lost and self._node_gone(draft):
            return None
        if self._resting.get(draft.name) is draft:
            return self._check_health(draft)
        state = draft.said("state")
        if state == "":
            self._begin(draft)
        elif state == "Attaching":
            return self._attach(draft, finish)
        elif state == "Online":
            return self._check(draft)
        elif state == "Detaching":
            return self._detach(draft, finish)
        elif state == "Deleting":
            draft.let_go()
        return None

    def _node_gone(self, draft: Draft) -> bool:
        """Delete the resource, without an order: the device stays in the lost machine. False if that has been done."""
        self._rules.remove(draft.name)
        done = draft.said("state") == "Deleting" and draft.going
        if draft.said("state") != "Deleting":
            with tolerating(404):
                draft.save(state="Deleting", error=f"target node {draft.obj['spec']['target_node']} not found")
        if not draft.going:
            draft.delete()
        return not done

    def _begin(self, draft: Draft) -> None:
        draft.keep()
        labels = draft.obj["metadata"].get("labels") or {}
        device = labels.get(DETACH_DEVICE, "")
        found = {"device_id": device, "cdi_device_id": labels.get(DETACH_RESOURCE, "")} if device else {}
        draft.save(state="Attaching", error="", **found)

    # -- attach

    def _attach(self, draft: Draft, finish: Finish) -> float | None:
        spec, device = draft.obj["spec"], draft.said("device_id")
        if not device and draft.name in self._came:
            return self._attached(draft, self._came[draft.name])
        if draft.going and not device:
            draft.save(state="Deleting")
            return None
        if draft.going and draft.said("error"):
            draft.save(state="Detaching")
            return None
        if spec["type"] != "gpu" and NVIDIA not in self._plugins.drivers():  # labs have GPUs of other vendors
            raise Failed(f"no nvidia driver found on node {spec['target_node']}")
        if device:
            return self._bring_up(draft)
        self._orders.attach(draft.obj, self._answer(draft, finish, self._attached))
        return ORDERED

    def _attached(self, draft: Draft, answer: Answer) -> float | None:
        if answer is orders.WAITS:
            return self._settings.poll
        if answer.device is None:
            raise Failed(answer.error)
        if self._settings.ideal:
            self._came[draft.name] = answer
        draft.save(error="", device_id=answer.device.serial, cdi_device_id=answer.device.resource)
        self._came.pop(draft.name, None)
        return self._bring_up(draft)

    def _bring_up(self, draft: Draft) -> float | None:
        """Online if the vendor's plugin lists the device."""
        spec = draft.obj["spec"]
        if self._fabric.faults.take("smi", spec["target_node"], spec["model"]) is not None:
            draft.save(error=NO_SMI)
        if not self._shown(draft, wanted=True):
            return self._settings.poll
        draft.save(state="Online", error="")
        return None

    def _shown(self, draft: Draft, wanted: bool) -> bool:
        """Whether the vendor's plugin lists the device. The plugin is restarted if it is not too young, so that the list is right
        by the next poll. The ideal operator restarts one of any age, but only if the list is not as `wanted`."""
        node, shown = draft.obj["spec"]["target_node"], self._view.shown(draft.said("device_id")) is not None
        if (shown != wanted) if self._settings.ideal else (self._plugins.plugin_age(node) > REST):
            self._plugins.restart_plugin(node)
        return shown

    # -- online

    def _check(self, draft: Draft) -> float | None:
        if draft.going:
            draft.save(state="Detaching")
            return None
        if (draft.obj["metadata"].get("labels") or {}).get(DETACH_DEVICE):
            draft.delete()
            return None
        return self._check_health(draft)

    def _check_health(self, draft: Draft) -> float:
        """Write what the manager says about the device."""
        read, words = draft.obj, orders.check(self._fabric, draft.obj, self._settings.api)
        if self._resting.get(draft.name) is draft and words == draft.said("error"):
            draft.rewrite()
            return self._settings.poll
        self._resting.pop(draft.name, None)
        draft.save(error=words)
        if draft.obj is read and not self._settings.ideal:  # the ideal operator looks at the live object
            self._resting[draft.name] = draft
        return self._settings.poll

    # -- detach

    def _detach(self, draft: Draft, finish: Finish) -> float | None:
        device, node = draft.said("device_id"), draft.obj["spec"]["target_node"]
        if not device:
            draft.save(state="Deleting")
            return None
        if self._came_again(draft):
            self._release(draft)
            return None
        if not draft.obj["spec"].get("force_detach"):
            self._check_load(node, device)
        self._rules.add(draft.name, self._view.shown(device), device)
        self._orders.detach(draft.obj, self._answer(draft, finish, self._detached))
        return ORDERED

    def _check_load(self, node: str, device: str) -> None:
        apps = [
            (one.device.serial, user)
            for one in self._fabric.attached(node)
            for user in self._fabric.users(one.device.serial)
            if one.device.serial not in self._fabric.passed_through
        ]
        if any(serial == device for serial, _ in apps):
            listed = " ".join(f"GPUUUID: '{serial}', ProcessName: '{user}'" for serial, user in apps)
            raise Failed(f"found gpu load on gpu '{device}': [{listed}]")

    def _detached(self, draft: Draft, answer: Answer) -> float | None:
        if answer is orders.WAITS:
            return self._settings.poll
        if answer.error:
            raise Failed(answer.error)
        if self._shown(draft, wanted=False):
            return self._settings.poll if self._settings.ideal else GONE
        self._release(draft)
        return None

    def _came_again(self, draft: Draft) -> bool:
        """Whether the detached device is on its node again as another resource, before any slice showed that it was gone. The
        real operator does not ask."""
        node = draft.obj["spec"]["target_node"]
        return self._settings.ideal and any(
            one["spec"]["target_node"] == node and not one["metadata"].get("deletionTimestamp")
            for one in self._view.holding(draft.said("device_id"))
            if one["metadata"]["name"] != draft.name
        )

    def _release(self, draft: Draft) -> None:
        self._rules.remove(draft.name)
        draft.save(error="", device_id="", cdi_device_id="")
        draft.save(state="Deleting")
