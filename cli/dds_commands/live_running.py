"""A live command from what it was told to its end: the log lines, the logs, the cluster, and the exit code.

What only a live process needs is imported when one runs, so that nobody else pays for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from dds_adapters.kubernetes.cluster import Cluster
from dds_commands.live_settings import Where
from dds_commands.publish_settings import Told
from dds_commands.running import FINE, INPUT
from dds_commands.serve_log import ServedLogs
from dds_core.errors import DdsError, InputError
from dds_core.publishing.component import PUBLISHER

if TYPE_CHECKING:
    from dds_adapters.live.serving import Publishing, Scaling


class Given(NamedTuple):
    """What is to run."""

    scaling: Scaling | None
    publishing: Publishing | None


def run(where: Where, given: Callable[[ServedLogs], Given]) -> int:
    """Until it is told to end; the exit code. `given` is asked for what is to run, once the logs are ready."""
    try:
        from dds_adapters.live import logs, serving
    except ModuleNotFoundError as error:
        what = f"the package {error.name} is not installed"
        raise InputError(what, fix="pip install 'dds-core[serve]'") from None

    logger = logs.start(where.log_level, where.log_format)
    try:
        with _logs_and_cluster(where, logger) as (served, cluster):
            scaling, publishing = given(served)
            serving.serve(cluster, logger, scaling=scaling, publishing=publishing)
    except DdsError as error:
        if where.log_format != "json":
            raise
        logger.error("%s", error)  # whoever reads JSON reads nothing else
        return INPUT
    return FINE


def publishing_of(told: Told, logs: ServedLogs) -> Publishing:
    """A publisher as it was told, on its log."""
    from dds_adapters.live.serving import Publishing

    return Publishing(
        told.live,
        logs.opener(PUBLISHER.name),
        told.policy,
        told.fabric,
        told.interval,
        told.connections,
        told.bare_metal_hosts,
    )


@contextmanager
def _logs_and_cluster(where: Where, logger: logging.Logger) -> Iterator[tuple[ServedLogs, Cluster]]:
    """Both, ready for use. What is wrong with the logs or the kubeconfig is said before anything is begun."""
    with ServedLogs(where.log, where.cluster_name, migrate=where.migrate, say=logger.info) as logs:
        logs.prepare()
        with closing(Cluster(where.kubeconfig, where.context)) as cluster:
            yield logs, cluster
