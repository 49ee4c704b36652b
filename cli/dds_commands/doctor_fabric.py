"""The fabric that `dds doctor` examines: its manager as the examination wants to meet it.

Nothing is asked before the examination asks for it. No credential and no token is kept or shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dds_adapters.fabric import FabricDenied, FabricSettings, Outside, Provider, open_provider
from dds_adapters.fabric.file import FileProvider
from dds_adapters.fabric.provider import FabricLate
from dds_adapters.kubernetes.doctor.certificate import certificate_of
from dds_adapters.kubernetes.doctor.manager import Certificate, Login
from dds_core.publishing.model import Limit, Machine, PoolModel, Stock

SECOND = 1_000_000
PATIENCE = 20.0
"""Seconds for one answer of the manager: a person waits."""
LATE = 3
"""Questions in a row without an answer in time, after which no more are asked: there may be thousands."""

T = TypeVar("T")

NAMED = ("fabric", "fabric_endpoint", "inventory")
"""The settings with which a fabric is named."""


def is_named(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether a fabric is named, by a setting or by the reference driver's variable."""
    return any(given[name] for name in NAMED) or bool(environment.get("CDI_ENDPOINT"))


class FabricManager:
    """Asks the manager of these settings until the stack ends. `outside` is the world around it."""

    def __init__(self, settings: FabricSettings, stack: ExitStack, outside: Outside | None = None) -> None:
        """Raises InputError for settings that cannot be used, FabricOdd for an inventory with faults."""
        self._settings = replace(
            settings, token_seconds=PATIENCE, fm_seconds=PATIENCE, cm_seconds=PATIENCE, nec_seconds=PATIENCE
        )
        self._outside = outside or Outside()
        self._provider: Provider = open_provider(self._settings, self._outside)
        stack.callback(self._provider.close)
        self._late = 0

    @property
    def where(self) -> str:
        """Host and port, or the inventory's path."""
        if self._settings.api == "file":
            return str(self._settings.inventory)
        parts = urlsplit(self._settings.endpoint)
        return f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"

    def certificate(self) -> Certificate | None:
        """As `Manager` says; None too for credentials that cannot be read, which is the login's matter.

        Raises Untrusted, and FabricDenied for a given certificate that cannot be used.
        """
        parts = urlsplit(self._settings.endpoint)
        if parts.scheme != "https" or parts.hostname is None or self._outside.transport is not None:
            return None
        from dds_adapters.fabric.trust import trusting

        trusted = ""
        if self._settings.credentials is not None:
            from dds_adapters.fabric.fsas.credentials import Folder

            try:
                trusted = Folder(self._settings.credentials).read().certificate
            except FabricDenied:
                return None
        return certificate_of(parts.hostname, parts.port or _PORTS["https"], trusting(trusted), given=bool(trusted))

    def login(self) -> Login | None:
        """As `Manager` says. Raises FabricError."""
        if self._settings.credentials is None or self._settings.api not in ("fm", "cm"):
            return None
        from dds_adapters.fabric.fsas.credentials import Folder
        from dds_adapters.fabric.fsas.session import Session
        from dds_adapters.fabric.fsas.token import claims_of, instant_of

        session = Session(self._settings, Folder(self._settings.credentials), self._outside)
        with ExitStack() as stack:
            stack.callback(session.close)
            began = self._now()
            claims = claims_of(session.token.current())
            ended = self._now()
        made, ends = instant_of(claims, "iat"), instant_of(claims, "exp")
        return Login(began, ended, _micros(made), _micros(ends))

    def machines(self) -> Sequence[Machine]:
        """As `Manager` says. Raises FabricError."""
        return self._provider.machines()

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        """As `Manager` says. Raises FabricError."""
        return self._asked(lambda: self._provider.stock(machine, model))

    def counted(self) -> frozenset[str] | None:
        """As `Manager` says."""
        return self._provider.models if isinstance(self._provider, FileProvider) else None

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        """As `Manager` says. Raises FabricError."""
        return self._asked(lambda: self._provider.limits(machine, models))

    def _asked(self, question: Callable[[], T]) -> T:
        if self._late >= LATE:
            raise FabricLate("was not asked any more", where=f"after {LATE} questions without an answer in time")
        try:
            found = question()
        except FabricLate:
            self._late += 1
            raise
        self._late = 0
        return found

    def _now(self) -> int:
        return round(self._outside.wall() * SECOND)


_PORTS = {"https": 443, "http": 80}


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)
