"""Checks of the autoscaler's side: its groups, compared with the machines and the pools' labels; and Cluster Autoscaler's flags,
read from its Pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import msgspec

from dds_adapters.kubernetes.cluster import Refused
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, several, warning
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.kit.policy import MICROSECONDS
from dds_core.scaler.policy import Policy

# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machines:
    """Where servers come from. `here`: they are Machines of this cluster."""

    kind: str
    groups: frozenset[str]
    here: bool = False


def machines(policy: AutoscalePolicy | None, found: Machines | None) -> Iterator[Finding]:
    """Whether the provider has exactly the policy's groups; None for one that could not be read."""
    check = "machines"
    if found is None:
        return
    yield ok(check, f"{found.kind}: {several(found.groups) or 'no group'}")
    if policy is None:
        return
    wanted = {one.name for one in policy.groups}
    for name in sorted(wanted - found.groups):
        what = f"the policy's group {name} has no servers in {found.kind}: none can be ordered"
        yield error(check, what, f"add {name} to the machines, or take it out of the policy")
    for name in sorted(found.groups - wanted):
        what = f"the policy has no group {name}: Cluster Autoscaler never sees these servers"
        yield warning(check, what, f"add {name} to the policy's groups, or take it out of the machines")


def templates(context: ExaminationContext) -> Iterator[Finding]:
    """Whether the scheduler would find devices of the pools for a new server: it needs the labels of the pools."""
    check, config = "server templates", context.config_or_usual()
    policy = context.autoscaling
    if policy is None or not config.models:
        return
    fabric = f"{config.prefix}/fabric"
    pools = {f"{config.prefix}/{model.device}" for model in config.models}
    for group in policy.groups:
        labels = group.template.labels
        lacking = sorted(one for one in pools if labels.get(one) != "true")
        where = f"groups.{group.name}.template.labels"
        if fabric not in labels or len(lacking) == len(pools):
            lost = fabric if fabric not in labels else several(lacking)
            what = f"{where} lacks {lost}: no server is added for a pod that needs a device of a pool"
            yield warning(check, what, "add the labels of the fabric and of the pools that a fresh server has")
        elif lacking:
            what = f"{where} lacks {several(lacking)}: no server is added for such a device"
            yield note(check, what, 'add them with the value "true", if a fresh server can take these devices')
        else:
            yield ok(check, f"{group.name}: {many(len(pools), 'pool label')}")


# -- Cluster Autoscaler ------------------------------------------------------------------------------------------------

_CHECK = "cluster autoscaler"
_PROGRAM = "cluster-autoscaler"
_IMAGE = re.compile(_PROGRAM + r"(-(amd64|arm64|s390x))?")
_FALSE = ("false", "f", "0")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")
_PROVISION, _UNNEEDED = 900.0, 600.0
"""Defaults of --max-node-provision-time and --scale-down-unneeded-time, in seconds."""
_FRESH = 60.0
"""Seconds for which Cluster Autoscaler may cache a template without harm."""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct):
    containers: list[_Container] = []


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_pod = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True)
class Running:
    """A Cluster Autoscaler: its Pod, and its flags by name."""

    where: str
    flags: Mapping[str, str]

    def seconds(self, flag: str, usual: float) -> float | None:
        """A flag's duration as Go writes it; None if it is no duration."""
        text = self.flags.get(flag)
        if text is None:
            return usual
        parts = _DURATION.findall(text)
        whole = "".join(number + unit for number, unit in parts) == text
        return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts and whole else None


def cluster_autoscaler(context: ExaminationContext) -> Iterator[Finding]:
    """The flags of each Cluster Autoscaler."""
    policy = context.autoscaling or AutoscalePolicy()
    try:
        found = {tuple(sorted(one.flags.items())): one for one in _running(context.objects("pods"))}.values()
    except Refused as refused:
        yield note(_CHECK, f"its flags were not looked at: pods of all namespaces may not be listed ({refused.code})")
        return
    asking = [one for one in found if one.flags.get("cloud-provider") == "externalgrpc"]
    for one in asking:
        yield from _flags(one, policy, context.scaler)
    if not asking:
        yield _nobody_asks([one.where for one in found], policy)


def _nobody_asks(others: list[str], policy: AutoscalePolicy) -> Finding:
    if others:
        what = f"{several(others)} runs without --cloud-provider=externalgrpc: it does not ask dds"
    else:
        what = "no Pod runs Cluster Autoscaler: nobody asks for servers"
    mend = "start one with --cloud-provider=externalgrpc and --cloud-config"
    return (note if policy.mode == "observe" or not others else error)(_CHECK, what, mend)


def _running(pods: Iterable[bytes]) -> Iterator[Running]:
    for raw in pods:
        try:
            pod = _pod.decode(raw)
        except ValueError:
            continue
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        for container in pod.spec.containers:
            words = [part for word in (*(container.command or ()), *(container.args or ())) for part in word.split()]
            image = re.split("[:@]", container.image.rpartition("/")[2])[0]
            flags = _flags_of(words)
            named = "cloud-provider" in flags and any(word.rpartition("/")[2] == _PROGRAM for word in words)
            if named or _IMAGE.fullmatch(image):
                yield Running(f"Pod {foreign(f'{pod.metadata.namespace}/{pod.metadata.name}')}", flags)


def _flags_of(words: list[str]) -> dict[str, str]:
    """Flags by name, as Go reads them: the value follows = or is the next word; without a value it is true."""
    flags = dict[str, str]()
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if word.startswith("-"):
            name, given, value = word.lstrip("-").partition("=")
            flags[name] = value if given else "true" if after.startswith("-") else after
    return flags


def _flags(one: Running, policy: AutoscalePolicy, scaler: Policy | None) -> Iterator[Finding]:
    yield ok(_CHECK, f"{one.where} asks a provider by gRPC")
    if not one.flags.get("cloud-config"):
        what = f"{one.where} has no --cloud-config: it does not know where dds is"
        yield error(_CHECK, what, "give it a file with address, cert, key and cacert")
    dynamic = one.flags.get("enable-dynamic-resource-allocation")
    if dynamic is not None and dynamic.lower() in _FALSE:
        what = f"{one.where} has --enable-dynamic-resource-allocation=false: it does not look at claims"
        yield error(_CHECK, what, "switch it on")
    elif dynamic is None:
        what = f"{one.where} does not say --enable-dynamic-resource-allocation, which is off in older releases"
        yield note(_CHECK, what, "switch it on, unless its release has it on by default")
    yield from _times(one, policy, scaler)


class _Bound(NamedTuple):
    """Bounds of a duration in seconds; `usual` is the flag's default."""

    flag: str
    usual: float
    what: str
    mend: str
    least: float = 0.0
    most: float = inf


def _bounds(policy: AutoscalePolicy, scaler: Policy | None) -> Iterator[_Bound]:
    what = "what it knows of a group's servers is that of its last node, with its devices"
    yield _Bound("node-info-cache-expire-time", inf, what, "set it to 1s", most=_FRESH)
    compose = policy.compose_seconds
    what = f"it gives a server up before compose_seconds ({compose} s) is over"
    yield _Bound("max-node-provision-time", _PROVISION, what, "raise it, or lower compose_seconds", least=compose)
    if scaler is not None and scaler.mode == "detach":
        idle = scaler.longest_idle // MICROSECONDS
        what = f"it judges a node before idle devices have gone back ({idle} s)"
        yield _Bound("scale-down-unneeded-time", _UNNEEDED, what, f"raise it above {idle} s", least=idle + 1)


def _times(one: Running, policy: AutoscalePolicy, scaler: Policy | None) -> Iterator[Finding]:
    for bound in _bounds(policy, scaler):
        seconds = one.seconds(bound.flag, bound.usual)
        said = f"--{bound.flag}={foreign(one.flags[bound.flag])}" if bound.flag in one.flags else f"no --{bound.flag}"
        if seconds is None:
            yield warning(_CHECK, f"{one.where} has {said}, which is no duration", "write it as 1s or 15m")
        elif not bound.least <= seconds <= bound.most:
            yield warning(_CHECK, f"{one.where} has {said}: {bound.what}", bound.mend)
