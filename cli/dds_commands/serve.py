"""`dds serve`: the live scaler, from its settings to its end. What it does is in `dds_adapters.live`; nothing is decided here."""

from __future__ import annotations

import click

from dds_commands.live_running import Given, publishing_of, run
from dds_commands.running import FINE
from dds_commands.screen import table
from dds_commands.serve_log import COMPONENT, ServedLogs
from dds_commands.serve_settings import Serving, in_force, serve_options, told_of


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
    def given(logs: ServedLogs) -> Given:
        from dds_adapters.live.serving import Scaling

        scaling = Scaling(told.live, logs.opener(COMPONENT), told.policy)
        publishing = publishing_of(told.publisher, logs) if told.publisher is not None else None
        return Given(scaling, publishing)

    return run(told.where, given)
