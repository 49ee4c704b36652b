"""`dds publish`: the live publisher, from its settings to its end. What it does is in `dds_adapters.runtime`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import click

from dds_adapters.runtime.settings import PUBLISHER_LEASE, LiveSettings
from dds_commands.fabric_settings import ASKING, FABRIC, bare_metal_hosts, fabric_of, used_fabric
from dds_commands.live import (
    LINES,
    Given,
    Told,
    Where,
    live_of,
    place_settings,
    process_settings,
    publish_policy_source,
    publishing_of,
    run,
    used,
    where_of,
)
from dds_commands.running import FINE
from dds_commands.screen import table
from dds_commands.settings import Row, config_option, origin, rows, setting
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PUBLISH_MODES

# -- publish settings --------------------------------------------------------------------------------------------------

# The settings of `dds publish`, and those of the publisher within `dds serve`: how they become what a publisher is
# told.


_F = TypeVar("_F", bound=Callable[..., Any])

_SETTINGS = (
    *place_settings(PUBLISHER.name),
    setting("--policy", "The publisher's policy, YAML, TOML or JSON; read again while running.", metavar="FILE"),
    setting(
        "--mode",
        "observe writes nothing; outweighs the policy's, which is observe by default.",
        type=click.Choice(PUBLISH_MODES),
    ),
    *FABRIC,
    *ASKING,
    *process_settings(PUBLISHER_LEASE, "127.0.0.1:8083", "127.0.0.1:8082"),
    *LINES,
)

WITHIN = (
    setting("--publish/--no-publish", "Run the publisher, too, with a log and a lease of its own.", default=False),
    setting("--publish-policy", "The publisher's policy; read again while running.", metavar="FILE"),
    setting(
        "--publish-mode",
        "observe writes no pool; outweighs the publisher's policy, which is observe by default.",
        type=click.Choice(PUBLISH_MODES),
    ),
    setting(
        "--publish-lease-name",
        "Name of the publisher's Lease.",
        metavar="NAME",
        default=PUBLISHER_LEASE,
        show_default=True,
    ),
    *FABRIC,
    *ASKING,
)
"""Those of a publisher within `dds serve`."""


def publish_options(command: _F) -> _F:
    """Every setting of `dds publish`, and the file that they may come from."""
    for option in reversed((*_SETTINGS, config_option)):
        command = option(command)
    return command


def told_of(ctx: click.Context) -> tuple[Where, Told]:
    """What the settings of `dds publish` say. Raises InputError, or PolicyError, for values that cannot be used."""
    return where_of(ctx, PUBLISHER.name), _told(ctx, live_of(ctx), "policy", "mode")


def told_within(ctx: click.Context, live: LiveSettings) -> Told:
    """What those of `dds serve` say of its publisher, which is as the scaler of these settings in everything else."""
    own = replace(live, lease_name=ctx.params["publish_lease_name"], health=None, metrics=None, metrics_secure=False)
    return _told(ctx, replace(own, metrics_cert=None, metrics_key=None), "publish_policy", "publish_mode")


def _told(ctx: click.Context, live: LiveSettings, policy: str, mode: str) -> Told:
    given = ctx.params
    source = publish_policy_source(given[policy], given[mode], origin(ctx, mode))
    source()
    return Told(
        live,
        source,
        fabric_of(given, os.environ),
        given["scan_interval"],
        given["fabric_connections"],
        bare_metal_hosts(given),
    )


def in_force(ctx: click.Context, where: Where, told: Told) -> Iterator[Row]:
    """Every setting and every field of the policy, with what is used where nothing was said; no password is shown."""
    for row in rows(ctx):
        if row.name != "mode":  # comes with the policy
            yield used_fabric(used(row, where, told.live), ctx.params, os.environ)
    yield from told.policy.rows()


# -- publish -----------------------------------------------------------------------------------------------------------


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
