"""The interface that the gRPC frontend calls, and its refusals.

Every method is called from many threads at once. Cluster Autoscaler waits five seconds for an answer and then repeats the call,
so a method only accepts the work, which is done later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dds_core.autoscaler.model import GroupsView, NodeRef
from dds_core.errors import DdsError


class ProviderError(DdsError):
    """Base of the refusals. The message is sent to Cluster Autoscaler, which logs it: it must contain no secret."""


class Unknown(ProviderError):
    """There is no group with this id, or a node is not in the group."""


class Refused(ProviderError):
    """The request is valid but not possible now. The same call may succeed later."""


class BadRequest(ProviderError):
    """The request is never valid."""


class Away(ProviderError):
    """Nothing can be accepted now: the log cannot be written, or another process has the lease."""


class Provider(Protocol):
    """Any method raises `Away`; those with a group raise `Unknown`."""

    def refresh(self) -> None:
        """Begin the next view. Never called twice at once. A slow refresh delays only its caller, for some seconds."""
        ...

    def view(self) -> GroupsView:
        """The view of the last refresh, changed since only by accepted calls. Does not block, not even during a refresh."""
        ...

    def increase(self, group: str, delta: int) -> None:
        """Raise the group's target by `delta`, at least 1. After it the view shows the new target, and for each new server an
        instance that is being created. Raises Refused beyond the maximum."""
        ...

    def decrease(self, group: str, delta: int) -> None:
        """Lower the group's target by `delta`, at least 1, without removing an existing server. Raises Refused if fewer are still
        to be created."""
        ...

    def delete(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Remove these servers, each named once, and lower the target by their number: all, or none if it raises. A server whose
        removal has begun is no error, and does not count again. Raises Refused for a server that is needed."""
        ...
