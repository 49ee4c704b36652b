"""The questions, in their order, with what a real API server answered. Reads the packed data and decides nothing."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from dds_adapters.lab.conform.transport import Answer, Ask

RECORDED_NAMESPACE = "conf"


@dataclass(frozen=True)
class Question:
    """One line of the data. `watches` says that the answer is a stream; `during` is asked while it is open."""

    id: str
    ask: Ask
    answer: Answer
    note: str = ""
    watches: bool = False
    during: tuple[Ask, ...] = ()
    creates: tuple[str, ...] = field(default=())
    """Paths of the objects that are there afterwards and were not before (generated names are not known)."""


def questions(namespace: str = RECORDED_NAMESPACE) -> list[Question]:
    """All questions to a server that is up, asked in this order; each may rest on what came before."""
    return list(_read("answers.jsonl.gz", namespace))


def questions_after_restart(namespace: str = RECORDED_NAMESPACE) -> list[Question]:
    """Those to ask after `questions`, when the server was started anew and has lost its history."""
    return list(_read("answers-after-restart.jsonl.gz", namespace))


def _read(name: str, namespace: str) -> Iterator[Question]:
    packed = files(__package__).joinpath("data", name).read_bytes()
    for line in gzip.decompress(packed).decode().splitlines():
        yield _question(_moved(json.loads(line), namespace))


def _moved(value: Any, namespace: str) -> Any:
    """The same in another namespace."""
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
