"""A question at each start: whether devices can be guarded here, as an exchange needs it. Nothing is written; the answer goes to
whoever asked.

A guard is an admission policy of the installation with all that belongs to it. That it acts is seen at each guard by its probe;
here it is seen that it is there, and that the user whom it lets is this one.
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
from dds_adapters.kubernetes.write.live_object import Server, Write
from dds_adapters.kubernetes.write.tasks import Done, Later, Result, Task, Versions
from dds_core.text import scrub

AUTHENTICATION = "authentication.k8s.io/v1"
CLAIM_VERSION = "resource.k8s.io/v1"
"""What every release serves in which a scheduler looks anew; in which version claims are followed may not be known yet."""
INSTALL = "install it as the manifests of dds have it"


class Guarding(NamedTuple):
    """The API server's release as "1.36" ("" when it does not tell), and the namespace in which devices can be guarded, or why
    they cannot, in one sentence; `unanswered` while that is not known."""

    version: str
    guards: str
    unguarded: str
    unanswered: bool = False


OnAnswer = Callable[[Guarding], None]


@dataclass(frozen=True, slots=True)
class AskGuarding(Write):
    """`namespace` is that of dds. `on_answer` gets the answer, on any thread. It does not wait for a server in trouble: until the
    server has answered every question, no device can be guarded. `answers` are those of earlier tries, by path."""

    namespace: str
    on_answer: OnAnswer
    answers: dict[str, Answer] = dataclass_field(default_factory=dict, compare=False)

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        result = Write.carry_out(self, api, versions)
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
    """A question to the API server: its answer to a GET, or with a body to a POST."""

    def __call__(self, path: str, body: Mapping[str, object] | None = None) -> Answer: ...


def ask_guarding(namespace: str, on_answer: OnAnswer) -> Task:
    """It is asked until it is answered, and only once at a time."""
    thing = f"{MAPS}/{guard.CONFIG_MAP}"
    return Task(AskGuarding(namespace, on_answer), (thing,), replaces=f"ask/{thing}", needs="observe", lasting=True)


class _Release(Struct):
    major: str = ""
    minor: str = ""


class _Condition(Struct):
    expression: str = ""


class _Reference(Struct):
    name: str = ""
    namespace: str = ""


class _Spec(Struct, rename="camel"):
    """What is read of a policy, a binding and a claim."""

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
    """As `Guarding` has it. Some hosted servers write the minor number as "36+"."""
    try:
        release = _release_of.decode(answer.body)
    except ValueError:
        return ""
    digits = re.match(r"\d{1,4}", release.minor)
    return f"1.{digits[0]}" if release.major == "1" and digits else ""


class _Lacking(Exception):
    """What keeps devices from being guarded."""


def _against(ask: Ask, namespace: str) -> str:
    """What is not as it has to be, "" when nothing is."""
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
    """A policy that lets another would refuse us what nobody else is to get."""
    lets = guard.exempt(one.expression for one in policy.match_conditions or ())
    if lets != user:
        whom = scrub(lets) or "nobody"
        raise _Lacking(f"policy {guard.NAME} lets {whom} give guarded devices, and we are {scrub(user) or 'unknown'}")
