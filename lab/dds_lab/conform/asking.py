"""Asks the questions one after the other and reports the differences."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dds_lab.conform.comparing import Difference, Side, differences, timing, wording
from dds_lab.conform.questions import KNOWN, Known, Question, known
from dds_lab.conform.transport import Answer, Ask, CouldNotAsk, Transport
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES

# -- before and after: only what the questions need is written, and only what was not there before is deleted

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_WITHIN_S = 15.0
GONE_WITHIN_S = 30.0


@contextmanager
def prepared(transport: Transport, questions: Iterable[Question], tell: Callable[[str], None]) -> Iterator[None]:
    """Check that none of the questions' objects exists, install the custom resource definitions, and remove everything at the
    end.

    Raises CouldNotAsk if an object of the same name exists: it may belong to a user.
    """
    made = [path for question in questions for path in question.creates]
    _refuse_what_is_there(transport, made)
    installed = _install(transport, tell)
    try:
        yield
    finally:
        with suppress(CouldNotAsk):  # report the first error, not a later one
            left = _removed(transport, [*made, *installed])
            for path in left:
                tell(f"could not be removed: {path}")


def _refuse_what_is_there(transport: Transport, paths: Iterable[str]) -> None:
    for path in paths:
        answer = transport.ask(Ask("GET", path))
        if answer.code == 200:
            fix = "use an empty cluster, or --namespace for what lives in one"
            raise CouldNotAsk("exists already, and the questions would change it", where=path, fix=fix)
        if answer.code in (401, 403):
            why = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
            raise CouldNotAsk(f"may not be read ({why})", where=path, fix="ask with an administrator's context")


def _install(transport: Transport, tell: Callable[[str], None]) -> list[str]:
    """Install the missing definitions; returns their paths."""
    installed = []
    for definition in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
        name = definition["metadata"]["name"]
        if transport.ask(Ask("GET", f"{DEFINITIONS}/{name}")).code == 200:
            continue
        answer = transport.ask(Ask("POST", DEFINITIONS, {}, "application/json", definition))
        if answer.code != 201:
            raise CouldNotAsk(f"could not be installed: {answer.body}", where=name, fix="install it by hand")
        tell(f"installed the custom resource definition {name}")
        installed.append(f"{DEFINITIONS}/{name}")
    for path in installed:
        _until(partial(_is_established, transport, path), ESTABLISHED_WITHIN_S, f"{path} is not established")
    return installed


def _is_established(transport: Transport, path: str) -> bool:
    body = transport.ask(Ask("GET", path)).body
    conditions = body.get("status", {}).get("conditions") or [] if isinstance(body, dict) else []
    established = any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)
    if not (established and isinstance(body, dict)):
        return False
    served = f"/apis/{body['spec']['group']}/{body['spec']['versions'][0]['name']}/{body['spec']['names']['plural']}"
    return transport.ask(Ask("GET", served)).code == 200


def _removed(transport: Transport, paths: list[str]) -> list[str]:
    """Delete the objects, newest first, and remove their finalizers. Returns the paths of those that still exist."""
    for path in reversed(paths):
        answer = transport.ask(Ask("DELETE", path, {}, "application/json", {"gracePeriodSeconds": 0}))
        if answer.code in (200, 202) and _finalizers(answer.body):
            patch = {"metadata": {"finalizers": None}}
            transport.ask(Ask("PATCH", path, {}, "application/merge-patch+json", patch))
    with suppress(CouldNotAsk):
        _until(lambda: not _there(transport, paths), GONE_WITHIN_S, "")
    return _there(transport, paths)


def _finalizers(body: Any) -> Any:
    return isinstance(body, dict) and body.get("metadata", {}).get("finalizers")


def _there(transport: Transport, paths: list[str]) -> list[str]:
    return [path for path in paths if transport.ask(Ask("GET", path)).code == 200]


def _until(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise CouldNotAsk(otherwise)
        time.sleep(0.2)


# -- the questions

PAUSE_S = 0.03
"""Seconds between questions. When the answers were recorded, a claim controller ran, which removes the reservation of a pod that
does not exist; it needs this time."""

_REFERENCE = re.compile(r"\{\{(rv|listrv):([^}]*)\}\}")


@dataclass
class Report:
    """The result. `unknown` are unexpected differences, `explained` those in the list of known differences, `wordings` messages
    with other words, for information."""

    asked: list[str] = field(default_factory=list)
    unknown: list[Difference] = field(default_factory=list)
    explained: list[tuple[Difference, Known]] = field(default_factory=list)
    wordings: list[Difference] = field(default_factory=list)

    @property
    def as_recorded(self) -> bool:
        """Whether all answers are as recorded, apart from known differences."""
        return not self.unknown

    @property
    def outlived(self) -> list[str]:
        """Known differences that did not show although their question was asked."""
        shown = {(difference.question, difference.path) for difference, _ in self.explained}
        return [
            f"{entry.question}: {place}"
            for entry in KNOWN
            for place in entry.places
            if not entry.optional and entry.question in self.asked and (entry.question, place) not in shown
        ]

    def lines(self) -> list[str]:
        told = [f"{len(self.asked)} questions, {len(self.asked) - len(self._other)} answered as recorded"]
        told += [f"differs: {each}" for each in self.unknown]
        told += [f"known: {where}: {reason}" for where, reason in self._told()]
        if self.wordings:
            told.append(f"in other words: {', '.join(dict.fromkeys(each.question for each in self.wordings))}")
        return told

    def _told(self) -> list[tuple[str, str]]:
        """The known differences, one line for each question and reason."""
        places: dict[tuple[str, str], list[str]] = {}
        for each, why in self.explained:
            places.setdefault((each.question, why.reason), []).append(each.path)
        return [(f"{question}: {', '.join(paths)}", reason) for (question, reason), paths in places.items()]

    @property
    def _other(self) -> set[str]:
        return {each.question for each in (*self.unknown, *(known for known, _ in self.explained))}


def run(transport: Transport, questions: Iterable[Question], tell: Callable[[Question], None] | None = None) -> Report:
    """Ask all questions in order; `tell` is called before each. Raises CouldNotAsk if there is no answer."""
    report = Report()
    recorded, found = Side(), Side()
    versions: dict[str, str] = {}
    for question in questions:
        if tell is not None:
            tell(question)
        time.sleep(PAUSE_S)
        answer = _asked(transport, question, versions)
        report.asked.append(question.id)
        _remember(versions, question.ask, answer)
        here = differences(question.id, recorded.plain(question.answer), found.plain(answer))
        here += timing(question.id, question.answer, answer)
        for each in here:
            reason = known(each)
            if reason is None:
                report.unknown.append(each)
            else:
                report.explained.append((each, reason))
        report.wordings += wording(question.id, question.answer, answer)
    return report


def _asked(transport: Transport, question: Question, versions: Mapping[str, str]) -> Answer:
    ask = replace(
        question.ask,
        params=_filled(question.ask.params, transport, versions),
        body=_filled(question.ask.body, transport, versions),
    )
    return transport.watch(ask, question.during) if question.watches else transport.ask(ask)


def _filled(value: Any, transport: Transport, versions: Mapping[str, str]) -> Any:
    """The value with `{{rv:PATH}}` and `{{listrv:PATH}}` replaced by versions."""
    if isinstance(value, Mapping):
        return {key: _filled(each, transport, versions) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, transport, versions) for each in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _version(match[1], match[2], transport, versions), value)
    return value


def _version(which: str, path: str, transport: Transport, versions: Mapping[str, str]) -> str:
    if which == "rv" and path in versions:
        return versions[path]
    body = transport.ask(Ask("GET", path)).body
    version = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
    return str(version)


def _remember(versions: dict[str, str], ask: Ask, answer: Answer) -> None:
    """Store the last seen version of the object, by its path."""
    metadata = answer.body.get("metadata") if isinstance(answer.body, dict) else None
    if isinstance(metadata, dict) and "name" in metadata and "resourceVersion" in metadata:
        path = f"{ask.path}/{metadata['name']}" if ask.method == "POST" else ask.path.removesuffix("/status")
        versions[path] = metadata["resourceVersion"]
