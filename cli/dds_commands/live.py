"""What the live commands (`dds serve`, `dds publish`, `dds autoscale`) and `dds doctor` share: the database of their logs, their
policies, and the functions that make settings objects of their options. These functions open nothing.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
from pydantic import BaseModel

from dds_adapters.fabric import FabricSettings
from dds_adapters.fabric.fabric_settings import check
from dds_adapters.kubernetes import access
from dds_adapters.kubernetes.lease.elector import new_identity
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_adapters.runtime.live_settings import (
    Listen,
    LiveSettings,
)
from dds_adapters.sql import Database, upgrade
from dds_adapters.sql.places import danger
from dds_adapters.sql.urls import as_url, is_url
from dds_commands.live_options import OFF, Kube, OfFabric, OfProcess, OfServers, Place
from dds_commands.parameters import default_path, made, policy_read, state_folder, without_password
from dds_commands.settings import DEFAULT, Row, names_of, origin, text
from dds_core.autoscaler.policy import AutoscaleMode, AutoscalePolicy, read_autoscale_policy
from dds_core.component import component_of
from dds_core.errors import DatabaseMissing, DdsError, InputError, LogUnavailable, SchemaMissing, SchemaOlder
from dds_core.kit.policy import Mode
from dds_core.log import EventLog
from dds_core.log.envelope import component_name
from dds_core.publisher.policy import PublishMode, PublishPolicy, read_publish_policy
from dds_core.replay import written_by
from dds_core.scaler.policy import Policy, from_reference, read_policy


class ServedLogs:
    """The database of the logs that the live commands write, opened at the first use; a context manager that closes it.

    `named` is a URL or the path of a SQLite file. Only with `migrate` is the schema created or upgraded, before the first use.
    `say` receives messages for people.
    """

    def __init__(self, named: str, cluster_name: str, *, migrate: bool, say: Callable[[str], None]) -> None:
        self._cluster_name = cluster_name
        self._named = named
        self._url = as_url(named)
        self._migrate = migrate
        self._say = say
        self._database: Database | None = None
        self._lock = threading.Lock()
        self._read: set[str] = set()

    def prepare(self, components: Iterable[str]) -> None:
        """Find errors early that waiting does not cure, in the database and in the logs of these components, and say if an older
        dds could not go on with a log after this one. An unreachable database may come back, so it is only reported.

        Raises DatabaseMissing, SchemaMissing, SchemaOlder (each says how to go on), SchemaNewer, NotADatabase, UnknownEvent (the
        log of a newer dds) or InputError.
        """
        if self._named == default_path():
            made(state_folder(), "give --log URL")
        try:
            there = {head.log for head in self._opened().heads()}
            for name in (f"{self._cluster_name}/{one}" for one in components):
                if name in there:
                    self._readable(self._opened().log(name))
        except LogUnavailable as error:
            self._say(str(error))
        why = "" if is_url(self._named) else danger(self._named)
        if why:
            self._say(f"{self._named}: {why}")

    def opener(self, component: str) -> Callable[[str], EventLog]:
        """A function that opens the component's log for a cluster, given its UID, and creates the log if it is missing. The
        function raises ForeignLog, LogUnavailable and what `prepare` raises."""
        name = f"{self._cluster_name}/{component}"

        def opened(cluster: str) -> EventLog:
            log = self._opened().open_log(name, cluster=cluster, recorded_at=time.time_ns() // 1000)
            if name not in self._read:  # the database was away when `prepare` looked
                self._readable(log)
            return log

        return opened

    def _readable(self, log: EventLog) -> None:
        """Raise UnknownEvent if this version cannot read the log; say if it is the last that can."""
        ends = written_by(log, component_of(log.name)).way_back_ends
        if ends:
            self._say(f"log {log.name}: {ends}; a copy from before this start leads back")
        self._read.add(log.name)

    def has(self, component: str) -> bool:
        """Whether the component has a log there; true also while that cannot be known."""
        try:
            return f"{self._cluster_name}/{component}" in [head.log for head in self._opened().heads()]
        except LogUnavailable:
            return True
        except DdsError:  # `prepare` reports it
            return False

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def __enter__(self) -> ServedLogs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> Database:
        with self._lock:
            if self._database is None:
                if self._migrate:
                    self._upgrade()
                self._database = self._open()
            return self._database

    def _upgrade(self) -> None:
        before, after = upgrade(self._url, say=self._say)
        if before != after:
            self._say(f"{without_password(self._named)} was brought from {before or 'nothing'} to {after}")

    def _open(self) -> Database:
        try:
            return Database(self._url)
        except (DatabaseMissing, SchemaMissing) as error:
            fix = "start once with --migrate, which makes the log there"
            raise type(error)(error.what, where=error.where, fix=self._or_elsewhere(fix)) from None
        except SchemaOlder as error:
            fix = "make a copy, then start once with --migrate, which upgrades it"
            raise SchemaOlder(error.what, where=error.where, fix=fix) from None

    def _or_elsewhere(self, fix: str) -> str:
        """Without --log the person may not want the log at the default path: mention the option, too."""
        elsewhere = ", or name another log with --log URL" if self._named == default_path() else ""
        return f"{fix}{elsewhere}"


# -- policies ----------------------------------------------------------------------------------------------------------

_P = TypeVar("_P", bound=BaseModel)


class PolicySource(Generic[_P]):
    """The policy in force; call it to get the current one. A mode that was set (--mode, DDS_MODE) comes first, then the variables
    of the reference scaler, then the file, then the defaults. A change of the file applies without a restart.

    `read` parses a policy file's content, `default` is the policy without a file. `above` are fields that override the file, each
    with its value and where that was set.
    """

    def __init__(
        self,
        path: str | None,
        read: Callable[[Mapping[str, Any]], _P],
        default: _P,
        above: Mapping[str, tuple[Any, str]],
    ) -> None:
        self.path = path
        self._read = read
        self._default = default
        self._above = above
        self._known: tuple[bytes, _P] | None = None

    def __call__(self) -> _P:
        """The whole policy. Raises PolicyError. It is called each second, so an unchanged file is not parsed again."""
        content = self._content()
        if self._known is not None and self._known[0] == content:
            return self._known[1]
        policy = self._written().model_copy(update={field: value for field, (value, _) in self._above.items()})
        if content is not None:
            self._known = (content, policy)
        return policy

    def stored(self, written: Mapping[str, Any]) -> _P:
        """The policy that a log has, with what overrides it. Raises PolicyError."""
        return self._read(written).model_copy(update={field: value for field, (value, _) in self._above.items()})

    def _content(self) -> bytes | None:
        """None if the file cannot be read; `_written` then raises an error that says why."""
        try:
            return Path(self.path).read_bytes() if self.path is not None else b""
        except OSError:
            return None

    def _written(self) -> _P:
        return policy_read(self.path, self._read) or self._default

    def rows(self, before: str = "") -> Iterator[Row]:
        """Every field with its value and origin: `mode`, else `policy.<field>`, each prefixed by `before`. Raises PolicyError."""
        written = self._written()
        for field in type(self._default).model_fields:
            name = before + (field if field == "mode" else f"policy.{field}")
            if field in self._above:
                value, given = self._above[field]
                yield Row(name, text(value), given)
            else:
                given = self.path if self.path is not None and field in written.model_fields_set else DEFAULT
                yield from _flat(name, getattr(written, field), given)


def policy_source(
    path: str | None, mode: Mode | None, mode_origin: str, environment: Mapping[str, str]
) -> PolicySource[Policy]:
    """The scaler's policy. `mode_origin` says where `mode` was set. From `environment` only the reference scaler's variables are
    read; raises PolicyError if one of them is invalid."""
    above = {
        field: (value, f"environment {name}")
        for name in environment
        for field, value in from_reference({name: environment[name]}).items()
    }
    return PolicySource(path, read_policy, Policy(), above | _mode(mode, mode_origin))


def publish_policy_source(path: str | None, mode: PublishMode | None, mode_origin: str) -> PolicySource[PublishPolicy]:
    return PolicySource(path, read_publish_policy, PublishPolicy(), _mode(mode, mode_origin))


def autoscale_policy_source(
    path: str | None, mode: AutoscaleMode | None, mode_origin: str
) -> PolicySource[AutoscalePolicy]:
    return PolicySource(path, read_autoscale_policy, AutoscalePolicy(), _mode(mode, mode_origin))


def _mode(mode: str | None, given: str) -> dict[str, tuple[Any, str]]:
    return {} if mode is None else {"mode": (mode, given)}


def _flat(name: str, value: object, given: str) -> Iterator[Row]:
    """One row for each leaf of a nested value. `given` is the origin of the whole; fields that it did not set are defaults."""
    if isinstance(value, BaseModel):
        for field in type(value).model_fields:
            origin = given if field in value.model_fields_set else DEFAULT
            yield from _flat(f"{name}.{field}", getattr(value, field), origin)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner, given)
    elif isinstance(value, tuple) and any(isinstance(one, BaseModel) for one in value):
        for number, inner in enumerate(value):
            yield from _flat(f"{name}.{number}", inner, given)
    elif isinstance(value, dict | tuple):
        yield Row(name, json.dumps(value), given)
    else:
        yield Row(name, text(value), given)


# -- settings from options ---------------------------------------------------------------------------------------------


def place_of(place: Place, *components: str) -> Place:
    """With the log's default. Raises InputError if `cluster_name` gives no valid name of a log, or the URL is invalid."""
    log = place.log or default_path()
    without_password(log)  # raises if the URL is invalid
    for component in components:
        component_name(f"{place.cluster_name}/{component}")
    return replace(place, log=log)


def live_of(ctx: click.Context, kube: Kube, given: OfProcess) -> LiveSettings:
    """The process's settings. Raises InputError for unusable values."""
    return LiveSettings(
        identity=new_identity(),
        config_namespace=kube.namespace,
        leader_elect=given.leader_elect,
        lease_namespace=given.lease_namespace or kube.namespace,
        lease_name=given.lease_name,
        lease=LeaseSettings(given.lease_duration, given.lease_renew_deadline, given.lease_retry_period),
        health=listen(ctx, "health_probe_bind_address"),
        metrics=listen(ctx, "metrics_bind_address"),
        metrics_secure=given.metrics_secure,
        metrics_cert=path(given.metrics_cert_file),
        metrics_key=path(given.metrics_key_file),
        checkpoint_events=given.checkpoint_events,
        archive_folder=path(given.archive_folder),
        writers=given.writers,
    )


def used(row: Row, place: Place, live: LiveSettings) -> Row:
    """The row with the value that is really used, also if the option was not given; passwords are removed."""
    if row.name == "kubeconfig" and row.origin == DEFAULT and os.environ.get("KUBECONFIG"):
        row = row._replace(origin="environment KUBECONFIG")
    values = {
        "log": without_password(place.log or default_path()),
        "kubeconfig": access.found(place.kube.kubeconfig, place.kube.context).name,
        "lease-namespace": live.lease_namespace,
    }
    return row._replace(value=values.get(row.name, row.value))


def listen(ctx: click.Context, name: str) -> Listen | None:
    """The address of an option; None if it is off. Raises InputError."""
    text = ctx.params[name]
    with naming(ctx, name):
        return None if text == OFF else Listen.read(text)


@contextmanager
def naming(ctx: click.Context, name: str) -> Iterator[None]:
    """An InputError that is raised inside names the setting and the origin of its value."""
    try:
        yield
    except InputError as error:
        where = origin(ctx, name)
        key = name.replace("_", "-")
        raise InputError(
            error.what, where=f"--{key}" if where == "flag" else f"{where}: {key}", fix=error.fix
        ) from None


def path(text: str | None) -> Path | None:
    return Path(text) if text is not None else None


# -- the fabric --------------------------------------------------------------------------------------------------------


def grpc_files(given: OfServers) -> tuple[Path, Path, Path] | None:
    """Certificate, key and CA; None if none is given. Raises InputError if only some are given."""
    files = {name: path(getattr(given, name)) for name in ("grpc_cert_file", "grpc_key_file", "grpc_client_ca_file")}
    there = [file for file in files.values() if file is not None]
    if not there:
        return None
    if len(there) < len(files):
        lacking = next(name for name, file in files.items() if file is None).replace("_", "-")
        raise InputError("it is missing", where=f"--{lacking}", fix="give certificate, key and client CA, or none")
    return there[0], there[1], there[2]


class Found(NamedTuple):
    """A setting's effective value; `origin` is set if it is not from the setting's own flag, variable or file."""

    value: str | None
    origin: str = ""


_STAND_IN = {"fabric_endpoint": "CDI_ENDPOINT", "tenant_id": "TENANT_ID", "cluster_id": "CLUSTER_ID"}


def fabric_of(given: OfFabric, environment: Mapping[str, str]) -> FabricSettings:
    """The fabric's settings. The reference driver's variables (CDI_ENDPOINT, TENANT_ID, CLUSTER_ID, USE_CM) replace options that
    are not given. Raises InputError, which names the flag, for unusable values."""
    found = {name: one.value or "" for name, one in _found(given, environment)}
    credentials, inventory = found["credentials_folder"], found["inventory"]
    settings = FabricSettings(
        api=found["fabric"],
        endpoint=found["fabric_endpoint"],
        tenant=found["tenant_id"],
        cluster=found["cluster_id"],
        credentials=Path(credentials) if credentials else None,
        inventory=Path(inventory) if inventory else None,
    )
    check(settings)
    return settings


def used_fabric(row: Row, given: OfFabric, environment: Mapping[str, str]) -> Row:
    """The row with the value that replaces it, if the option was not given."""
    found = dict(_found(given, environment)).get(row.name.replace("-", "_"))
    if found is None or row.origin != DEFAULT:
        return row
    return row._replace(value=found.value or "-", origin=found.origin or row.origin)


def _found(given: OfFabric, environment: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    yield "fabric", _api(given, environment)
    for name in names_of(OfFabric)[1:]:
        value, variable = getattr(given, name), _STAND_IN.get(name, "")
        text = environment.get(variable, "")
        yield name, Found(text, f"environment {variable}") if not value and text else Found(value)


def _api(given: OfFabric, environment: Mapping[str, str]) -> Found:
    """The manager's API: --fabric, else as the reference driver chooses by its variables, else an inventory file. Raises
    InputError if an endpoint is given without its API."""
    if given.fabric:
        return Found(given.fabric)
    if environment.get("CDI_ENDPOINT") and not given.inventory:
        return Found(*_reference(environment.get("USE_CM", "")))
    if given.fabric_endpoint:
        raise InputError(
            "a manager's address is given, and not which API it has", where="--fabric", fix="give fm, cm or nec"
        )
    if not given.inventory:
        fix = "give --inventory FILE, or --fabric fm, cm or nec and --fabric-endpoint"
        raise InputError("nothing says what the fabric has free", where="--fabric", fix=fix)
    return Found("file")


def _reference(use_cm: str) -> tuple[str, str]:
    if use_cm.strip().lower() in ("1", "t", "true"):
        return "cm", "environment USE_CM"
    return "fm", "environment CDI_ENDPOINT"
