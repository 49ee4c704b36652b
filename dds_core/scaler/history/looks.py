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

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import RESOURCE_ATTACHING, RESOURCE_DETACHING, FabricResource, Slice
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.model import Listing
from dds_core.scaler.operator import PLUGIN_REST, PLUGIN_START, POLL
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


_MEANWHILE = MICROSECONDS // 2
"""An operator that takes up another resource so long after it has asked the fabric does not wait for the answer."""


class Turns:
    """Keeps `called` of the devices of one node: what the operator does meanwhile for other nodes is in no excerpt of a log about
    one claim. `alone`: the operator was not seen to take up a resource while the fabric works for another."""

    def __init__(self, devices: Mapping[str, DeviceHistory]) -> None:
        self.alone = True
        self._devices = devices
        self._waiting: dict[str, str] = {}
        self._at_work, self._since, self._free = "", 0, 0

    def seen(self, resource: FabricResource, device: DeviceHistory, at: int) -> None:
        """The resource is so now; `device` has its error as it was before."""
        attaching = resource.state in ("", RESOURCE_ATTACHING) and not resource.uuid
        job = resource.state if resource.state == RESOURCE_DETACHING or (attaching and resource.state) else ""
        known = self._waiting.get(resource.uid, "")
        if job != known or (job and resource.error != device.error):
            if known:
                self._done(device, at)
            if job and not resource.error:
                self._begins(device, job, at)
        elif resource.uuid and not device.called:
            device.called = at

    def gone(self, device: DeviceHistory, at: int) -> None:
        if device.uid in self._waiting:
            self._done(device, at)

    def _begins(self, device: DeviceHistory, job: str, at: int) -> None:
        self._waiting[device.uid] = job
        if self._at_work and at - self._since > _MEANWHILE and self.alone:
            self.alone = False
            for uid in self._waiting:
                self._called(uid, at)
        if not self._at_work or not self.alone:
            self._takes(device.uid, at)

    def _takes(self, uid: str, at: int) -> None:
        self._at_work, self._since = uid, at
        self._called(uid, at)

    def _called(self, uid: str, at: int) -> None:
        device = self._devices[uid]
        device.called = device.called or at

    def _done(self, device: DeviceHistory, at: int) -> None:
        """The fabric's answer for a device is there. If another was thought to be at work for, it begins only now."""
        if self._at_work != device.uid and self.alone and self._at_work:
            device.called = device.called or max(self._free, device.first)
            other = self._devices[self._at_work]
            if not other.named:
                other.called = 0
        del self._waiting[device.uid]
        self._called(device.uid, at)
        self._free = at
        if self._waiting and self.alone:
            self._takes(self._at_work if self._at_work in self._waiting else next(iter(self._waiting)), at)
        elif not self._waiting:
            self._at_work = ""
