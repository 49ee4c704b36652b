"""What an export is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dds_core.scaler.history import Alert, ClaimHistory, DeviceHistory, History
from dds_core.timeline import Moment


class Story:
    """The histories of the claims and devices of a log. An export leaves out those that ended before the instant `since` and
    has the whole history of each other one. `now` is the instant at which spans without an end are cut."""

    def __init__(self, cluster: str, told: Iterable[Moment], begun: Callable[[int, int], bool]) -> None:
        self.cluster = cluster
        self.history = History()
        self.since = 0
        for moment in told:
            self.history.take(moment)
            if not self.since and begun(moment.at, moment.position):
                self.since = moment.at
        self.now = self.history.now
        self.since = self.since or self.now

    @property
    def alerts(self) -> list[Alert]:
        """In order."""
        return [one for one in self.history.alerts if one.at >= self.since]

    @property
    def claims(self) -> list[ClaimHistory]:
        """In the order in which they came."""
        found = [one for one in self.history.claims.values() if not one.gone or one.gone >= self.since]
        return sorted(found, key=lambda one: one.first)

    @property
    def devices(self) -> list[DeviceHistory]:
        """By node, in the order in which they came."""
        found = [one for one in self.history.devices.values() if not one.gone or one.gone >= self.since]
        return sorted(found, key=lambda one: (one.node, one.first))

    def names(self, uids: Iterable[str]) -> list[str]:
        """What claims and devices are called; anything else as it is."""
        known = self.history.claims, self.history.devices
        return [next((one[uid].name for one in known if uid in one), uid) for uid in uids]
