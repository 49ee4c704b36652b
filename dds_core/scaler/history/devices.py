"""The history of one attached device (one resource): its states over time, and which claims held it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dds_core.lifecycle import MARKED
from dds_core.scaler.blame import Coming
from dds_core.scaler.spending import STATES, USED, state_of


class DeviceSpan(NamedTuple):
    """A state from an instant to another, 0 while it goes on (microseconds); the claims (uids) held the device together."""

    state: str
    since: int
    until: int
    claims: tuple[str, ...] = ()

    def length(self, now: int) -> int:
        """Microseconds; until `now` while it goes on."""
        return max(0, (self.until or now) - self.since)


@dataclass(slots=True)
class DeviceHistory:
    """One resource, by uid. `uuid` is kept when the resource loses it during a detach. `request`: that it was made for, "" for
    none. `fabric`: that of its node. Instants, 0 before: `called`, `named`, `sought`, `listed` and `ready` as in `blame.Coming`;
    `online`: when the operator said so; `look`: when it last looked at it, as far as is known; `gone`: when the resource ended;
    `again`: when the driver listed it anew after it had been off its list without a user, 0 while `hidden`: it is off the list.
    `early`: it existed when the log begins. `meant`: the attempt that it was ordered for, as the claim's uid and the instant of
    its allocation; ("", 0) for none. `marked`: microseconds for which it was marked to leave, without the present mark."""

    uid: str
    first: int
    resource: str = ""
    request: str = ""
    uuid: str = ""
    node: str = ""
    model: str = ""
    fabric: str = ""
    called: int = 0
    named: int = 0
    sought: int = 0
    listed: int = 0
    ready: int = 0
    online: int = 0
    look: int = 0
    gone: int = 0
    again: int = 0
    hidden: bool = False
    early: bool = False
    meant: tuple[str, int] = ("", 0)
    spans: list[DeviceSpan] = field(default_factory=list)
    life: str = ""
    since: int = 0
    marked: int = 0
    error: str = ""
    claims: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The UUID, else the name of the resource."""
        return self.uuid or self.resource

    @property
    def came(self) -> bool:
        """Whether the fabric gave a device, with a UUID. Else the resource is an order, or one that failed."""
        return self.named > 0

    @property
    def coming(self) -> Coming:
        """How far it came on its way to its node. One that its driver does not list any more has still to be sought."""
        if self.hidden:
            return Coming(self.first, self.called, self.named)
        if self.again:
            return Coming(self.first, self.called, self.named, self.again, self.again, max(self.again, self.ready))
        return Coming(self.first, self.called, self.named, self.sought, self.listed, self.ready)

    @property
    def state(self) -> str:
        """The present state, "" once it is gone."""
        return self.spans[-1].state if self.spans and not self.spans[-1].until else ""

    @property
    def is_used(self) -> bool:
        """Whether a claim has ever held it, as far as the log shows."""
        return any(span.state == USED for span in self.spans)

    def is_from(self, claim: str, since: int) -> bool:
        """Whether another claim (uid) has held it since an instant, so that it was not on its way to this one."""
        held = (span for span in self.spans if span.state == USED and not 0 < span.until <= since)
        return any(claim not in span.claims for span in held)

    def spent(self, now: int, since: int = 0) -> dict[str, int]:
        """Microseconds in each state, from the instant `since` on."""
        found = dict.fromkeys(STATES, 0)
        for span in self.spans:
            found[span.state] += max(0, (span.until or now) - max(span.since, since))
        return found

    def cut(self, before: int) -> None:
        """Forget the spans that ended before an instant, except the last."""
        self.spans[:-1] = [one for one in self.spans[:-1] if one.until > before]

    def moved(self, life: str, at: int) -> None:
        """Its life goes on in another state."""
        if self.life == MARKED:
            self.marked += at - self.since
        self.life, self.since = life, at

    def changed(self, at: int) -> None:
        """Begin a new span if its life, its error or its holders say something new."""
        state = state_of(self.life, self.error)
        claims = self.claims if state == USED else ()
        last = self.spans[-1] if self.spans and not self.spans[-1].until else None
        if last is not None:
            if (last.state, last.claims) == (state, claims):
                return
            if last.since == at:
                self.spans.pop()
            else:
                self.spans[-1] = DeviceSpan(last.state, last.since, at, last.claims)
        if state:
            self.spans.append(DeviceSpan(state, at, 0, claims))
