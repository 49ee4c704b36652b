"""What is asked of a fabric, whoever manages it: which machines it reaches, what it has free, how much a machine may have.

An implementation speaks to one manager (`fsas`, `nec`) or reads a file (`file`). It answers each question by itself and keeps
nothing that a later answer could be mistaken for: whoever asks (`survey`) decides what stands when there is no answer.

Every failure is a `FabricError` that names the call and its request id and never quotes a credential, a token or a whole answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dds_core.errors import DdsError
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock


class FabricError(DdsError):
    """The fabric gave no usable answer. `general`: it is not this question's fault; any other would fail now, too. `lasting`: it
    reads alike each time as long as nothing changes (no request id), so that another one is told though the last still stands."""

    general = False
    lasting = False


class FabricUnreachable(FabricError):
    """No answer came: the manager took too long, or the connection broke off."""


class FabricLate(FabricUnreachable):
    """No whole answer came in all the time that there was for it."""


class FabricAway(FabricUnreachable):
    """Not even a connection came about: network, name, port or certificate."""

    general = True


class FabricRefused(FabricError):
    """The manager answered with an error. `code` is the HTTP status, `reason` the manager's own error code ("": none)."""

    def __init__(self, what: str, *, code: int, where: str = "", fix: str = "", reason: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(what, where=where, fix=fix)


class FabricBusy(FabricRefused):
    """The manager has too much to do, whatever it is asked."""

    general = True


class FabricOdd(FabricError):
    """An answer is not as it should be: names the call, the field and the request id. Nothing of it is taken."""


class InventoryFault(FabricOdd):
    """An inventory cannot be used. Its words are the same until somebody changes the file, so that other words are news."""

    lasting = True


class FabricPartly(FabricOdd):
    """Some machines of a list are not as they should be; `machines` are the others. Who is not among them may be there all the
    same."""

    def __init__(self, what: str, *, machines: Sequence[Machine], where: str = "", fix: str = "") -> None:
        self.machines = tuple(machines)
        super().__init__(what, where=where, fix=fix)


class FabricDenied(FabricError):
    """The credentials are missing, unusable or refused."""

    general = True


class Provider(Protocol):
    """A fabric's manager. Methods may be called from several threads; each is one question and raises `FabricError`."""

    def machines(self) -> Sequence[Machine]:
        """All machines, UUIDs in small letters; `limits` of each is None, `limits()` tells them. Raises FabricPartly where some
        could not be read.

        Asked first in every round: what a provider keeps for the length of a round (node groups, a file) begins anew here."""
        ...

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        """What the machine's fabric has free of the model, asked by way of this machine. With named devices `free` is the number
        of the healthy ones."""
        ...

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        """How many devices the machine may have, by cdi-model-name; a model without a limit is not in it. None: this API knows
        of no limits."""
        ...

    def close(self) -> None:
        """Give connections back; nothing may be asked any more."""
        ...
