"""The history of one attached device, which is one resource: in which state it was, when, and which claims held it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dds_core.scaler.spending import STATES, USED, state_of


class DeviceSpan(NamedTuple):
    """A state from an instant until another, 0 while it goes on (microseconds); `claims` (uids) held it together."""

    state: str
    since: int
    until: int
    claims: tuple[str, ...] = ()

    def length(self, now: int) -> int:
        """Microseconds, those until `now` where it goes on."""
        return max(0, (self.until or now) - self.since)


@dataclass(slots=True)
class DeviceHistory:
    """One resource, by uid. `uuid` is kept while the resource forgets it on its way back; `named` is the instant at which the
    fabric told it, 0 before; `fabric` is that of its node; `gone` the instant of its end, 0 while it is there."""

    uid: str
    first: int
    resource: str = ""
    uuid: str = ""
    node: str = ""
    model: str = ""
    fabric: str = ""
    named: int = 0
    gone: int = 0
    spans: list[DeviceSpan] = field(default_factory=list)
    life: str = ""
    error: str = ""
    claims: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The UUID, else the name of the resource."""
        return self.uuid or self.resource

    @property
    def state(self) -> str:
        """What it is now, "" once it is gone."""
        return self.spans[-1].state if self.spans and not self.spans[-1].until else ""

    def spent(self, now: int) -> dict[str, int]:
        """Microseconds in each state."""
        found = dict.fromkeys(STATES, 0)
        for span in self.spans:
            found[span.state] += span.length(now)
        return found

    def cut(self, before: int) -> None:
        """Forget the spans that ended before an instant, but the last."""
        self.spans[:-1] = [one for one in self.spans[:-1] if one.until > before]

    def changed(self, at: int) -> None:
        """Look again at its life, its error and its holders: a new span begins where they say something new."""
        state = state_of(self.life, self.error)
        claims = self.claims if state == USED else ()
        last = self.spans[-1] if self.spans and not self.spans[-1].until else None
        if last is not None:
            if (last.state, last.claims) == (state, claims):
                return
            if last.since == at:
                self.spans.pop()
            else:
                self.spans[-1] = last._replace(until=at)
        if state:
            self.spans.append(DeviceSpan(state, at, 0, claims))
