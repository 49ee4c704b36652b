"""`dds serve`, `dds publish` and `dds autoscale`: read the settings and run the live processes of `dds_adapters.runtime`, which
is imported only when one of them runs, to keep all other commands fast."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from dds_adapters.fabric.fabric_settings import FabricSettings
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.machines.machine_settings import MachinesSettings, read_settings
from dds_adapters.runtime.serve_settings import AUTOSCALER_LEASE, LEASE, PUBLISHER_LEASE, Listen, LiveSettings
from dds_adapters.sql.urls import as_url
from dds_commands.live import (
    ANSWERING,
    ASKING,
    COMPONENT,
    FABRIC,
    LINES,
    OFF,
    PolicySource,
    ServedLogs,
    Where,
    autoscale_policy_source,
    bare_metal_hosts,
    fabric_of,
    grpc_files,
    listen,
    live_of,
    naming,
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
from dds_commands.serve_options import FLAG, Row, Setting, config_option, origin, rows, setting, settings
from dds_commands.ui import Beside, Shown
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AUTOSCALE_MODES, AutoscalePolicy
from dds_core.errors import DdsError, InputError
from dds_core.kit.policy import MODES
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PUBLISH_MODES, PublishPolicy
from dds_core.scaler.policy import Policy

WITHIN = (
    setting("--publish/--no-publish", "Also run the publisher, with its own log and Lease.", default=False),
    setting("--publish-policy", "Policy of the publisher; reloaded while running.", metavar="FILE"),
    setting(
        "--publish-mode",
        "observe writes no pool; overrides the publisher's policy (default observe).",
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
    setting("--autoscale/--no-autoscale", "Also run the autoscaler, with its own log and Lease.", default=False),
    setting("--autoscale-policy", "Policy of the autoscaler; reloaded while running.", metavar="FILE"),
    setting(
        "--autoscale-mode",
        "observe shows no group; overrides the autoscaler's policy (default observe).",
        type=click.Choice(AUTOSCALE_MODES),
    ),
    setting(
        "--autoscale-lease-name",
        "Name of the autoscaler's Lease.",
        metavar="NAME",
        default=AUTOSCALER_LEASE,
        show_default=True,
    ),
    *ANSWERING,
)
"""Options of `dds serve` for publisher and autoscaler. They must be its last ones: `settings_of` takes the options after
--publish as the publisher's, and those after --autoscale as the autoscaler's."""

_print_config = click.option(
    "--print-config", is_flag=True, help="Show each setting with its value and origin, and exit."
)


class Scaler(NamedTuple):
    """Settings of the scaler's process."""

    live: LiveSettings
    policy: PolicySource[Policy]


class Publisher(NamedTuple):
    """Settings of the publisher's process."""

    live: LiveSettings
    policy: PolicySource[PublishPolicy]
    fabric: FabricSettings
    interval: float
    connections: int
    bare_metal_hosts: bool


class Autoscaler(NamedTuple):
    """Settings of the autoscaler's process."""

    live: LiveSettings
    policy: PolicySource[AutoscalePolicy]
    machines: MachinesSettings
    address: str
    tls: tuple[Path, Path, Path] | None
    interval: float


class Told(NamedTuple):
    """The components to run, and the log and cluster that they use."""

    where: Where
    scaler: Scaler | None = None
    publisher: Publisher | None = None
    autoscaler: Autoscaler | None = None
    ui: Listen | None = None

    @property
    def extra(self) -> str:
        """The extra of dds that has to be installed."""
        return "autoscaler" if self.autoscaler is not None else "serve"


@click.command("serve", short_help="Run the scaler.")
@settings(
    (
        *place_settings(COMPONENT),
        setting("--policy", "Policy file (YAML, TOML or JSON); reloaded while running.", metavar="FILE"),
        setting(
            "--mode",
            "observe writes nothing, attach never detaches; overrides the policy (default observe).",
            type=click.Choice(MODES),
        ),
        *process_settings(LEASE, "127.0.0.1:8081", "127.0.0.1:8080"),
        setting(
            "--ui-bind-address",
            "Address of the page of dds ui, served by a separate process; 0 for none.",
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
    """Run the scaler: watch the cluster, decide, log, write.

    A new installation runs in mode observe: it logs its decisions and writes nothing to the cluster. Start once with
    --migrate to create the log. SIGTERM or Ctrl-C ends it: running writes finish, the Lease is released. It ends with 1 when
    it loses the Lease; restart it then.

    Settings come from flags, else the environment, else the file of --config, else defaults. SCAN_INTERVAL,
    DEVICE_NO_REMOVAL_DURATION and DEVICE_NO_ALLOCATION_DURATION of the reference scaler override the policy file. Changes of
    the policy and the ConfigMap apply without a restart; `mode` in the ConfigMap can only lower the mode.
    """
    given = ctx.params
    live = live_of(ctx)
    policy = policy_source(given["policy"], given["mode"], origin(ctx, "mode"), os.environ)
    policy()
    where = where_of(ctx, COMPONENT, *(PARTS[part] for part in PARTS if given[part]))
    told = Told(where, Scaler(live, policy), ui=listen(ctx, "ui_bind_address"))
    for part in PARTS:
        if not given[part]:
            _refuse_alone(ctx, part)
    if given["publish"]:
        own = _beside(live, given["publish_lease_name"])
        told = told._replace(publisher=_publisher(ctx, own, "publish_policy", "publish_mode"))
    if given["autoscale"]:
        own = _beside(live, given["autoscale_lease_name"])
        told = told._replace(autoscaler=_autoscaler(ctx, own, "autoscale_policy", "autoscale_mode"))
    _check_leases(told)
    return _live(ctx, told, print_config)


def _beside(live: LiveSettings, lease_name: str) -> LiveSettings:
    """The settings of another component in the same program; it serves no addresses of its own."""
    return replace(
        live,
        lease_name=lease_name,
        health=None,
        metrics=None,
        metrics_secure=False,
        metrics_cert=None,
        metrics_key=None,
    )


def _check_leases(told: Told) -> None:
    """Raises InputError if two components would share a Lease."""
    seen: set[str] = set()
    for name, one in (("lease", told.scaler), ("publish-lease", told.publisher), ("autoscale-lease", told.autoscaler)):
        if one is not None and one.live.lease_name in seen:
            what = "scaler, publisher and autoscaler need a Lease each"
            raise InputError(what, where=f"--{name}-name", fix="give each another name")
        seen |= {one.live.lease_name} if one is not None else set()


@click.command("publish", short_help="Run the publisher of the fabric's free devices.")
@settings(
    (
        *place_settings(PUBLISHER.name),
        setting("--policy", "Policy file (YAML, TOML or JSON); reloaded while running.", metavar="FILE"),
        setting(
            "--mode",
            "observe writes nothing; overrides the policy (default observe).",
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
    """Run the publisher: query the fabric for free devices, and show them to the scheduler as ResourceSlices whose devices are
    attached on demand.

    A new installation runs in mode observe: it logs its decisions and writes nothing to the cluster. It works beside dds
    serve or any other scaler; dds serve --publish runs both in one program. Start once with --migrate to create the log.
    SIGTERM or Ctrl-C ends it; published slices stay. It ends with 1 when it loses the Lease.

    Settings come from flags, else the environment, else the file of --config, else defaults. CDI_ENDPOINT,
    TENANT_ID, CLUSTER_ID and USE_CM of the reference driver replace fabric settings that are not given. Changes of the
    policy, the ConfigMap and the inventory apply without a restart; `mode` observe in the ConfigMap stops all writes.
    """
    where = where_of(ctx, PUBLISHER.name)
    return _live(ctx, Told(where, publisher=_publisher(ctx, live_of(ctx), "policy", "mode")), print_config)


@click.command("autoscale", short_help="Run the server provider for Cluster Autoscaler.")
@settings(
    (
        *place_settings(AUTOSCALER.name),
        setting("--policy", "Policy file (YAML, TOML or JSON); reloaded while running.", metavar="FILE"),
        setting(
            "--mode",
            "observe shows no group; overrides the policy (default observe).",
            type=click.Choice(AUTOSCALE_MODES),
        ),
        *ANSWERING,
        *process_settings(AUTOSCALER_LEASE, "127.0.0.1:8085", "127.0.0.1:8084"),
        *LINES,
        config_option,
    )
)
@_print_config
@click.pass_context
def autoscale(ctx: click.Context, /, print_config: bool, **_settings: object) -> int:
    """Run the server provider for Cluster Autoscaler (--cloud-provider=externalgrpc): groups of servers to compose or power
    on. A server is added only where no device helps.

    A new installation runs in mode observe: Cluster Autoscaler sees no group. The policy names the groups, the file of
    --machines the source of their servers. It works beside dds serve and dds publish; dds serve --autoscale runs it in one
    program. Start once with --migrate to create the log. SIGTERM or Ctrl-C ends it; servers stay. It ends with 1 when it
    loses the Lease.

    Settings come from flags, else the environment, else the file of --config, else defaults. Changes of the policy
    and the ConfigMap apply without a restart; `mode` observe in the ConfigMap hides all groups.
    """
    where = where_of(ctx, AUTOSCALER.name)
    return _live(ctx, Told(where, autoscaler=_autoscaler(ctx, live_of(ctx), "policy", "mode")), print_config)


PARTS = {"publish": PUBLISHER.name, "autoscale": AUTOSCALER.name}
"""Components that `dds serve` can run beside the scaler, by their option, in the order of the options."""


def settings_of(command: click.Command, part: str) -> list[str]:
    """The options of `dds serve` that belong to this component alone."""
    names = [one.name or "" for one in command.params if isinstance(one, Setting)]
    after = names[names.index(part) + 1 :]
    ends = [after.index(other) for other in PARTS if other in after]
    return after[: min(ends, default=len(after))]


def _refuse_alone(ctx: click.Context, part: str) -> None:
    """Raises InputError for a flag of a component that does not run; it would have no effect. Variables may be set."""
    for name in settings_of(ctx.command, part):
        if origin(ctx, name) == FLAG:
            flag = f"--{name.replace('_', '-')}"
            fix = f"give --{part}, too, or leave it out"
            raise InputError(f"does nothing without --{part}", where=flag, fix=fix)


def _publisher(ctx: click.Context, live: LiveSettings, policy: str, mode: str) -> Publisher:
    """The publisher's settings. Raises InputError or PolicyError for unusable values."""
    given = ctx.params
    source = publish_policy_source(given[policy], given[mode], origin(ctx, mode))
    source()
    asking = (given["scan_interval"], given["fabric_connections"], bare_metal_hosts(given))
    return Publisher(live, source, fabric_of(given, os.environ), *asking)


def _autoscaler(ctx: click.Context, live: LiveSettings, policy: str, mode: str) -> Autoscaler:
    """The autoscaler's settings. Raises InputError or PolicyError for unusable values."""
    given = ctx.params
    source = autoscale_policy_source(given[policy], given[mode], origin(ctx, mode))
    source()
    if given["machines"] is None:
        fix = "give a YAML file that says where servers come from; see docs/machines.md"
        raise InputError("it is needed", where="--machines", fix=fix)
    machines = read_settings(Path(given["machines"]))
    with naming(ctx, "grpc_bind_address"):
        address = str(Listen.read(given["grpc_bind_address"]))
    return Autoscaler(live, source, machines, address, grpc_files(given), given["machines_interval"])


def _live(ctx: click.Context, told: Told, print_config: bool) -> int:
    if not print_config:
        return _run(told)
    table(("name", "value", "from"), list(_in_force(ctx, told)), "nothing")
    return FINE


def _in_force(ctx: click.Context, told: Told) -> Iterator[Row]:
    """Every option and every field of the policies with its effective value; passwords are removed."""
    first = next(one for one in told[1:4] if one is not None)
    prefixes = {"": told.scaler, "publish-": told.publisher, "autoscale-": told.autoscaler}
    policies = {f"{before}mode": one for before, one in prefixes.items() if one is not None and told.scaler is not None}
    for row in rows(ctx):
        if row.name == "mode" or row.name in policies:
            continue  # the policy's rows have the mode
        row = used(row, told.where, first.live)
        yield used_fabric(row, ctx.params, os.environ) if told.publisher is not None else row
    for before, part in prefixes.items():
        if part is not None:
            yield from part.policy.rows(before if told.scaler is not None else "")


@contextmanager
def _page(told: Told) -> Iterator[None]:
    """With --ui-bind-address, serve the page in the block. It shows the scaler's log and uses the certificate of its metrics."""
    where, scaler, ui = told.where, told.scaler, told.ui
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
    """Run until a signal or an error; returns the exit code. Errors of logs or kubeconfig are raised before anything starts."""
    require(told.extra)
    from dds_adapters.runtime import logs, serving

    where, scaler, publisher, autoscaler, _ = told
    logger = logs.start(where.log_level, where.log_format)
    try:
        with ServedLogs(where.log, where.cluster_name, migrate=where.migrate, say=logger.info) as served:
            served.prepare()
            with _page(told), closing(Cluster(where.kubeconfig, where.context)) as cluster:
                scaling = publishing = autoscaling = None
                if scaler is not None:
                    scaling = serving.Scaling(scaler.live, served.opener(COMPONENT), scaler.policy)
                if publisher is not None:
                    opener = served.opener(PUBLISHER.name)
                    publishing = serving.Publishing(publisher.live, opener, *publisher[1:])
                if autoscaler is not None:
                    opener = served.opener(AUTOSCALER.name)
                    autoscaling = serving.Autoscaling(autoscaler.live, opener, *autoscaler[1:])
                serving.serve(cluster, logger, scaling=scaling, publishing=publishing, autoscaling=autoscaling)
    except DdsError as error:
        if where.log_format != "json":
            raise
        logger.error("%s", error)  # a reader of JSON lines would not see a plain line
        return INPUT
    return FINE
