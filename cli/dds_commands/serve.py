"""`dds serve`: the live scaler, from its settings to its end. What it does is in `dds_adapters.live`; nothing is decided here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from dds_adapters.kubernetes.cluster import Cluster
from dds_commands.running import FINE, INPUT
from dds_commands.screen import table
from dds_commands.serve_log import ScalerLog
from dds_commands.serve_settings import Serving, in_force, serve_options, told_of
from dds_core.errors import DdsError, InputError


@click.command("serve", short_help="Run the live scaler.")
@serve_options
@click.option("--print-config", is_flag=True, help="Show each setting, its value and where it came from, and end.")
@click.pass_context
def serve(ctx: click.Context, /, print_config: bool, **_settings: object) -> int:
    """Run the live scaler: watch the cluster, decide, log, write.

    A first installation starts in mode observe: it logs what it would do and writes nothing to the cluster. Make the log by
    starting once with --migrate. SIGTERM or Ctrl-C ends it: writes that run are finished, the lease is given back. It ends
    with 1 when the lease was lost, so that it is started anew and stands by.

    Each setting is taken from its flag, else from the environment, else from the file that --config names, else it is the
    default. SCAN_INTERVAL, DEVICE_NO_REMOVAL_DURATION and DEVICE_NO_ALLOCATION_DURATION of the reference scaler outweigh
    the policy's file. The policy and the ConfigMap are followed while it runs; `mode` in the ConfigMap can only lower the mode.
    """
    told = told_of(ctx)
    if print_config:
        table(("name", "value", "from"), list(in_force(ctx, told)), "nothing")
        return FINE
    return _run(told)


def _run(told: Serving) -> int:
    """Until it is told to end; the exit code. What only a live scaler needs is imported here, so that nobody else pays for it."""
    try:
        from dds_adapters.live import logs, serving
    except ModuleNotFoundError as error:
        what = f"the package {error.name} is not installed"
        raise InputError(what, fix="pip install 'dds-core[serve]'") from None

    logger = logs.start(told.log_level, told.log_format)
    try:
        with _log_and_cluster(told, logger) as (log, cluster):
            serving.serve(told.live, cluster=cluster, open_log=log.open, policy=told.policy, logger=logger)
    except DdsError as error:
        if told.log_format != "json":
            raise
        logger.error("%s", error)  # whoever reads JSON reads nothing else
        return INPUT
    return FINE


@contextmanager
def _log_and_cluster(told: Serving, logger: logging.Logger) -> Iterator[tuple[ScalerLog, Cluster]]:
    """Both, ready for use. What is wrong with the log or the kubeconfig is said before anything is begun."""
    with ScalerLog(told.log, told.cluster_name, migrate=told.migrate, say=logger.info) as log:
        log.prepare()
        with closing(Cluster(told.kubeconfig, told.context)) as cluster:
            yield log, cluster
