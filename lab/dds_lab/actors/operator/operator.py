"""The operator as one actor: its view, its two controllers and its syncer are started and stopped together."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from random import Random

from dds_lab.actors.fabric import Attached, Fabric
from dds_lab.actors.objects import has_resource, said
from dds_lab.actors.operator.names import (
    API_VERSION,
    DETACH_DEVICE,
    DETACH_RESOURCE,
    RESOURCES,
    Plugins,
)
from dds_lab.actors.operator.placement import refusal
from dds_lab.actors.operator.requests import Requests
from dds_lab.actors.operator.resources import Resources
from dds_lab.actors.operator.view import OperatorView
from dds_lab.client import ApiError, Client, Object
from dds_lab.scenario.parts import OperatorPart
from dds_lab.time import Time, Timer


class Syncer:
    """The upstream syncer: it detaches a device that the fabric reports as attached and that no resource names for `orphan`
    seconds.

    It checks at every multiple of `sync` seconds while there is such a device. It cannot tell a device that a user attached by
    hand from one whose answer was lost. Its clock is in memory, so a restart resets it.
    """

    def __init__(self, client: Client, time: Time, settings: OperatorPart, view: OperatorView, fabric: Fabric) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._view = view
        self._fabric = fabric
        self._names: Random = time.random("operator/syncer")
        self._since: dict[str, int] = {}  # serial → when it was first seen without a resource
        self._suspects: dict[str, None] = {}  # nodes that may have a device without a resource
        self._timer: Timer | None = None
        self._began = time.now()

    def start(self) -> None:
        for machine in self._fabric.machines():
            self.machine_changed(machine.node)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def machine_changed(self, node: str) -> None:
        if node and any(self._orphan(one) for one in self._fabric.plugged(node)):
            self._suspects[node] = None
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._settings.sync:
            period = round(self._settings.sync * 1_000_000)
            left = period - (self._time.now() - self._began) % period
            self._timer = self._time.after(left / 1_000_000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for node in tuple(self._suspects):
            orphans = [one for one in self._fabric.plugged(node) if self._orphan(one)]
            if self._view.nodes.get(node) is None or not orphans:
                del self._suspects[node]  # without a Node, the operator does not ask for its machine
                continue
            for one in orphans:
                self._judge(node, one)
        for serial in [one for one in self._since if self._accounted(one)]:
            del self._since[serial]
        if self._suspects:
            self._arm()

    def _judge(self, node: str, one: Attached) -> None:
        serial = one.device.serial
        since = self._since.setdefault(serial, self._time.now())
        if self._time.now() - since <= self._settings.orphan * 1_000_000:
            return
        obj = {
            "apiVersion": API_VERSION,
            "kind": "ComposableResource",
            "metadata": {
                "generateName": f"gpu-{uuid.UUID(int=self._names.getrandbits(128), version=4)}",
                "labels": {DETACH_DEVICE: serial, DETACH_RESOURCE: one.device.resource},
            },
            "spec": {"type": "gpu", "model": one.device.model, "target_node": node},
        }
        try:
            self._client.create(RESOURCES, obj)
        except ApiError:
            return  # the next tick tries again

    def _accounted(self, serial: str) -> bool:
        """Whether the device is in no node's machine or a resource names it. If that changes, its clock starts from zero."""
        node = self._fabric.where(serial)
        return not node or self._view.nodes.get(node) is None or bool(self._view.holding(serial))

    def _orphan(self, one: Attached) -> bool:
        return not one.fixed and not self._view.holding(one.device.serial)


class Operator:
    """`plugins`: the vendor's driver, whose pods the operator restarts. `taint_version`: the
    API version of its DeviceTaintRules, "" for none. Answers of the fabric after `stop` are lost."""

    def __init__(
        self,
        client: Client,
        time: Time,
        settings: OperatorPart,
        fabric: Fabric,
        plugins: Plugins,
        taint_version: str = "v1alpha3",
    ) -> None:
        self._settings = settings
        self._fabric = fabric
        self._view = OperatorView(client)
        self._requests = Requests(client, time, settings, self._view)
        self._resources = Resources(client, time, settings, self._view, fabric, plugins, taint_version)
        self._random: Random = time.random("operator/webhook")
        self._syncer = Syncer(client, time, settings, self._view, fabric)
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        self._view.request_changed = self._requests.changed
        self._view.resource_changed = self._resource_changed
        self._view.node_changed = self._node_changed
        self._view.device_shown = self._device_shown
        self._view.start()
        self._ends.append(self._fabric.on_machine(self._machine_changed))
        self._syncer.start()

    def stop(self) -> None:
        for end in self._ends:
            end()
        self._requests.stop()
        self._resources.stop()
        self._syncer.stop()
        self._view.stop()

    def refusal(self, request: Object) -> str:
        """Why the operator's webhook refuses a ComposabilityRequest, "" if it does not."""
        return refusal(request, self._view.kin_of(request) if has_resource(request) else (), self._random)

    def _resource_changed(self, old: Object | None, new: Object | None) -> None:
        self._resources.changed(old, new)
        self._requests.resource_changed(old, new)
        if new is None and old is not None:
            self._syncer.machine_changed(old["spec"].get("target_node", ""))  # its device may still be there

    # The real operator watches neither nodes nor machines nor slices for its resources: polls find out.

    def _device_shown(self, uuid: str) -> None:
        if self._settings.ideal:
            self._resources.look_at(self._view.holding(uuid))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None and self._settings.ideal:
            self._resources.look_at(self._view.on_node(old["metadata"]["name"]))
        if old is None and new is not None:
            self._syncer.machine_changed(new["metadata"]["name"])

    def _machine_changed(self, node: str) -> None:
        if self._settings.ideal:
            self._resources.look_at(one for one in self._view.on_node(node) if said(one, "state") == "Online")
        self._syncer.machine_changed(node)
