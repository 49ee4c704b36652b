"""Reads the recorded questions and answers from the packed data, and has the list of known differences."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from dds_lab.conform.comparing import Difference
from dds_lab.conform.transport import Answer, Ask

RECORDED_NAMESPACE = "conf"


@dataclass(frozen=True)
class Question:
    """One line of the data. `watches`: the answer is a stream; `during` are requests to send while it is open."""

    id: str
    ask: Ask
    answer: Answer
    note: str = ""
    watches: bool = False
    during: tuple[Ask, ...] = ()
    creates: tuple[str, ...] = field(default=())
    """Paths of the objects that the question creates (without generated names)."""


def questions(namespace: str = RECORDED_NAMESPACE) -> list[Question]:
    """All questions for a running server, in order; each may depend on earlier ones."""
    return [*_read("answers.jsonl.gz", namespace), *_read("answers-pods.jsonl.gz", namespace)]


def questions_after_restart(namespace: str = RECORDED_NAMESPACE) -> list[Question]:
    """Questions to ask after `questions` and a restart of the server, which loses its history of changes."""
    return list(_read("answers-after-restart.jsonl.gz", namespace))


def questions_of_exchange(namespace: str = RECORDED_NAMESPACE) -> list[Question]:
    """Questions about the exchange of a claim's devices and about holds, for an empty server. They were recorded without a claim
    controller."""
    return list(_read("answers-exchange.jsonl.gz", namespace))


def _read(name: str, namespace: str) -> Iterator[Question]:
    packed = files(__package__).joinpath("data", name).read_bytes()
    for line in gzip.decompress(packed).decode().splitlines():
        yield _question(_moved(json.loads(line), namespace))


def _moved(value: Any, namespace: str) -> Any:
    if namespace == RECORDED_NAMESPACE:
        return value
    if isinstance(value, dict):
        return {key: _moved(each, namespace) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, namespace) for each in value]
    if value == RECORDED_NAMESPACE:
        return namespace
    if isinstance(value, str):
        return value.replace(f"/namespaces/{RECORDED_NAMESPACE}", f"/namespaces/{namespace}")
    return value


def _question(line: dict[str, Any]) -> Question:
    method = line["method"]
    watches = method in ("WATCH", "LIVE")
    ask = Ask(
        "GET" if watches else method,
        line["path"],
        line.get("params") or {},
        line.get("type") or "",
        line.get("body"),
        line["as"],
    )
    during = tuple(Ask(verb, path, {}, kind, body, line["as"]) for verb, path, kind, body in line.get("during", ()))
    recorded = line["answer"]
    answer = Answer(
        recorded["code"],
        recorded.get("body"),
        recorded.get("warning", ""),
        recorded.get("events"),
        recorded.get("closed_after_s"),
    )
    return Question(line["id"], ask, answer, line.get("note") or "", watches, during, _created(ask, answer))


def _created(ask: Ask, answer: Answer) -> tuple[str, ...]:
    made = answer.body
    if answer.code != 201 or "dryRun" in ask.params or not isinstance(made, dict) or "uid" not in made["metadata"]:
        return ()
    if ask.method != "POST":
        return (ask.path,)
    return () if "generateName" in made["metadata"] else (f"{ask.path}/{made['metadata']['name']}",)


# -- known differences between the lab's API server and a real one: mostly kinds that it does not serve, and words of messages
#
# A difference that is not listed here fails the test, and so does an entry that no longer applies.


@dataclass(frozen=True)
class Known:
    """A known difference; `places` are paths as in `Difference.path`. An `optional` one depends on how the server was started and
    need not show."""

    question: str
    places: tuple[str, ...]
    reason: str
    optional: bool = False


NOT_SERVED = (
    "apiregistration.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "storage.k8s.io",
    "scheduling.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)

KNOWN: tuple[Known, ...] = (
    Known(
        "api-groups",
        tuple(f"body.groups[{group}]" for group in NOT_SERVED),
        "groups that are not served: attaching a device needs none of their kinds",
    ),
    Known(
        "api-groups",
        ("body.groups[resource.k8s.io].versions[1]", "body.groups[resource.k8s.io].versions[2]"),
        "optional versions of resource.k8s.io, served with `taint_rules`",
        optional=True,
    ),
    Known(
        "version",
        tuple(f"body.{each}" for each in ("minor", "emulationMinor", "minCompatibilityMinor", "gitVersion")),
        "the server's release, if it is not 1.36.2",
        optional=True,
    ),
    Known(
        "resource-v1",
        ("body.resources[devicetaintrules]", "body.resources[devicetaintrules/status]"),
        "1.37 serves DeviceTaintRules in v1",
        optional=True,
    ),
)

_STRUCT = "a real server prints the value as a Go struct, the lab as the JSON that was sent"
_PARSER = "the words of Go's JSON parser"

REWORDED: Mapping[str, str] = {
    "bad-json": _PARSER,
    "change-in-one": _STRUCT,
    "change-timestamp": _STRUCT,
    "drop-conditions": _STRUCT,
    "put-spec": _STRUCT,
    "status-allocation-immutable": _STRUCT,
    "list-bad-continue": _PARSER,
}
"""Questions whose message has other words (apart from versions, uids and numbers); code, reason and fields are the same."""


def known(difference: Difference) -> Known | None:
    """The entry that explains a difference; None if there is none."""
    for entry in KNOWN:
        if entry.question == difference.question and difference.path in entry.places:
            return entry
    return None


def table() -> str:
    """The known differences as a Markdown table: one line for each entry, and one for each reason in `REWORDED`."""
    lines = ["| question | where | why |", "|---|---|---|"]
    for entry in KNOWN:
        lines.append(f"| {entry.question} | {', '.join(f'`{place}`' for place in entry.places)} | {entry.reason} |")
    for why in dict.fromkeys(REWORDED.values()):
        questions = ", ".join(question for question, reason in REWORDED.items() if reason == why)
        lines.append(f"| {questions} | `message` | {why} |")
    return "\n".join(lines)
