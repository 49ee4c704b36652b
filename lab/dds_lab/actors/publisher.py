"""The simulated reference publisher: it publishes each fabric's free devices as ResourceSlices, and labels nodes.

It follows the reference: names are positions among the free devices (so an attach removes the last name), each model and fabric
has one slice, the generation counts in memory, and the ConfigMap is read once at the start. With `stable_names`, a name stays as
long as a claim holds it. The publisher never attaches anything.
"""

from collections.abc import Callable, Mapping
from random import Random

from dds_lab.actors.fabric import Fabric
from dds_lab.actors.models import NAME, NAMESPACE, BadConfig, DeviceInfo, Model, read_config_map
from dds_lab.actors.objects import results
from dds_lab.actors.slices import SlicePool, SliceWriter
from dds_lab.client import ApiError, Client, Object
from dds_lab.scenario.parts import PublisherPart
from dds_lab.time import Time, Timer

MOST_DEVICES = 128
RETRY = 5.0

READY = ("FabricDeviceReady",)
FAILED = ("FabricDeviceReschedule", "FabricDeviceFailed")


class ReferencePublisher:
    """With an interval of 0 it reacts to changes. `limits`: by node the labels of its limits, without their prefix."""

    def __init__(
        self,
        client: Client,
        time: Time,
        settings: PublisherPart,
        fabric: Fabric,
        limits: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._limits = limits or {}
        self._reaction = settings.reaction.latency()
        self._fabric = fabric
        self._random: Random = time.random("publisher")
        self._began = time.now()
        self._info: DeviceInfo | None = None
        self._writers: dict[str, SliceWriter] = {}  # by driver
        self._devices: dict[str, Object] = {}
        self._pools: dict[str, tuple[str, str]] = {}  # pool → fabric, model
        self._slots: dict[str, list[int]] = {}  # pool → numbers of its names, with stable names
        self._held: dict[str, dict[str, int]] = {}  # pool → device → claims that hold it
        self._stale: dict[tuple[str, str], None] = {}  # (fabric, model)
        self._unlabelled: dict[str, None] = {}  # nodes
        self._timer: Timer | None = None
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        self._wait(0.0)
        self._nodes = self._client.mirror("nodes")
        self._ends.append(self._nodes.close)
        self._ends.append(self._fabric.on_pool(self._pool_changed))
        if self._settings.stable_names:
            claims = self._client.mirror("resourceclaims")
            claims.follow(self._claim_changed)
            self._ends.append(claims.close)
        self._nodes.follow(self._node_changed)
        for pool in self._fabric.pools():
            self._pool_changed(*pool)

    def stop(self) -> None:
        for end in self._ends:
            end()
        for writer in self._writers.values():
            writer.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _pool_changed(self, fabric: str, model: str) -> None:
        self._stale[(fabric, model)] = None
        self._wait()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old["metadata"].get("labels") != new["metadata"].get("labels")):
            self._unlabelled[new["metadata"]["name"]] = None
            self._wait()

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _results(old), _results(new)
        if before == after:
            return
        for found, by in ((before, -1), (after, 1)):
            for pool, device in found:
                names = self._held.setdefault(pool, {})
                names[device] = names.get(device, 0) + by
                if not names[device]:
                    del names[device]
        for pool in dict.fromkeys(pool for pool, _ in (*before, *after)):
            if pool in self._pools:
                self._pool_changed(*self._pools[pool])

    def _wait(self, seconds: float | None = None) -> None:
        """Run the next pass after `seconds`, else at the next multiple of the interval; without an interval after the reaction
        time."""
        if self._timer is not None:
            return
        if seconds is None:
            period = round(self._settings.interval * 1_000_000)
            left = (period - (self._time.now() - self._began) % period) / 1_000_000 if period else 0.0
            seconds = left or self._reaction.draw(self._random)
        self._timer = self._time.after(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        info = self._read()
        if info is None:
            self._wait(RETRY)
            return
        stale, self._stale = self._stale, {}
        for fabric, model in stale:
            for one in info.models:
                if one.model == model:
                    self._publish(fabric, one, info)
        unlabelled, self._unlabelled = self._unlabelled, {}
        for name in unlabelled:
            self._label(name, info)

    def _read(self) -> DeviceInfo | None:
        """The configuration, which is read once; None until a valid one exists."""
        if self._info is None:
            try:
                self._info = read_config_map(self._client.get("configmaps", NAME, NAMESPACE))
            except (ApiError, BadConfig):
                return None
            for driver in dict.fromkeys(one.driver for one in self._info.models):
                writer = SliceWriter(self._client, self._time, driver, _of_no_node, always_next=True)
                writer.start()
                self._writers[driver] = writer
        return self._info

    def _publish(self, fabric: str, model: Model, info: DeviceInfo) -> None:
        pool = f"{model.device}-fabric{fabric}"
        self._pools[pool] = (fabric, model.model)
        free = min(self._fabric.free(fabric, model.model), MOST_DEVICES)
        numbers = self._kept(pool, model, fabric, free) if self._settings.stable_names else list(range(free))
        devices = [self._described(f"{model.device}-{number}", model) for number in numbers]
        place = {
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": f"{info.prefix}/{model.device}", "operator": "In", "values": ["true"]},
                            {"key": f"{info.prefix}/fabric", "operator": "In", "values": [fabric]},
                        ]
                    }
                ]
            }
        }
        name = f"{pool}-{model.driver.replace('.', '-')}-0"
        self._writers[model.driver].publish(SlicePool(pool, place, (name,), (devices,)))

    def _kept(self, pool: str, model: Model, fabric: str, free: int) -> list[int]:
        """The numbers of the pool's names: those that claims hold, and one for each free device that is not promised yet."""
        held = {int(name.rsplit("-", 1)[1]) for name in self._held.get(pool, ())}
        promised = max(0, len(held) - self._fabric.running(fabric, model.model))
        others = max(0, min(free - promised, MOST_DEVICES - len(held)))
        known = [number for number in self._slots.get(pool, ()) if number not in held][:others]
        fresh = (number for number in range(MOST_DEVICES * 2) if number not in held and number not in known)
        numbers = sorted([*held, *known, *(next(fresh) for _ in range(others - len(known)))])
        self._slots[pool] = numbers
        return numbers

    def _described(self, name: str, model: Model) -> Object:
        """The pool device of this name. It never changes, since the ConfigMap is read once."""
        known = self._devices.get(name)
        if known is None:
            known = self._devices[name] = self._made(name, model)
        return known

    def _made(self, name: str, model: Model) -> Object:
        return {
            "name": name,
            "attributes": {key: {"string": value} for key, value in model.attributes.items()},
            "bindsToNode": True,
            "bindingConditions": list(READY),
            "bindingFailureConditions": list(FAILED),
        }

    def _label(self, name: str, info: DeviceInfo) -> None:
        node, machine = self._nodes.get(name), self._fabric.machine(name)
        if node is None or machine is None or not machine.fabric:
            return
        told = {"fabric": machine.fabric, **self._limits.get(name, {})}
        wanted = {f"{info.prefix}/{label}": value for label, value in told.items()}
        labels = node["metadata"].get("labels") or {}
        if all(labels.get(key) == value for key, value in wanted.items()):
            return
        try:
            self._client.patch("nodes", name, {"metadata": {"labels": wanted}})
        except ApiError:
            self._unlabelled[name] = None
            self._wait(RETRY)


def _of_no_node(obj: Object) -> bool:
    """All slices of the driver without a node count as the publisher's own, even if another client created them."""
    return "nodeName" not in obj["spec"]


def _results(claim: Object | None) -> list[tuple[str, str]]:
    """(pool, device) of the claim's devices with binding conditions."""
    return [(one["pool"], one["device"]) for one in results(claim) if one.get("bindingConditions")]
