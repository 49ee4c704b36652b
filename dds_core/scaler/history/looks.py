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
from collections.abc import Iterator, Mapping

from dds_core.model import RESOURCE_ATTACHING, RESOURCE_DETACHING, FabricResource, Slice
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.model import Listing
from dds_core.scaler.operator import MEANWHILE, PLUGIN_REST, PLUGIN_START, POLL, Job, at_work
from dds_core.scaler.timeline.words import Known

_Place = tuple[str, str]
"""A node and a driver."""


class Looks:
    """Keeps `named`, `sought`, `listed` and `look` of devices."""

    def __init__(
        self,
        devices: Mapping[str, DeviceHistory],
        at_node: Mapping[str, set[str]],
        with_uuid: Mapping[str, str],
        known: Known,
    ) -> None:
        self._devices, self._at_node, self._with_uuid, self._known = devices, at_node, with_uuid, known
        self._restarted: dict[_Place, int] = {}
        self._starting: dict[_Place, int] = {}
        self._uuids: dict[str, set[str]] = defaultdict(set)
        self._listing: dict[str, set[str]] = defaultdict(set)

    def named(self, device: DeviceHistory, at: int) -> None:
        """The operator wrote the UUID, and looked at the device."""
        device.named = at
        if self._listing.get(device.uuid):
            device.sought = device.listed = device.look = at
        else:
            self.looked(device.uid, at)

    def online(self, device: DeviceHistory, at: int) -> None:
        """The operator found the device listed, at a look that restarted the plugin if that was old enough."""
        place = self._place(device)
        if device.online or not device.named:
            return
        device.online = at
        if place not in self._starting and at >= self._restarted.get(place, 0) + PLUGIN_REST + PLUGIN_START:
            self._restarted[place] = at
            for one in self._unlisted(place):
                self._starting[place] = one.sought = at

    def looked(self, uid: str, at: int) -> None:
        """The operator looks at a device, at its poll or since dds made it do so."""
        device = self._devices.get(uid)
        if device is None or not device.named or device.listed:
            return
        device.look, place = at, self._place(device)
        old = at >= self._restarted.get(place, 0) + PLUGIN_REST + PLUGIN_START
        if place not in self._starting and old:
            self._starting[place] = at
        for one in self._unlisted(place) if place in self._starting else ():
            one.sought = one.sought or max(one.named, self._starting[place])

    def listed(self, row: Slice, at: int, *, gone: bool) -> None:
        """A slice of a node changed: the plugin of its driver has started, and had read then which devices are there."""
        now = set() if gone else {uuid for uuid in self._known.uuids_in(row).values() if uuid}
        before, self._uuids[row.uid] = self._uuids[row.uid], now
        place = (row.node, row.driver)
        for uuid in before - now:
            self._listing[uuid].discard(row.uid)
        for uuid in now - before:
            self._listing[uuid].add(row.uid)
            device = self._devices.get(self._with_uuid.get(uuid, ""))
            if device is not None and device.node == row.node and device.named and not device.listed:
                device.sought, device.listed = device.sought or self._polled(device, place, at), at
        self._restarted[place] = at
        self._starting.pop(place, None)
        for one in self._unlisted(place):
            one.sought = 0

    def goes_on(self, device: DeviceHistory, listing: Listing) -> None:
        """What is known of the device's place when a log begins."""
        place = self._place(device)
        self._restarted[place] = listing.listed
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
        old = self._restarted.get(place, 0) + PLUGIN_REST
        return max((poll for poll in polls if poll > device.named and poll >= old), default=device.look)

    def _unlisted(self, place: _Place) -> Iterator[DeviceHistory]:
        here = (self._devices[uid] for uid in self._at_node.get(place[0], ()))
        return (one for one in here if one.named and not one.listed and self._place(one) == place)

    def _place(self, device: DeviceHistory) -> _Place:
        models = self._known.config.models
        return device.node, next((one.driver for one in models if one.model == device.model), "")


class Turns:
    """Keeps `called` of devices: for which the operator has asked the fabric (`operator.at_work`). `_several`: the nodes for
    which it was seen to take up a resource while the fabric works for another, so that it does not wait for the answer."""

    def __init__(self, devices: Mapping[str, DeviceHistory]) -> None:
        self._devices = devices
        self._jobs: dict[str, Job] = {}
        self._several: set[str] = set()
        self._turn, self._since, self._free = "", 0, 0

    def seen(self, resource: FabricResource, device: DeviceHistory, at: int) -> None:
        """The resource is so now; `device` has its error as it was before."""
        leaving = resource.state == RESOURCE_DETACHING
        taken_up = leaving or (resource.state == RESOURCE_ATTACHING and not resource.uuid)
        known = self._jobs.get(device.uid)
        if known is not None and (not taken_up or known.leaving != leaving or resource.error != device.error):
            self._done(device, at)
            known = None
        if taken_up and known is None and not resource.error:
            turn = self._jobs.get(self._turn)
            if turn is not None and not turn.leaving and at - self._since > MEANWHILE:
                self._several |= {self._devices[turn.uid].node, device.node}
            self._jobs[device.uid] = Job(device.uid, at, leaving)
            self._take_turns(at)
        elif resource.uuid and not device.called:
            device.called = at

    def gone(self, device: DeviceHistory, at: int) -> None:
        if device.uid in self._jobs:
            self._done(device, at)

    def _take_turns(self, at: int) -> None:
        alone = [job for job in self._jobs.values() if self._devices[job.uid].node not in self._several]
        turn = at_work(alone)
        if turn != self._turn:
            self._turn, self._since = turn, at
        for uid in self._jobs.keys() - {job.uid for job in alone} | ({turn} if turn else set()):
            self._devices[uid].called = self._devices[uid].called or at

    def _done(self, device: DeviceHistory, at: int) -> None:
        """The fabric's answer for a device is there. If another one was thought to have its turn, that begins only now."""
        del self._jobs[device.uid]
        if self._turn not in ("", device.uid) and device.node not in self._several:
            device.called = device.called or max(self._free, device.first)
            other = self._devices[self._turn]
            if not other.named:
                other.called = 0
            self._turn = ""
        device.called = device.called or at
        self._free = at
        self._take_turns(at)
