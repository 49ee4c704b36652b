"""`dds serve`, `dds publish` and `dds autoscale`: read the settings and run the live processes of `dds_adapters.runtime`, which
is imported only when one of them runs, to keep all other commands fast."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.machines.machine_settings import read_settings
from dds_adapters.runtime.live_settings import Autoscaling, Listen, LiveSettings, Publishing, Scaling
from dds_adapters.sql.urls import as_url
from dds_commands.live import (
    PolicySource,
    ServedLogs,
    autoscale_policy_source,
    fabric_of,
    grpc_files,
    listen,
    live_of,
    naming,
    place_of,
    policy_source,
    publish_policy_source,
    used,
    used_fabric,
)
from dds_commands.live_options import (
    Autoscale,
    AutoscaleBeside,
    Lines,
    OfFabric,
    OfServers,
    OfSurvey,
    Place,
    Publish,
    PublishBeside,
    Serve,
)
from dds_commands.parameters import default_path
from dds_commands.running import FINE, INPUT, require
from dds_commands.screen import table
from dds_commands.settings import FLAG, Row, config_option, names_of, origin, rows, takes
from dds_commands.ui import Beside, Shown
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.errors import DdsError, InputError, PolicyError
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.component import SCALER

_print_config = click.option(
    "--print-config", is_flag=True, help="Show each setting with its value and origin, and exit."
)


class Told(NamedTuple):
    """The components to run, with the sources of their policies, and the log and cluster that they use."""

    place: Place
    lines: Lines
    policies: Mapping[str, PolicySource[Any]]
    """By what stands before the names of their settings in `dds serve`."""
    scaling: Scaling | None = None
    publishing: Publishing | None = None
    autoscaling: Autoscaling | None = None
    fabric: OfFabric | None = None
    ui: Listen | None = None

    @property
    def parts(self) -> dict[str, Scaling | Publishing | Autoscaling]:
        """The components that run, by name, the program's first."""
        parts = {SCALER.name: self.scaling, PUBLISHER.name: self.publishing, AUTOSCALER.name: self.autoscaling}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def live(self) -> list[LiveSettings]:
        """The settings of the processes, the program's first."""
        return [one.settings for one in self.parts.values()]


@click.command("serve", short_help="Run the scaler.")
@takes(Serve)
@config_option
@_print_config
@click.pass_context
def serve(ctx: click.Context, given: Serve, print_config: bool) -> int:
    """Run the scaler: watch the cluster, decide, log, write.

    A new installation runs in mode observe: it logs its decisions and writes nothing to the cluster. Start once with
    --migrate to create the log. SIGTERM or Ctrl-C ends it: running writes finish, the Lease is released. It ends with 1 when
    it loses the Lease; restart it then.

    Settings come from flags, else the environment, else the file of --config, else defaults. SCAN_INTERVAL,
    DEVICE_NO_REMOVAL_DURATION and DEVICE_NO_ALLOCATION_DURATION of the reference scaler override the policy file. Changes of
    the policy and the ConfigMap apply without a restart; `mode` in the ConfigMap can only lower the mode.
    """
    live = live_of(ctx, given.place.kube, given.process)
    policy = policy_source(given.policy, given.mode, origin(ctx, "mode"), os.environ)
    running = [name for part, (name, _) in PARTS.items() if ctx.params[part]]
    place = place_of(given.place, SCALER.name, *running)
    ui = listen(ctx, "ui_bind_address")
    told = Told(place, given.lines, {"": policy}, Scaling(settings=live, policy=policy, stored=policy.stored), ui=ui)
    for part in PARTS:
        if not ctx.params[part]:
            _refuse_alone(ctx, part)
    if given.publish:
        own = given.publisher
        beside = _beside(live, own.publish_lease_name)
        source = publish_policy_source(own.publish_policy, own.publish_mode, origin(ctx, "publish_mode"))
        policies = {**told.policies, "publish-": source}
        publishing = _publishing(beside, source, own.survey)
        told = told._replace(publishing=publishing, policies=policies, fabric=own.survey.fabric)
    if given.autoscale:
        server = given.autoscaler
        beside = _beside(live, server.autoscale_lease_name)
        rules = autoscale_policy_source(server.autoscale_policy, server.autoscale_mode, origin(ctx, "autoscale_mode"))
        policies = {**told.policies, "autoscale-": rules}
        told = told._replace(autoscaling=_autoscaling(ctx, beside, rules, server.servers), policies=policies)
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
    parts = {"lease": told.scaling, "publish-lease": told.publishing, "autoscale-lease": told.autoscaling}
    for name, one in parts.items():
        if one is not None and one.settings.lease_name in seen:
            what = "scaler, publisher and autoscaler need a Lease each"
            raise InputError(what, where=f"--{name}-name", fix="give each another name")
        seen |= {one.settings.lease_name} if one is not None else set()


@click.command("publish", short_help="Run the publisher of the fabric's free devices.")
@takes(Publish)
@config_option
@_print_config
@click.pass_context
def publish(ctx: click.Context, given: Publish, print_config: bool) -> int:
    """Run the publisher: query the fabric for free devices, and show them to the scheduler as ResourceSlices whose devices are
    attached on demand.

    A new installation runs in mode observe: it logs its decisions and writes nothing to the cluster. It works beside dds
    serve or any other scaler; dds serve --publish runs both in one program. Start once with --migrate to create the log.
    SIGTERM or Ctrl-C ends it; published slices stay. It ends with 1 when it loses the Lease.

    Settings come from flags, else the environment, else the file of --config, else defaults. CDI_ENDPOINT,
    TENANT_ID, CLUSTER_ID and USE_CM of the reference driver replace fabric settings that are not given. Changes of the
    policy, the ConfigMap and the inventory apply without a restart; `mode` observe in the ConfigMap stops all writes.
    """
    place = place_of(given.place, PUBLISHER.name)
    live = live_of(ctx, given.place.kube, given.process)
    source = publish_policy_source(given.policy, given.mode, origin(ctx, "mode"))
    publishing = _publishing(live, source, given.survey)
    told = Told(place, given.lines, {"": source}, publishing=publishing, fabric=given.survey.fabric)
    return _live(ctx, told, print_config)


@click.command("autoscale", short_help="Run the server provider for Cluster Autoscaler.")
@takes(Autoscale)
@config_option
@_print_config
@click.pass_context
def autoscale(ctx: click.Context, given: Autoscale, print_config: bool) -> int:
    """Run the server provider for Cluster Autoscaler (--cloud-provider=externalgrpc): groups of servers to compose or power
    on. A server is added only where no device helps.

    A new installation runs in mode observe: Cluster Autoscaler sees no group. The policy names the groups, the file of
    --machines the source of their servers. It works beside dds serve and dds publish; dds serve --autoscale runs it in one
    program. Start once with --migrate to create the log. SIGTERM or Ctrl-C ends it; servers stay. It ends with 1 when it
    loses the Lease.

    Settings come from flags, else the environment, else the file of --config, else defaults. Changes of the policy
    and the ConfigMap apply without a restart; `mode` observe in the ConfigMap hides all groups.
    """
    place = place_of(given.place, AUTOSCALER.name)
    live = live_of(ctx, given.place.kube, given.process)
    source = autoscale_policy_source(given.policy, given.mode, origin(ctx, "mode"))
    autoscaling = _autoscaling(ctx, live, source, given.servers)
    return _live(ctx, Told(place, given.lines, {"": source}, autoscaling=autoscaling), print_config)


PARTS = {"publish": (PUBLISHER.name, PublishBeside), "autoscale": (AUTOSCALER.name, AutoscaleBeside)}
"""Components that `dds serve` can run beside the scaler, by their option: the name, and the options that are for it alone."""


def _refuse_alone(ctx: click.Context, part: str) -> None:
    """Raises InputError for a flag of a component that does not run; it would have no effect. Variables may be set."""
    for name in names_of(PARTS[part][1]):
        if origin(ctx, name) == FLAG:
            flag = f"--{name.replace('_', '-')}"
            fix = f"give --{part}, too, or leave it out"
            raise InputError(f"does nothing without --{part}", where=flag, fix=fix)


def _publishing(live: LiveSettings, source: PolicySource[PublishPolicy], survey: OfSurvey) -> Publishing:
    """The publisher's settings. Raises InputError for unusable values."""
    return Publishing(
        settings=live,
        policy=source,
        fabric=fabric_of(survey.fabric, os.environ),
        interval=survey.scan_interval,
        connections=survey.fabric_connections,
        bare_metal_hosts=survey.nodes.bare_metal_hosts,
        stored=source.stored,
    )


def _autoscaling(
    ctx: click.Context, live: LiveSettings, source: PolicySource[AutoscalePolicy], servers: OfServers
) -> Autoscaling:
    """The autoscaler's settings. Raises InputError for unusable values."""
    if servers.source.machines is None:
        fix = "give a YAML file that says where servers come from; see docs/machines.md"
        raise InputError("it is needed", where="--machines", fix=fix)
    machines = read_settings(Path(servers.source.machines))
    with naming(ctx, "grpc_bind_address"):
        address = str(Listen.read(servers.grpc_bind_address))
    return Autoscaling(
        settings=live,
        policy=source,
        machines=machines,
        address=address,
        tls=grpc_files(servers),
        interval=servers.machines_interval,
        stored=source.stored,
    )


def _live(ctx: click.Context, told: Told, print_config: bool) -> int:
    if not print_config:
        return _run(told)
    table(("name", "value", "from"), list(_in_force(ctx, told)), "nothing")
    return FINE


def _in_force(ctx: click.Context, told: Told) -> Iterator[Row]:
    """Every option and every field of the policies with its effective value; passwords are removed."""
    modes = {"mode", *(f"{before}mode" for before in told.policies)}
    for row in rows(ctx):
        if row.name in modes:
            continue  # the policy's rows have the mode
        row = used(row, told.place, told.live[0])
        yield used_fabric(row, told.fabric, os.environ) if told.fabric is not None else row
    for before, policy in told.policies.items():
        yield from policy.rows(before)


@contextmanager
def _page(told: Told) -> Iterator[None]:
    """With --ui-bind-address, serve the page in the block. It shows the scaler's log and uses the certificate of its metrics."""
    if told.ui is None or told.scaling is None:
        yield
        return
    place, live = told.place, told.scaling.settings
    beside = Beside(
        Shown(
            sources=(),
            url=as_url(place.log or default_path()),
            name=f"{place.cluster_name}/{SCALER.name}",
            address=str(told.ui),
            cert=str(live.metrics_cert or ""),
            key=str(live.metrics_key or ""),
            kubeconfig=place.kube.kubeconfig,
            context=place.kube.context,
        ),
        told.lines.log_level,
        told.lines.log_format,
    )
    beside.start()
    try:
        yield
    finally:
        beside.stop()


def _check_policies(told: Told, served: ServedLogs) -> None:
    """Raises PolicyError for one that is not valid, unless the component has a log: its last policy then stays in force."""
    for name, part in told.parts.items():
        try:
            part.policy()
        except PolicyError:
            if not served.has(name):
                raise


def _run(told: Told) -> int:
    """Run until a signal or an error; returns the exit code. Errors of logs or kubeconfig are raised before anything starts."""
    require("autoscaler" if told.autoscaling is not None else "serve")
    from dds_adapters.runtime import log_lines, serving

    place, form = told.place, told.lines.log_format
    logger = log_lines.start(told.lines.log_level, form)
    try:
        with ServedLogs(
            place.log or default_path(), place.cluster_name, migrate=place.migrate, say=logger.info
        ) as served:
            # first policies and log: if it cannot be used, the process ends at once, before it waits for the API server
            _check_policies(told, served)
            served.prepare(told.parts)
            # then the page, a process of its own, which shows the log also while the cluster cannot be reached
            with _page(told), closing(Cluster(place.kube.kubeconfig, place.kube.context)) as cluster:
                serving.serve(
                    cluster,
                    logger,
                    served.opener,
                    scaling=told.scaling,
                    publishing=told.publishing,
                    autoscaling=told.autoscaling,
                )
    except DdsError as error:
        if form != "json":
            raise
        logger.error("%s", error)  # a reader of JSON lines would not see a plain line
        return INPUT
    return FINE
