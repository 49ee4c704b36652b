"""A fabric's manager as the doctor meets it: what whoever assembles the examination has to bring along.

Nothing here is sent, and nothing may hold a credential or a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dds_core.publishing.model import Limit, Machine, PoolModel, Stock


@dataclass(frozen=True)
class Certificate:
    """Of the manager's endpoint, and valid: `ends` in microseconds since 1970-01-01 UTC. `trusted_by` is whose word that is."""

    ends: int
    trusted_by: str


@dataclass(frozen=True)
class Login:
    """A token that was given out, `made` and `ends` by the id manager's clock; None where the token does not say.

    `began` and `ended` are the instants of the call by ours; all in microseconds since 1970-01-01 UTC.
    """

    began: int
    ended: int
    made: int | None = None
    ends: int | None = None


class Manager(Protocol):
    """All methods may raise DdsError, which is then what was found. `where` names it without user or password."""

    @property
    def where(self) -> str: ...

    def certificate(self) -> Certificate | None:
        """The endpoint's; None where there is none to look at (no https, a file)."""

    def login(self) -> Login | None:
        """Log in; None where nobody has to."""

    def machines(self) -> Sequence[Machine]:
        """All machines."""

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        """What the machine's fabric has free of the model."""

    def counted(self) -> frozenset[str] | None:
        """The models of an inventory, by cdi-model-name; None where nobody lists them and one can only ask for each."""

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        """How many devices a machine may have; None where nobody knows."""
