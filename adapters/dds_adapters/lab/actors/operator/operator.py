"""The operator as one actor: what it reads, its two controllers and its syncer, started and stopped together."""

from collections.abc import Callable

from dds_adapters.lab.actors.fabric import Fabric
from dds_adapters.lab.actors.formed import has_resource
from dds_adapters.lab.actors.operator import webhook
from dds_adapters.lab.actors.operator.requests import Requests
from dds_adapters.lab.actors.operator.resources import Resources
from dds_adapters.lab.actors.operator.settings import OperatorSettings, Plugins
from dds_adapters.lab.actors.operator.syncer import Syncer
from dds_adapters.lab.actors.operator.view import View
from dds_adapters.lab.client import Client, Object
from dds_adapters.lab.time import Time


class Operator:
    """`plugins` is the vendor's driver, whose pods the operator restarts. Stopping it loses what the fabric still has
    to answer."""

    def __init__(
        self, client: Client, time: Time, settings: OperatorSettings, fabric: Fabric, plugins: Plugins
    ) -> None:
        self._settings = settings
        self._fabric = fabric
        self._view = View(client)
        self._requests = Requests(client, time, settings, self._view)
        self._resources = Resources(client, time, settings, self._view, fabric, plugins)
        self._syncer = Syncer(client, time, settings, self._view, fabric)
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        self._view.request_changed = self._requests.changed
        self._view.resource_changed = self._resource_changed
        self._view.node_changed = self._node_changed
        self._view.device_shown = self._resources.device_shown
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
        """What the operator's webhook says against a ComposabilityRequest, "" for nothing."""
        return webhook.refusal(request, self._view.kin_of(request) if has_resource(request) else ())

    def _resource_changed(self, old: Object | None, new: Object | None) -> None:
        self._resources.changed(old, new)
        self._requests.resource_changed(old, new)
        if new is None and old is not None:
            self._syncer.resource_gone(old["spec"].get("target_node", ""))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if self._settings.deletes_with_node:
            self._requests.node_changed(old, new)
            self._resources.node_changed(old, new)
        if old is None and new is not None:
            self._syncer.machine_changed(new["metadata"]["name"])

    def _machine_changed(self, node: str) -> None:
        self._resources.machine_changed(node)
        self._syncer.machine_changed(node)
