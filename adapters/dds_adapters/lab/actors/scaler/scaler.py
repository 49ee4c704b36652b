"""The stand-in scaler: scans at every interval and after each change of a claim or a slice, and looks at those nodes
only for which something has changed or a duration has passed, which gives what a look at all nodes would give."""

from collections.abc import Iterable
from random import Random

from dds_adapters.lab.actors.models import NAME, NAMESPACE, BadConfig, DeviceInfo, read_config_map
from dds_adapters.lab.actors.scaler.scan import NodeScan
from dds_adapters.lab.actors.scaler.settings import ScalerSettings
from dds_adapters.lab.actors.scaler.view import Unreadable, View, model_of
from dds_adapters.lab.client import ApiError, Client
from dds_adapters.lab.time import Time, Timer


class Scaler:
    """One process. Like the reference it ends a scan at the first error, and the nodes after it in the order of names
    wait."""

    def __init__(self, client: Client, time: Time, settings: ScalerSettings) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._random: Random = time.random("scaler")
        self._began = time.now()
        self._view = View(client, self._noted)
        self._stale: dict[str, None] = {}  # nodes that a scan has to look at
        self._in_use: dict[str, dict[str, None]] = {}  # node → resources that were used when it was looked at
        self._later: dict[str, Timer] = {}
        self._timer: Timer | None = None
        self._due = 0
        self._read: tuple[str, DeviceInfo] | None = None

    def start(self) -> None:
        self._view.start()

    def stop(self) -> None:
        self._view.stop()
        for timer in (*self._later.values(), *((self._timer,) if self._timer else ())):
            timer.cancel()
        self._later.clear()

    # -- when

    def _noted(self, nodes: Iterable[str], soon: bool) -> None:
        for node in nodes:
            self._stale[node] = None
        if self._stale:
            self._arm(self._settings.reaction.draw(self._random) if soon else None)

    def _arm(self, seconds: float | None = None) -> None:
        """Scan after so many seconds, or at the next multiple of the interval; the earlier of two instants counts."""
        now = self._time.now()
        if seconds is None:
            period = max(1, round(self._settings.interval * 1_000_000))
            due = now + period - (now - self._began) % period
        else:
            due = now + round(seconds * 1_000_000)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._time.after((due - now) / 1_000_000, self._scan)

    def _look_again(self, node: str, at: int) -> None:
        timer = self._later.pop(node, None)
        if timer is not None:
            timer.cancel()

        def due() -> None:
            self._later.pop(node, None)
            self._noted((node,), False)

        self._later[node] = self._time.after((at - self._time.now()) / 1_000_000, due)

    # -- what

    def _scan(self) -> None:
        self._timer = None
        try:
            info = self._config()
            self._refresh(info)
            for device in self._view.awaited():
                model_of(device, info.models)  # a device that is not ours ends the scan
            for node in sorted(self._stale):
                if self._view.nodes.get(node) is not None:
                    self._look(node, info)
                else:
                    self._in_use.pop(node, None)
                del self._stale[node]
        except (ApiError, BadConfig, Unreadable):
            self._arm()  # what is left is looked at again with the next scan
        if self._settings.refresh and self._in_use:
            self._arm()

    def _config(self) -> DeviceInfo:
        """The ConfigMap as it is now."""
        found = self._client.get("configmaps", NAME, NAMESPACE)
        version: str = found["metadata"]["resourceVersion"]
        if self._read is None or self._read[0] != version:
            self._read = (version, read_config_map(found))
        return self._read[1]

    def _refresh(self, info: DeviceInfo) -> None:
        """Write the time of last use of everything that is used."""
        if self._settings.refresh:
            for node in self._in_use:
                scan = self._node(node, info)
                for one in scan.used():
                    scan.annotate(one)

    def _look(self, node: str, info: DeviceInfo) -> None:
        scan = self._node(node, info)
        if self._note_use(scan):
            self._arm(
                self._settings.reaction.draw(self._random)
            )  # with what was just written, which comes back as a change
            return
        scan.run()
        if scan.again is not None:
            self._look_again(node, scan.again)

    def _note_use(self, scan: NodeScan) -> bool:
        """A device whose use begins was used just now; and without refreshing so was one whose use has ended. True if one has."""
        before = self._in_use.pop(scan.node, {})
        used = {one["metadata"]["name"]: one for one in scan.used()}
        begun = [one for name, one in used.items() if name not in before]
        known = (self._view.resources.get(name) for name in before if name not in used)
        ended = [] if self._settings.refresh else [one for one in known if one is not None]
        for one in (*begun, *ended):
            scan.annotate(one)
        if used:
            self._in_use[scan.node] = dict.fromkeys(used)
        return bool(ended)

    def _node(self, node: str, info: DeviceInfo) -> NodeScan:
        return NodeScan(self._client, self._view, self._settings, info, node, self._time.now())
