"""The interface of a fabric's provider: which machines it reaches, what is free, how many devices a machine may have.

An implementation speaks to one manager (`fsas`, `nec`) or reads a file (`file`). It keeps no old answers: the caller (`survey`)
decides what remains valid without an answer.

Every failure is a `FabricError` that names the call and its request id and never quotes a credential, a token or a whole
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dds_core.errors import DdsError
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock


class FabricError(DdsError):
    """The fabric gave no usable answer. `general`: any other question would fail too. `lasting`: the text is the same each time
    until something changes (it has no request id), so a different text is reported although the failure before still stands."""

    general = False
    lasting = False


class FabricUnreachable(FabricError):
    """No answer came: the manager took too long, or the connection broke."""


class FabricLate(FabricUnreachable):
    """No complete answer came within the whole time limit."""


class FabricAway(FabricUnreachable):
    """No connection could be made: network, name, port or certificate."""

    general = True


class FabricRefused(FabricError):
    """The manager answered with an error. `code` is the HTTP status, `reason` the manager's own error code ("": none)."""

    def __init__(self, what: str, *, code: int, where: str = "", fix: str = "", reason: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(what, where=where, fix=fix)


class FabricBusy(FabricRefused):
    """The manager is overloaded, whatever it is asked."""

    general = True


class FabricOdd(FabricError):
    """An answer is not as expected: names the call, the field and the request id. Nothing of it is used."""


class InventoryFault(FabricOdd):
    """An inventory cannot be used. The text changes only if the file changes, so a different text is news."""

    lasting = True


class FabricPartly(FabricOdd):
    """Some machines of a list are not as expected; `machines` are the others. A machine that is missing there may exist."""

    def __init__(self, what: str, *, machines: Sequence[Machine], where: str = "", fix: str = "") -> None:
        self.machines = tuple(machines)
        super().__init__(what, where=where, fix=fix)


class FabricDenied(FabricError):
    """The credentials are missing, unusable or refused."""

    general = True


class Provider(Protocol):
    """A fabric's manager. Methods are thread-safe; each is one question and raises `FabricError`."""

    def machines(self) -> Sequence[Machine]:
        """All machines, UUIDs in lower case; their `limits` are None, see `limits()`. Raises FabricPartly if some could not be
        read.

        The first question of every round: what a provider caches for a round (node groups, a file) is dropped here."""
        ...

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        """What the machine's fabric has free of the model, asked through this machine: what the manager itself would attach. With
        named devices, `free` is the number of healthy ones; those that cannot be read are left out."""
        ...

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        """How many devices the machine may have, by cdi-model-name; a model without a limit is not in it. None: this API has no
        limits."""
        ...

    def left_out(self) -> str | None:
        """One line about the entries of the last answers that could not be read, and were left out; "" without any, None if
        nothing is known. Asked at the end of a round."""
        return None

    def close(self) -> None:
        """Close connections; no question may follow."""
        ...
