"""`dds publish`: the live publisher, from its settings to its end. What it does is in `dds_adapters.live`."""

from __future__ import annotations

import click

from dds_commands.live_running import Given, publishing_of, run
from dds_commands.publish_settings import in_force, publish_options, told_of
from dds_commands.running import FINE
from dds_commands.screen import table


@click.command("publish", short_help="Run the live publisher of a fabric's free devices.")
@publish_options
@click.option("--print-config", is_flag=True, help="Show each setting, its value and where it came from, and end.")
@click.pass_context
def publish(ctx: click.Context, /, print_config: bool, **_settings: object) -> int:
    """Run the live publisher: ask the fabric what it has free, and show it to the scheduler as ResourceSlices whose devices have
    to be attached first.

    A first installation starts in mode observe: it logs what it would publish and writes nothing to the cluster. It works
    beside dds serve, or beside any other scaler; dds serve --publish runs both in one program. Make the log by starting once
    with --migrate. SIGTERM or Ctrl-C ends it; what is published stays. It ends with 1 when the lease was lost.

    Each setting is taken from its flag, else from the environment, else from the file that --config names, else it is the
    default. CDI_ENDPOINT, TENANT_ID, CLUSTER_ID and USE_CM of the reference driver stand in for the fabric's settings where
    these are not given. The policy, the ConfigMap and the inventory are followed while it runs; `mode` observe in the
    ConfigMap keeps it from writing.
    """
    where, told = told_of(ctx)
    if print_config:
        table(("name", "value", "from"), list(in_force(ctx, where, told)), "nothing")
        return FINE
    return run(where, lambda logs: Given(None, publishing_of(told, logs)))
