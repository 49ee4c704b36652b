"""What people and probes see of a running publisher, beyond what they see of every process: the fabric, and what is published.

A fabric that is away makes nobody unready: what is published stands, and no restart brings it back. It is told, measured and
shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from dds_adapters.kubernetes.watched import PUBLISHER as FOLLOWED
from dds_adapters.kubernetes.watched import PUBLISHER_OPTIONAL
from dds_adapters.live.endpoints import Endpoints
from dds_adapters.live.health import Check, Verdict
from dds_adapters.live.metrics import PoolMetrics
from dds_adapters.live.operation import Operation, sources_of
from dds_adapters.live.pool_names import PoolNames
from dds_adapters.live.process import Process
from dds_adapters.live.publishing import PublisherPart
from dds_core.publishing.component import PUBLISHER
from dds_core.publishing.picture import PoolPicture

_WEIGHT = ("machines", "stock", "limits")
LOOK = 1.0
"""Seconds between looks at the picture for what is shown."""


class PublisherOperation(Operation[PoolPicture]):
    """A publisher's. `part` is what its process runs."""

    wanted = tuple(name for name in FOLLOWED if name not in PUBLISHER_OPTIONAL)
    deciding = "this process publishes"

    def __init__(
        self, endpoints: Endpoints, logger: logging.Logger, part: PublisherPart, *, component: str = ""
    ) -> None:
        super().__init__(endpoints, logger, component=component, names=PoolNames())
        self._part = part
        self._metrics: PoolMetrics
        self._looked = 0.0
        self._failing = self._conditions = ""

    def measured(self, process: Process[Any]) -> PoolMetrics:
        self._metrics = PoolMetrics(
            self._endpoints.registry,
            version=version("dds-core"),
            fingerprint=PUBLISHER.fingerprint,
            sources=sources_of(process),
            ages=self._part.ages,
            rounds=self._part.rounds,
        )
        return self._metrics

    def seen(self, picture: PoolPicture) -> str:
        machines, nodes, models = picture.machines_by_uuid.rows, picture.hosts.rows, picture.models
        return f"{len(machines)} machines, {len(nodes)} nodes, {len(models)} models"

    def configured_mode(self, picture: PoolPicture) -> str:
        return picture.config.mode if picture.config is not None else ""

    def turned(self, picture: PoolPicture, /) -> None:
        super().turned(picture)
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked = now
            self._metrics.look(picture)
            self._failing = _failing(picture.failures.rows)
            self._conditions = _conditions(picture, self._part)

    def more_checks(self) -> Mapping[str, Check]:
        return {
            "fabric": lambda: Verdict(True, self._failing),
            "bindingconditions": lambda: Verdict(True, self._conditions),
        }


def _conditions(picture: PoolPicture, part: PublisherPart) -> str:
    """What is wrong with binding conditions; "" when nothing is."""
    if not picture.capabilities.binding_conditions:
        return "the API server drops binding conditions: nothing is published"
    if not part.probed:
        return "the API server has not said whether it keeps them: see the log lines about the probe"
    return ""


def _failing(failures: Mapping[str, str]) -> str:
    """The questions that are not answered, as one line that names the weightiest; "" when all are."""
    if not failures:
        return ""
    of = min(failures, key=lambda of: (_WEIGHT.index(of.partition("/")[0]), of))
    more = f"; and {len(failures) - 1} questions more" if len(failures) > 1 else ""
    return f"no answer about {of}: {failures[of]}{more}"
