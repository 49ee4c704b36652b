"""What the gRPC face asks, and how it is refused.

Every method is called from many threads at a time. Cluster Autoscaler waits five seconds for an answer and repeats what it did
not hear an answer to, so a method accepts and returns; the work is done afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dds_core.autoscaler.model import GroupsView, NodeRef
from dds_core.errors import DdsError


class ProviderError(DdsError):
    """Base of the refusals. The message is sent to Cluster Autoscaler, which logs it: it must hold no secret."""


class Unknown(ProviderError):
    """There is no group of this id, or a node is not of the group."""


class Refused(ProviderError):
    """The request is understood, and what is there does not allow it now. The same call may succeed later."""


class BadRequest(ProviderError):
    """The request makes no sense, whatever is there."""


class Away(ProviderError):
    """Nothing can be accepted just now: the log cannot be written, or the lease is another process's."""


class Provider(Protocol):
    """Any method raises `Away`; those that take a group raise `Unknown`."""

    def refresh(self) -> None:
        """Begin the next view. It is never called twice at a time. If it takes long, only its caller waits, some seconds."""
        ...

    def view(self) -> GroupsView:
        """The view of the last refresh, changed since by accepted calls alone. Never waits, not for a refresh either."""
        ...

    def increase(self, group: str, delta: int) -> None:
        """Raise the group's target by `delta`, at least 1. From the return on the view shows the new target and an instance that
        is being created for each. Raises Refused beyond the maximum."""
        ...

    def decrease(self, group: str, delta: int) -> None:
        """Lower the group's target by `delta`, at least 1, and remove no server that exists. Raises Refused for more than is
        still to be created."""
        ...

    def delete(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Remove these servers, each named once, and lower the target by them: all or, when it raises, none. A server whose
        removal has begun is no error, and is not counted twice. Raises Refused for one that is needed."""
        ...
