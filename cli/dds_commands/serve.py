"""`dds serve`: the live scaler, from its settings to its end. What it does is in `dds_adapters.runtime`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import click

from dds_adapters.runtime.settings import LEASE, LiveSettings
from dds_commands.fabric_settings import used_fabric
from dds_commands.live import (
    COMPONENT,
    LINES,
    Given,
    PolicySource,
    ServedLogs,
    Told,
    Where,
    live_of,
    place_settings,
    policy_source,
    process_settings,
    publishing_of,
    run,
    used,
    where_of,
)
from dds_commands.publish import WITHIN, told_within
from dds_commands.running import FINE
from dds_commands.screen import table
from dds_commands.settings import FLAG, Row, config_option, origin, rows, setting
from dds_core.errors import InputError
from dds_core.kit.policy import MODES
from dds_core.publisher.component import PUBLISHER
from dds_core.scaler.policy import Policy

# -- serve settings ----------------------------------------------------------------------------------------------------

# The settings of `dds serve`: every flag with its default, and how they become what a live scaler, and a publisher
# beside it, are told. Nothing is opened.


_F = TypeVar("_F", bound=Callable[..., Any])

_SETTINGS = (
    *place_settings(COMPONENT),
    setting("--policy", "The policy, YAML, TOML or JSON; read again while running.", metavar="FILE"),
    setting(
        "--mode",
        "observe writes nothing, attach never detaches; outweighs the policy's, which is observe by default.",
        type=click.Choice(MODES),
    ),
    *process_settings(LEASE, "127.0.0.1:8081", "127.0.0.1:8080"),
    *LINES,
    *WITHIN,
)


PUBLISHERS = (
    "publish_policy",
    "publish_mode",
    "publish_lease_name",
    "fabric",
    "fabric_endpoint",
    "tenant_id",
    "cluster_id",
    "credentials_folder",
    "inventory",
    "scan_interval",
    "fabric_connections",
    "machine_ids",
)
"""The settings that are the publisher's alone."""


class Serving(NamedTuple):
    """All that `dds serve` was told; `publisher` only with --publish."""

    where: Where
    live: LiveSettings
    policy: PolicySource[Policy]
    publisher: Told | None


def serve_options(command: _F) -> _F:
    """Every setting, and the file that they may come from."""
    for option in reversed((*_SETTINGS, config_option)):
        command = option(command)
    return command


def told_of(ctx: click.Context) -> Serving:
    """What the settings of the command say. Raises InputError, or PolicyError, for values that cannot be used."""
    given = ctx.params
    publishes = given["publish"]
    live = live_of(ctx)
    policy = policy_source(given["policy"], given["mode"], origin(ctx, "mode"), os.environ)
    policy()
    where = where_of(ctx, COMPONENT, *[PUBLISHER.name] * publishes)
    if not publishes:
        _refuse_alone(ctx)
    publisher = told_within(ctx, live) if publishes else None
    if publisher is not None and publisher.live.lease_name == live.lease_name:
        raise InputError(
            "scaler and publisher need a Lease each", where="--publish-lease-name", fix="give each another name"
        )
    return Serving(where, live, policy, publisher)


def _refuse_alone(ctx: click.Context) -> None:
    """A flag of the publisher without the publisher: nobody would see why no pool comes. The environment may."""
    for name in PUBLISHERS:
        if origin(ctx, name) == FLAG:
            flag = f"--{name.replace('_', '-')}"
            fix = "give --publish, too, or leave it out"
            raise InputError("does nothing without --publish", where=flag, fix=fix)


def in_force(ctx: click.Context, told: Serving) -> Iterator[Row]:
    """Every setting and every field of the policies, with what is used where nothing was said; no password is shown."""
    for row in rows(ctx):
        if row.name == "mode" or (row.name == "publish-mode" and told.publisher is not None):
            continue  # comes with its policy
        row = used(row, told.where, told.live)
        yield used_fabric(row, ctx.params, os.environ) if told.publisher is not None else row
    yield from told.policy.rows()
    if told.publisher is not None:
        yield from told.publisher.policy.rows("publish-")


# -- serve -------------------------------------------------------------------------------------------------------------


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
        from dds_adapters.runtime.serving import Scaling

        scaling = Scaling(told.live, logs.opener(COMPONENT), told.policy)
        publishing = publishing_of(told.publisher, logs) if told.publisher is not None else None
        return Given(scaling, publishing)

    return run(told.where, given)
