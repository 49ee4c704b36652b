"""What the operator does for devices, folded from a log: when it asked the fabric for each, when its looks restarted a driver's
plugin, and when the driver listed which device.

The operator has one worker, which waits for the fabric's answer. Of all resources of a node that are being attached or detached
it is at work for one: the others wait for their turn, by age. For which one it was at work shows when it writes the answer.

The plugin lists devices only when it starts, and a look of the operator at a device with its UUID restarts it, if it is old
enough (`dds_core.scaler.operator`). Looks that dds does not cause are not in the log: the operator looks when the UUID is
written, and then every POLL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dds_core.lifecycle import IDLE, REQUESTED
from dds_core.model import RESOURCE_ATTACHING, RESOURCE_DETACHING, FabricResource, Slice
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.model import Listing
from dds_core.scaler.operator import PLUGIN_REST, PLUGIN_START, POLL, Job, Turns, plugin_restarted
from dds_core.scaler.timeline.words import Known

_Place = tuple[str, str]
"""A node and a driver."""


class Looks:
    """Keeps `named`, `sought`, `listed` and `look` of devices. `since`: when everything was listed first; a plugin whose start
    was not seen may be as young as that."""

    def __init__(
        self,
        devices: Mapping[str, DeviceHistory],
        at_node: Mapping[str, set[str]],
        with_uuid: Mapping[str, str],
        known: Known,
    ) -> None:
        self._devices, self._at_node, self._with_uuid, self._known = devices, at_node, with_uuid, known
        self.since = 0
        self._restarted: dict[_Place, int] = {}
        self._starting: dict[_Place, int] = {}
        self._uuids: dict[str, set[str]] = defaultdict(set)
        self._listing: dict[str, set[str]] = defaultdict(set)

    def named(self, device: DeviceHistory, at: int) -> None:
        """The operator wrote the UUID, and looked at the device."""
        device.named = device.look = at
        if self._listing.get(device.uuid):
            device.sought = device.listed = at
        self._restart(self._place(device), at)

    def online(self, device: DeviceHistory, at: int) -> None:
        """The operator found the device listed, at a look that restarted the plugin if that was old enough."""
        if not device.online and device.named:
            device.online = at
            self._restart(self._place(device), at)

    def looked(self, uid: str, at: int) -> None:
        """The operator looks at a device, at its poll or since dds made it do so."""
        device = self._devices.get(uid)
        if device is not None and device.named and not device.listed:
            device.look = at
            self._restart(self._place(device), at)

    def _restart(self, place: _Place, at: int) -> None:
        """Restart the plugin at a look, if it is old enough. A start that finds nothing new changes no slice: its end is not
        seen."""
        unlisted = list(self._unlisted(place))
        old = at >= (self._restarted.get(place) or self.since) + PLUGIN_REST + PLUGIN_START
        if place not in self._starting and old:
            (self._starting if unlisted else self._restarted)[place] = at
        for one in unlisted if place in self._starting else ():
            one.sought = one.sought or max(one.named, self._starting[place])

    def listed(self, row: Slice, at: int, *, gone: bool, started: bool) -> None:
        """A slice of a node changed: the plugin of its driver has `started`, and had read then which devices are there."""
        now = set() if gone else {uuid for uuid in self._known.uuids_in(row).values() if uuid}
        before, self._uuids[row.uid] = self._uuids[row.uid], now
        place = (row.node, row.driver)
        for uuid in before - now:
            self._listing[uuid].discard(row.uid)
            device = self._devices.get(self._with_uuid.get(uuid, ""))
            if device is not None and device.node == row.node and device.listed and not self._listing[uuid]:
                device.hidden = device.life in (REQUESTED, IDLE)
        for uuid in now - before:
            self._listing[uuid].add(row.uid)
            device = self._devices.get(self._with_uuid.get(uuid, ""))
            if device is not None and device.hidden and device.node == row.node:
                device.hidden, device.again = False, at
            if device is not None and device.node == row.node and device.named and not device.listed:
                device.sought, device.listed = device.sought or self._polled(device, place, at), at
        if not started:
            return
        self._restarted[place] = plugin_restarted(at, self._starting.pop(place, at))
        for one in self._unlisted(place):
            one.sought = 0

    def begin(self, row: Slice) -> None:
        """A slice of a node is known when a log begins."""
        self._uuids[row.uid] = {uuid for uuid in self._known.uuids_in(row).values() if uuid}
        for uuid in self._uuids[row.uid]:
            self._listing[uuid].add(row.uid)

    def goes_on(self, device: DeviceHistory, listing: Listing) -> None:
        """What is known of the device's place when a log begins."""
        place = self._place(device)
        self._restarted[place] = listing.restarted
        if listing.starting:
            self._starting[place] = listing.starting
            if device.named and not device.listed:
                device.sought = max(device.named, listing.starting)

    def _polled(self, device: DeviceHistory, place: _Place, at: int) -> int:
        """The look of the operator that restarted the plugin although none was thought to: the last poll for a device of the
        node that could; without one the last look at the device itself."""
        here = (self._devices[uid] for uid in self._at_node.get(place[0], ()))
        looks = [one.look for one in here if one.look and one.node == place[0] and self._place(one) == place]
        polls = [look + (at - look) // POLL * POLL for look in looks if at - look >= POLL]
        old = (self._restarted.get(place) or self.since) + PLUGIN_REST
        return max((poll for poll in polls if poll > device.named and poll >= old), default=device.look)

    def _unlisted(self, place: _Place) -> Iterator[DeviceHistory]:
        here = (self._devices[uid] for uid in self._at_node.get(place[0], ()))
        return (one for one in here if one.named and not one.listed and self._place(one) == place)

    def _place(self, device: DeviceHistory) -> _Place:
        models = self._known.config.models
        return device.node, next((one.driver for one in models if one.model == device.model), "")


class Called:
    """Keeps `called` of devices: for which the operator has asked the fabric (`operator.Turns`)."""

    def __init__(self, devices: Mapping[str, DeviceHistory]) -> None:
        self._devices = devices
        self._turns = Turns()
        self._free = 0

    def seen(self, resource: FabricResource, device: DeviceHistory, at: int) -> Iterable[str]:
        """The resource is so now; `device` has its error as it was before. Gives the nodes with a device that is asked for only
        since now, or was not, as shows now."""
        leaving = resource.state == RESOURCE_DETACHING
        taken_up = leaving or (resource.state == RESOURCE_ATTACHING and not resource.uuid)
        known, changed = self._turns.jobs.get(device.uid), set[str]()
        if known is not None and (not taken_up or known.leaving != leaving or resource.error != device.error):
            changed |= self._done(device, at)
            known = None
        if taken_up and known is None and not resource.error:
            self._turns.take_up(Job(device.uid, at, leaving, device.node))
            changed |= self._called(at)
        elif resource.uuid and not device.called:
            device.called = at
        return changed

    def gone(self, device: DeviceHistory, at: int) -> Iterable[str]:
        return self._done(device, at) if device.uid in self._turns.jobs else ()

    def _called(self, at: int) -> set[str]:
        new = [device for uid in self._turns.asked() if not (device := self._devices[uid]).called]
        for device in new:
            device.called = at
        return {device.node for device in new}

    def _done(self, device: DeviceHistory, at: int) -> set[str]:
        """The fabric's answer for a device is there."""
        wrong, changed = self._turns.end(device.uid, at), set[str]()
        if wrong:
            device.called = device.called or max(self._free, device.first)
            other = self._devices[wrong]
            if not other.named:
                other.called = 0
                changed.add(other.node)
        device.called = device.called or at
        self._free = at
        return changed | self._called(at)
