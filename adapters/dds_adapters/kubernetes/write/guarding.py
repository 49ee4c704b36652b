"""Asks the API server at each start whether devices can be guarded, as an exchange needs it. Writes nothing.

It checks that the guard's policy and the objects it needs are installed, and that the policy exempts this user. Whether a guard
really takes effect is checked by a probe at each guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct, field

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.cluster import Answer, Asking, path_of
from dds_adapters.kubernetes.write.conditions import CLAIMS
from dds_adapters.kubernetes.write.exchange import MAPS
from dds_adapters.kubernetes.write.live_object import LiveWrite, Server
from dds_adapters.kubernetes.write.tasks import Done, Later, Result, Task, Versions
from dds_core.text import scrub

AUTHENTICATION = "authentication.k8s.io/v1"
CLAIM_VERSION = "resource.k8s.io/v1"
"""Served by every release whose scheduler looks at the claim again. The followed version may not be known yet."""
INSTALL = "install it as the manifests of dds have it"


class Guarding(NamedTuple):
    """The API server's release as "1.36.2" ("" if unknown), and the namespace of the guards, or in one sentence why devices
    cannot be guarded; `unanswered` while that is not known."""

    version: str
    guards: str
    unguarded: str
    unanswered: bool = False


OnAnswer = Callable[[Guarding], None]


@dataclass(frozen=True, slots=True)
class AskGuarding(LiveWrite):
    """`namespace` is that of dds. `on_answer` gets the answer, on any thread; while the server is failing, it gets "not known
    yet", and no device can be guarded. `answers` are those of earlier tries, by path."""

    namespace: str
    on_answer: OnAnswer
    answers: dict[str, Answer] = dataclass_field(default_factory=dict, compare=False)

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        result = LiveWrite.carry_out(self, api, versions)
        if isinstance(result, Later):
            self.on_answer(Guarding("", "", "the API server has not answered yet whether they can", unanswered=True))
        return result

    def _once(self, server: Server) -> Result:
        def ask(path: str, body: Mapping[str, object] | None = None) -> Answer:
            if path not in self.answers:
                self.answers[path] = server.question(path, body)
            return self.answers[path]

        version = _release(ask("/version"))
        why = _against(ask, self.namespace)
        self.answers.clear()
        self.on_answer(Guarding(version, "" if why else self.namespace, why))
        return Done(written=False)


class Ask(Protocol):
    """A query to the API server: GET, or with a body POST."""

    def __call__(self, path: str, body: Mapping[str, object] | None = None) -> Answer: ...


def ask_guarding(namespace: str, on_answer: OnAnswer) -> Task:
    """The task that asks until there is an answer; only one at a time."""
    thing = f"{MAPS}/{guard.CONFIG_MAP}"
    return Task(AskGuarding(namespace, on_answer), (thing,), replaces=f"ask/{thing}", needs="observe", lasting=True)


class _Release(Struct):
    major: str = ""
    minor: str = ""
    git_version: str = field(default="", name="gitVersion")


class _Condition(Struct):
    expression: str = ""


class _Reference(Struct):
    name: str = ""
    namespace: str = ""


class _Spec(Struct, rename="camel"):
    """Those fields of a policy, a binding and a claim that are read."""

    match_conditions: list[_Condition] | None = None
    policy_name: str = ""
    param_ref: _Reference | None = None
    validation_actions: list[str] | None = None


class _User(Struct):
    username: str = ""


class _Status(Struct, rename="camel"):
    user_info: _User = field(default_factory=_User)
    allocation: object = None


class _Object(Struct):
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


_release_of = msgspec.json.Decoder(_Release)
_object = msgspec.json.Decoder(_Object)


def _release(answer: Answer) -> str:
    """The release for `Guarding`, without its patch number if the server does not tell it. Some hosted servers write the minor
    number as "36+"."""
    try:
        release = _release_of.decode(answer.body)
    except ValueError:
        return ""
    if told := re.match(r"v(1\.\d{1,4}\.\d{1,4})\b", release.git_version):
        return told[1]
    digits = re.match(r"\d{1,4}", release.minor)
    return f"1.{digits[0]}" if release.major == "1" and digits else ""


class _Lacking(Exception):
    """What keeps devices from being guarded."""


def _against(ask: Ask, namespace: str) -> str:
    """What is missing or wrong, "" if nothing is."""
    try:
        policy = _there(ask, "validatingadmissionpolicies", guard.ADMISSION, guard.NAME)
        _bound(_there(ask, "validatingadmissionpolicybindings", guard.ADMISSION, guard.NAME).spec, namespace)
        _there(ask, MAPS, "v1", guard.CONFIG_MAP, namespace)
        probe = _there(ask, CLAIMS, CLAIM_VERSION, guard.PROBE, namespace)
        if probe.status.allocation is not None:
            raise _Lacking(f"{CLAIMS} {namespace}/{guard.PROBE} is allocated, and can probe nothing")
        _lets(policy.spec, _who(ask))
    except _Lacking as lacking:
        return str(lacking)
    return ""


def _there(ask: Ask, resource: str, version: str, name: str, namespace: str = "") -> _Object:
    what = f"{resource} {namespace}/{name}" if namespace else f"{resource} {name}"
    return _read(what, ask(path_of(resource, version, namespace, name)))


def _read(what: str, answer: Answer) -> _Object:
    if answer.code == 404:
        raise _Lacking(f"{what} is not there: {INSTALL}")
    if answer.code == 403:
        raise _Lacking(f"{what} may not be read: give this user the role of dds")
    if answer.code >= 300:
        raise _Lacking(f"{what} cannot be read: the API server answers {answer.code}")
    try:
        return _object.decode(answer.body)
    except ValueError:
        raise _Lacking(f"{what} is not as expected: {INSTALL}") from None


def _bound(binding: _Spec, namespace: str) -> None:
    wanted = _Reference(guard.CONFIG_MAP, namespace)
    denies = "Deny" in (binding.validation_actions or ())
    if not (binding.policy_name == guard.NAME and binding.param_ref == wanted and denies):
        what = f"binding {guard.NAME} does not deny by policy {guard.NAME} what {MAPS} {namespace}/{guard.CONFIG_MAP} holds"
        raise _Lacking(f"{what}: {INSTALL}")


def _who(ask: Ask) -> str:
    body: Mapping[str, object] = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    answer = ask(path_of("selfsubjectreviews", AUTHENTICATION), body)
    return _read("selfsubjectreviews", answer).status.user_info.username


def _lets(policy: _Spec, user: str) -> None:
    """A policy that exempts another user would refuse the guarded devices to dds too."""
    lets = guard.exempt(one.expression for one in policy.match_conditions or ())
    if lets != user:
        whom = scrub(lets) or "nobody"
        raise _Lacking(f"policy {guard.NAME} lets {whom} give guarded devices, and we are {scrub(user) or 'unknown'}")
