"""Before and after the questions: is the server fit to be asked, are the custom kinds there, and is all taken away again.

Writes only what the questions need, and deletes only what was not there before.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from dds_adapters.lab.conform.questions import Question
from dds_adapters.lab.conform.transport import Ask, CouldNotAsk, Transport
from dds_adapters.lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_WITHIN_S = 15.0
GONE_WITHIN_S = 30.0


@contextmanager
def prepared(transport: Transport, questions: Iterable[Question], tell: Callable[[str], None]) -> Iterator[None]:
    """Make sure that nothing of the questions' objects exists, bring the custom kinds, and clear up at the end.

    Raises CouldNotAsk where an object of the same name is there already: it might be somebody's.
    """
    made = [path for question in questions for path in question.creates]
    _refuse_what_is_there(transport, made)
    installed = _install(transport, tell)
    try:
        yield
    finally:
        with suppress(CouldNotAsk):  # what ended the questions is told, not what came after
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
    """Paths of the definitions that were not there."""
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
    """Delete the newest first, finalizers or not. Gives what is still there."""
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
