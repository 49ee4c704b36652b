"""Transitions: the steps of the two lives of `dds_core.lifecycle`."""

from __future__ import annotations

from dds_core.events.base import Transition
from dds_core.events.decisions import Promise
from dds_core.model import DeviceKey


class ClaimMoved(Transition, frozen=True):
    """A step of a claim's life.

    `cause` says in words what made it true; `devices` are the FabricResources concerned (uids); `began` is the start of
    the attempt where it is not the instant of the event; `promises` what stands ready for it; `landed` tells where a
    hand-over ended: here (on the node's own devices), pool (on the node, from the pool again) or elsewhere.
    """

    claim: str
    trigger: str
    source: str
    target: str
    cycle: int
    attempt: int
    cause: str = ""
    devices: tuple[str, ...] = ()
    began: int = 0
    promises: tuple[Promise, ...] = ()
    landed: str = ""

    @property
    def subject(self) -> str:
        return self.claim


class DeviceMoved(Transition, frozen=True):
    """A step of a device's life. `cause` says in words what made it true; `key` is the name under which a claim took it."""

    resource: str
    trigger: str
    source: str
    target: str
    cause: str = ""
    key: DeviceKey | None = None

    @property
    def subject(self) -> str:
        return self.resource
