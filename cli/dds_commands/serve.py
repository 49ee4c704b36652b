"""`dds serve` and `dds publish`: the live scaler and the live publisher, from their settings to their end. What they do is in
`dds_adapters.runtime`, which is imported when one of them runs, so that nobody else pays for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import NamedTuple

import click

from dds_adapters.fabric.settings import FabricSettings
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.runtime.settings import LEASE, PUBLISHER_LEASE, Listen, LiveSettings
from dds_adapters.sql.urls import as_url
from dds_commands.live import (
    ASKING,
    COMPONENT,
    FABRIC,
    LINES,
    OFF,
    PolicySource,
    ServedLogs,
    Where,
    bare_metal_hosts,
    fabric_of,
    listen,
    live_of,
    place_settings,
    policy_source,
    process_settings,
    publish_policy_source,
    used,
    used_fabric,
    where_of,
)
from dds_commands.running import FINE, INPUT, require
from dds_commands.screen import table
from dds_commands.settings import FLAG, Row, Setting, config_option, origin, rows, setting, settings
from dds_commands.ui import Beside, Shown
from dds_core.errors import DdsError, InputError
from dds_core.kit.policy import MODES
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PUBLISH_MODES, PublishPolicy
from dds_core.scaler.policy import Policy

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
"""Those of a publisher within `dds serve`. They are its last ones: what follows --publish is the publisher's alone."""

_print_config = click.option(
    "--print-config", is_flag=True, help="Show each setting, its value and where it came from, and end."
)


class Scaler(NamedTuple):
    """All that a scaler was told."""

    live: LiveSettings
    policy: PolicySource[Policy]


class Publisher(NamedTuple):
    """All that a publisher was told."""

    live: LiveSettings
    policy: PolicySource[PublishPolicy]
    fabric: FabricSettings
    interval: float
    connections: int
    bare_metal_hosts: bool


class Told(NamedTuple):
    """What is to run, and where."""

    where: Where
    scaler: Scaler | None = None
    publisher: Publisher | None = None
    ui: Listen | None = None


@click.command("serve", short_help="Run the live scaler.")
@settings(
    (
        *place_settings(COMPONENT),
        setting("--policy", "The policy, YAML, TOML or JSON; read again while running.", metavar="FILE"),
        setting(
            "--mode",
            "observe writes nothing, attach never detaches; outweighs the policy's, which is observe by default.",
            type=click.Choice(MODES),
        ),
        *process_settings(LEASE, "127.0.0.1:8081", "127.0.0.1:8080"),
        setting(
            "--ui-bind-address",
            "Where the page of dds ui is served, by a process beside; 0 for nowhere.",
            metavar="HOST:PORT",
            default=OFF,
            show_default=True,
        ),
        *LINES,
        *WITHIN,
        config_option,
    )
)
@_print_config
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
    given, publishes = ctx.params, ctx.params["publish"]
    live = live_of(ctx)
    policy = policy_source(given["policy"], given["mode"], origin(ctx, "mode"), os.environ)
    policy()
    where = where_of(ctx, COMPONENT, *[PUBLISHER.name] * publishes)
    ui = listen(ctx, "ui_bind_address")
    if not publishes:
        _refuse_alone(ctx)
        return _live(ctx, Told(where, Scaler(live, policy), ui=ui), print_config)
    own = replace(live, lease_name=given["publish_lease_name"], health=None, metrics=None, metrics_secure=False)
    own = replace(own, metrics_cert=None, metrics_key=None)
    publisher = _publisher(ctx, own, "publish_policy", "publish_mode")
    if own.lease_name == live.lease_name:
        fix = "give each another name"
        raise InputError("scaler and publisher need a Lease each", where="--publish-lease-name", fix=fix)
    return _live(ctx, Told(where, Scaler(live, policy), publisher, ui), print_config)


@click.command("publish", short_help="Run the live publisher of a fabric's free devices.")
@settings(
    (
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
        config_option,
    )
)
@_print_config
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
    where = where_of(ctx, PUBLISHER.name)
    return _live(ctx, Told(where, publisher=_publisher(ctx, live_of(ctx), "policy", "mode")), print_config)


def publishers(command: click.Command) -> list[str]:
    """The settings of `dds serve` that are the publisher's alone."""
    names = [one.name or "" for one in command.params if isinstance(one, Setting)]
    return names[names.index("publish") + 1 :]


def _refuse_alone(ctx: click.Context) -> None:
    """A flag of the publisher without the publisher: nobody would see why no pool comes. The environment may."""
    for name in publishers(ctx.command):
        if origin(ctx, name) == FLAG:
            flag = f"--{name.replace('_', '-')}"
            fix = "give --publish, too, or leave it out"
            raise InputError("does nothing without --publish", where=flag, fix=fix)


def _publisher(ctx: click.Context, live: LiveSettings, policy: str, mode: str) -> Publisher:
    """What the settings say of a publisher. Raises InputError, or PolicyError, for values that cannot be used."""
    given = ctx.params
    source = publish_policy_source(given[policy], given[mode], origin(ctx, mode))
    source()
    asking = (given["scan_interval"], given["fabric_connections"], bare_metal_hosts(given))
    return Publisher(live, source, fabric_of(given, os.environ), *asking)


def _live(ctx: click.Context, told: Told, print_config: bool) -> int:
    if not print_config:
        return _run(told)
    table(("name", "value", "from"), list(_in_force(ctx, told)), "nothing")
    return FINE


def _in_force(ctx: click.Context, told: Told) -> Iterator[Row]:
    """Every setting and every field of the policies, with what is used where nothing was said; no password is shown."""
    scaler, publisher = told.scaler, told.publisher
    parts = [one for one in (scaler, publisher) if one is not None]
    for row in rows(ctx):
        if row.name == "mode" or (row.name == "publish-mode" and publisher is not None):
            continue  # comes with its policy
        row = used(row, told.where, parts[0].live)
        yield used_fabric(row, ctx.params, os.environ) if publisher is not None else row
    if scaler is not None:
        yield from scaler.policy.rows()
    if publisher is not None:
        yield from publisher.policy.rows("publish-" if scaler is not None else "")


@contextmanager
def _page(told: Told) -> Iterator[None]:
    """The page beside the scaler, where it was asked for. It shows the log that the scaler writes, and has its certificate."""
    where, scaler, _, ui = told
    if ui is None or scaler is None:
        yield
        return
    beside = Beside(
        Shown(
            sources=(),
            url=as_url(where.log),
            name=f"{where.cluster_name}/{COMPONENT}",
            address=str(ui),
            cert=str(scaler.live.metrics_cert or ""),
            key=str(scaler.live.metrics_key or ""),
            kubeconfig=where.kubeconfig,
            context=where.context,
        ),
        where.log_level,
        where.log_format,
    )
    beside.start()
    try:
        yield
    finally:
        beside.stop()


def _run(told: Told) -> int:
    """Until it is told to end; the exit code. What is wrong with the logs or the kubeconfig is said before anything is begun."""
    require("serve")
    from dds_adapters.runtime import logs, serving

    where, scaler, publisher, _ = told
    logger = logs.start(where.log_level, where.log_format)
    try:
        with ServedLogs(where.log, where.cluster_name, migrate=where.migrate, say=logger.info) as served:
            served.prepare()
            with _page(told), closing(Cluster(where.kubeconfig, where.context)) as cluster:
                scaling = publishing = None
                if scaler is not None:
                    scaling = serving.Scaling(scaler.live, served.opener(COMPONENT), scaler.policy)
                if publisher is not None:
                    opener = served.opener(PUBLISHER.name)
                    publishing = serving.Publishing(publisher.live, opener, *publisher[1:])
                serving.serve(cluster, logger, scaling=scaling, publishing=publishing)
    except DdsError as error:
        if where.log_format != "json":
            raise
        logger.error("%s", error)  # whoever reads JSON reads nothing else
        return INPUT
    return FINE
