"""Checks of the fabric's manager: a trusted certificate, a working login, and an answer to each question of the publisher.

A failed question does not stop the others. Only after a failed certificate or login nothing more is asked, since many failed
logins lock an account.
"""

from __future__ import annotations

import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dds_adapters.kubernetes.doctor.api_server import between, skewed
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.findings import (
    Finding,
    error,
    failed,
    foreign,
    many,
    note,
    ok,
    several,
    sound,
    unknown,
    warning,
)
from dds_adapters.proxies import connect
from dds_core.errors import DdsError, InputError
from dds_core.publisher.model import Limit, Machine, PoolModel, Stock, by_name
from dds_core.publisher.rooms import machines_of
from dds_core.timeline.instants import duration, rfc3339


@dataclass(frozen=True)
class Certificate:
    """A valid certificate of the manager's endpoint: `ends` in microseconds since 1970-01-01 UTC, `trusted_by` its voucher."""

    ends: int
    trusted_by: str


@dataclass(frozen=True)
class Login:
    """A token: `made` and `ends` by the id manager's clock, None if the token does not say.

    `began` and `ended` are the instants of the call by this machine's clock; all in microseconds since 1970-01-01 UTC.
    """

    began: int
    ended: int
    made: int | None = None
    ends: int | None = None


class Manager(Protocol):
    """A fabric's manager, as the doctor uses it; the caller of the examination provides it. It must not contain a credential or
    token. All methods may raise DdsError, which becomes a finding. `where` is its name without user and password."""

    @property
    def where(self) -> str: ...

    def certificate(self) -> Certificate | None:
        """That of the endpoint; None if it has none (no https, a file)."""

    def login(self) -> Login | None:
        """Log in; None if no login is needed."""

    def machines(self) -> Sequence[Machine]: ...

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        """What the machine's fabric has free of the model."""

    def counted(self) -> frozenset[str] | None:
        """The models of an inventory, by cdi-model-name; None if there is no list and each model has to be asked for."""

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        """How many devices a machine may have; None if unknown."""

    def left_out(self) -> str | None:
        """One line about entries of the answers so far that could not be read; "" or None without any."""


SOON = 30 * 86_400 * 1_000_000
"""Microseconds: a certificate that ends within this time should be renewed."""
TRIES = 3
"""Machines of a fabric that are asked for its stock, one after the other, like the publisher does."""


def fabric(context: ExaminationContext | None, manager: Manager, now: Callable[[], int]) -> Iterator[Finding]:
    """All findings about a manager, in the order of their dependencies. `context` is the cluster, if it answers."""
    for check, first in (("fabric certificate", _certificate(manager, now)), ("fabric login", _login(manager))):
        try:
            found = list(first)
        except DdsError as problem:
            found = [failed(check, problem, "error")]
        yield from found
        if not sound(found):
            yield unknown("fabric", "everything else of the fabric was not asked")
            return
    try:
        machines = manager.machines()
    except DdsError as problem:
        yield failed("fabric machines", problem, "error")
        return
    yield from _machines(machines)
    if context is None:
        return
    yield from _nodes(context, machines)
    models = context.pools_or_usual().models
    yield from _stocks(manager, machines, models)
    yield from _limits(manager, machines, models)
    if odd := manager.left_out():
        yield warning("fabric entries", odd, "see docs/fabric.md")


# -- trust -----------------------------------------------------------------------------------------------------------------


def _certificate(manager: Manager, now: Callable[[], int]) -> Iterator[Finding]:
    check = "fabric certificate"
    found = manager.certificate()
    if found is None:
        return
    left = found.ends - now()
    what = f"{manager.where}: valid until {rfc3339(found.ends)}, trusted by {found.trusted_by}"
    if left < SOON:
        yield warning(check, f"{what}: {duration(max(left, 0))} are left", "renew it on the manager")
    else:
        yield ok(check, what)


def _login(manager: Manager) -> Iterator[Finding]:
    check = "fabric login"
    found = manager.login()
    if found is None:
        return
    life = f", for {duration(found.ends - found.made)}" if found.ends is not None and found.made is not None else ""
    yield ok(check, f"a token was given out{life}")
    if found.made is None:
        yield unknown(check, "the token does not say when it was made, so the clocks were not compared")
        return
    skew = between(found.made, found.began, found.ended)
    agree = "our clock and the id manager's agree, as far as the token tells"
    yield skewed(check, skew, "the id manager's", agree)


# -- machines --------------------------------------------------------------------------------------------------------------


def by_fabric(machines: Sequence[Machine]) -> dict[str, list[Machine]]:
    """The machines of each fabric, sorted by UUID."""
    found: dict[str, list[Machine]] = defaultdict(list)
    for one in sorted(machines, key=lambda one: one.uuid):
        if one.fabric:
            found[one.fabric].append(one)
    return found


def _machines(machines: Sequence[Machine]) -> Iterator[Finding]:
    check, fabrics = "fabric machines", by_fabric(machines)
    if not machines:
        yield error(check, "there are no machines: no pool is published", "check tenant and what this user may see")
        return
    alone = [one.name or one.uuid for one in machines if not one.fabric]
    if fabrics:
        yield ok(check, f"{many(len(machines), 'machine')} in {many(len(fabrics), 'fabric')} ({several(fabrics)})")
    else:
        yield error(
            check, f"none of {len(machines)} machines is in a fabric", "see how the fabric is cabled and set up"
        )
    if alone and fabrics:
        yield note(check, f"{many(len(alone), 'machine')} in no fabric: {several(map(foreign, alone))}")


def _nodes(context: ExaminationContext, machines: Sequence[Machine]) -> Iterator[Finding]:
    """Which nodes are machines of the fabric, by the last part of spec.providerID."""
    check, known = "fabric nodes", {one.uuid for one in machines}
    try:
        hosts = context.hosts()
    except DdsError as problem:
        yield failed(check, problem)
        return
    there = [one for one in hosts if known.intersection(machines_of(one))]
    bare = [one.name for one in hosts if not one.machine and one not in there]
    missing = [one for one in hosts if one.machine and one not in there]
    if there:
        yield ok(check, f"{len(there)} of {len(hosts)} nodes are machines of the fabric")
    else:
        mend = (
            "let spec.providerID of each node end in the UUID of its machine, or name the node itself in the inventory"
        )
        yield error(
            check, f"none of {len(hosts)} nodes is a machine of the fabric: nothing is labelled or attached", mend
        )
    twice = [one.name for one in hosts if known.issuperset(machines_of(one)) and one.machine]
    if twice:
        what = f"the inventory has {many(len(twice), 'node')} by uuid and by name: {several(twice)}; the uuid counts"
        yield warning(check, what, "take one of the two entries out")
    if bare:
        mend = (
            "see who sets spec.providerID of new nodes, or with --machine-ids bmh the annotation of their BareMetalHost"
        )
        yield note(check, f"no machine is named by {many(len(bare), 'node')}: {several(bare)}", mend)
    there_by_name = {by_name(one.name) for one in hosts}
    named = {one.uuid for one in machines if one.uuid.startswith(by_name(""))}
    strangers = [uuid.removeprefix(by_name("")) for uuid in named - there_by_name]
    if strangers:
        whose = f"{many(len(strangers), 'node')} that the cluster does not have"
        what = f"the inventory names {whose}: {several(map(foreign, strangers))}"
        yield warning(check, what, "correct the name, or take the entry out")
    label = f"{context.pools_or_usual().prefix}/fabric"
    labelled = [one.name for one in missing if label in one.labels]
    if labelled:
        whose = f"{many(len(labelled), 'node')} with the label {label}"
        what = f"the fabric does not know the machine of {whose}: {several(labelled)}"
        yield warning(check, what, "see whether the machine was replaced, or belongs to another tenant")
    rest = [one.name for one in missing if label not in one.labels]
    if rest:
        yield note(check, f"the fabric does not know the machine of {many(len(rest), 'node')}: {several(rest)}")


# -- free devices and limits -----------------------------------------------------------------------------------------------


def _stocks(manager: Manager, machines: Sequence[Machine], models: Sequence[PoolModel]) -> Iterator[Finding]:
    for model in models:
        free: dict[str, str] = {}
        for name, some in sorted(by_fabric(machines).items()):
            try:
                free[name] = _stock(manager, some, model)
            except DdsError as problem:
                found = failed("fabric stock", problem)
                mend = found.mend or "look the request up in the manager's log"
                yield error("fabric stock", f"{model.model} in fabric {name}: {found.what}", mend)
        if free:
            told = several((f"{count} in fabric {name}" for name, count in free.items()), 10)
            yield ok("fabric stock", f"{model.model}: {told}")
    yield from _unknown_models(manager, models)


def _unknown_models(manager: Manager, models: Sequence[PoolModel]) -> Iterator[Finding]:
    """A model of the inventory that device-info does not know, maybe by a different spelling: no other check reports it."""
    unknown = (manager.counted() or frozenset()) - {model.model for model in models}
    if unknown:
        names = several(map(foreign, unknown))
        what = f"the inventory counts {names}, which device-info does not know: nothing is published of it"
        yield warning("fabric stock", what, "write cdi-model-name in both alike, or describe the model in device-info")


def _stock(manager: Manager, machines: list[Machine], model: PoolModel) -> str:
    """The number of devices, by the first machine that answers. Raises the last machine's DdsError."""
    for position, machine in enumerate(machines[:TRIES], 1):
        try:
            found = manager.stock(machine, model)
        except DdsError:
            if position == len(machines[:TRIES]):
                raise
            continue
        number = found.free if found.devices is None else sum(one.healthy for one in found.devices)
        return f"{number} free or attached" if found.whole else f"{number} free"
    return "none"


def _limits(manager: Manager, machines: Sequence[Machine], models: Sequence[PoolModel]) -> Iterator[Finding]:
    """Asks one machine of each fabric whether this manager has limits, and of which models."""
    check = "fabric limits"
    for name, some in sorted(by_fabric(machines).items()):
        try:
            found = manager.limits(some[0], models)
        except DdsError as problem:
            yield failed(check, problem, "warning", "look the request up in the manager's log")
            continue
        if found is None:
            yield note(check, "this manager tells no limits: labels -size-max and -size-min are left alone")
            return
        yield ok(check, f"fabric {name}: limits of {several(map(foreign, found)) or 'no model'} are told")


# -- the certificate of an endpoint --------------------------------------------------------------------------------------

HANDSHAKE_SECONDS = 10.0
SYSTEM = "the system's roots"
GIVEN = "the certificate that was given"
_EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 10, 62, 64
"""X509_V_ERR_CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH."""


class Untrusted(DdsError):
    """The endpoint has no valid certificate."""


def certificate_of(
    host: str, port: int, context: ssl.SSLContext, *, given: bool, seconds: float = HANDSHAKE_SECONDS
) -> Certificate:
    """The certificate of an endpoint as a client with this TLS `context` sees it. `given`: the context trusts certificates that a
    person gave, not the system's roots.

    Raises Untrusted for every failure.
    """
    where = f"{host}:{port}"
    try:
        with connect(host, port, seconds) as plain:
            plain.settimeout(seconds)
            with context.wrap_socket(plain, server_hostname=host) as secured:
                shown = secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(error, where, given) from None
    except ssl.SSLError:
        fix = "give the port on which https is spoken, TLS 1.2 or newer"
        raise Untrusted("no TLS connection comes about", where=where, fix=fix) from None
    except InputError as error:
        raise Untrusted(error.what, where=error.where, fix=error.fix) from None
    except OSError as error:
        words = "does not answer in time" if isinstance(error, TimeoutError) else f"cannot be reached ({_name(error)})"
        raise Untrusted(words, where=where, fix="check name, port, network and network policy") from None
    ends = ssl.cert_time_to_seconds(str(shown["notAfter"])) * 1_000_000
    return Certificate(int(ends), GIVEN if given else SYSTEM)


def _untrusted(error: ssl.SSLCertVerificationError, where: str, given: bool) -> Untrusted:
    """In OpenSSL's words, which name the fault and the requested host."""
    reason = error.verify_message.rstrip(".") or "it cannot be verified"
    if error.verify_code == _EXPIRED:
        fix = "renew it on the manager"
    elif error.verify_code in (_WRONG_NAME, _WRONG_ADDRESS):
        fix = "give the endpoint by the name that is in the certificate"
    elif given:
        fix = "put the certificate of the authority that signed it into the credentials' file certificate"
    else:
        fix = "put the certificate of its authority into the credentials' file certificate; the system does not know it"
    return Untrusted(f"the certificate is not trusted: {reason}", where=where, fix=fix)


def _name(error: OSError) -> str:
    return "no such name" if isinstance(error, socket.gaierror) else type(error).__name__
