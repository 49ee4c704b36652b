"""The upstream syncer: a device that the fabric says is attached, and that no resource names for long, is made to go.

It cannot tell a device that somebody attached by hand from one whose answer was lost. The clock is in memory: a restart
starts it anew.
"""

import uuid
from random import Random

from dds_adapters.lab.actors.fabric import Attached, Fabric
from dds_adapters.lab.actors.operator.settings import (
    API_VERSION,
    DETACH_DEVICE,
    DETACH_RESOURCE,
    RESOURCES,
    OperatorSettings,
)
from dds_adapters.lab.actors.operator.view import View
from dds_adapters.lab.client import ApiError, Client
from dds_adapters.lab.time import Time, Timer


class Syncer:
    """Asks at every multiple of `sync` seconds, but only while there is something that is not accounted for."""

    def __init__(self, client: Client, time: Time, settings: OperatorSettings, view: View, fabric: Fabric) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._view = view
        self._fabric = fabric
        self._names: Random = time.random("operator/syncer")
        self._since: dict[str, int] = {}  # serial → when it was first seen without an object
        self._suspects: dict[str, None] = {}  # nodes on which something may be unaccounted for
        self._timer: Timer | None = None
        self._began = time.now()

    def start(self) -> None:
        for machine in self._fabric.machines():
            self.machine_changed(machine.node)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def machine_changed(self, node: str) -> None:
        if node and any(self._orphan(one) for one in self._fabric.attached(node)):
            self._suspects[node] = None
            self._arm()

    def resource_gone(self, node: str) -> None:
        """A resource was deleted; what it named may be left."""
        self.machine_changed(node)

    def _arm(self) -> None:
        if self._timer is None and self._settings.sync:
            period = round(self._settings.sync * 1_000_000)
            left = period - (self._time.now() - self._began) % period
            self._timer = self._time.after(left / 1_000_000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for node in tuple(self._suspects):
            orphans = [one for one in self._fabric.attached(node) if self._orphan(one)]
            if self._view.nodes.get(node) is None or not orphans:
                del self._suspects[node]  # without a node nobody asks for its machine
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
                "name": f"gpu-{uuid.UUID(int=self._names.getrandbits(128), version=4)}",
                "labels": {DETACH_DEVICE: serial, DETACH_RESOURCE: one.device.resource},
            },
            "spec": {"type": "gpu", "model": one.device.model, "target_node": node, "force_detach": False},
        }
        try:
            self._client.create(RESOURCES, obj)
        except ApiError:
            return  # at the next tick again

    def _accounted(self, serial: str) -> bool:
        """Whether the device is in no machine any more, or an object names it: its clock starts anew, should it have to."""
        return not self._fabric.where(serial) or next(self._view.holding(serial), None) is not None

    def _orphan(self, one: Attached) -> bool:
        return not one.fixed and next(self._view.holding(one.device.serial), None) is None
