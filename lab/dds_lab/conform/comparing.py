"""Compares two answers to one question.

These may differ: uids, versions, times, generated suffixes, continue tokens, `generation` of built-in kinds, and the words of
messages (reported apart, for information). Their presence is compared all the same. It is also compared whether an object has the
version that was last seen of it: a write that changes nothing must not give a new one.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dds_lab.conform.transport import Answer

MISSING = "(missing)"
CLOSED_WITHIN_S = 1.0
"""Allowed difference between the durations of two watches, in seconds."""
CUSTOM_GROUPS = ("cro.hpsys.ibm.ie.com/",)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NUMBER = re.compile(r"\d+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Difference:
    """A difference at a path of the answer, such as `body.spec.devices`, `events[2].type` or `code`."""

    question: str
    path: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.question}: {self.path}: recorded {_short(self.recorded)}, found {_short(self.found)}"


class Side:
    """State of one of the two servers: the last seen version of each object."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def plain(self, answer: Answer) -> dict[str, Any]:
        """The answer as a tree in which values that may differ are replaced by placeholders."""
        tree: dict[str, Any] = {"code": answer.code, "warning": "given" if answer.warning else "none"}
        if answer.events is not None:
            tree["events"] = [self._of(event, "") for event in answer.events]
        else:
            tree["body"] = self._of(answer.body, "")
        return tree

    def _of(self, value: Any, api_version: str) -> Any:
        if isinstance(value, dict):
            return self._of_object(value, value.get("apiVersion") or api_version)
        if isinstance(value, list):
            return [self._of(each, api_version) for each in value]
        if isinstance(value, str):
            if time := _TIME.fullmatch(value):
                return f"<time{len(time[1] or '')}>"
            return "<uid>" if _UUID.fullmatch(value) else value
        return value

    def _of_object(self, value: dict[str, Any], api_version: Any) -> dict[str, Any]:
        left_out = {"message"} if value.get("kind") == "Status" else set()
        tree: dict[str, Any] = {}
        for key, each in value.items():
            if key == "metadata" and isinstance(each, dict):
                tree[key] = self._metadata(each, str(api_version))
            elif key == "causes" and isinstance(each, list):
                tree[key] = [_without(cause, "message") for cause in each]
            elif key not in left_out:
                tree[key] = self._of(each, str(api_version))
        return tree

    def _metadata(self, metadata: dict[str, Any], api_version: str) -> dict[str, Any]:
        tree = {key: self._of(each, "") for key, each in metadata.items()}
        if "managedFields" in tree:
            tree["managedFields"] = _owners(metadata["managedFields"])
        if "generateName" in tree:
            tree["name"] = f"{tree['generateName']}<generated>"
        if "generation" in tree and not api_version.startswith(CUSTOM_GROUPS):
            del tree["generation"]
        if "continue" in tree:
            tree["continue"] = "<continue>"
        if "resourceVersion" in tree:
            tree["resourceVersion"] = self._version(metadata.get("uid"), metadata["resourceVersion"])
        return tree

    def _version(self, uid: Any, version: Any) -> str:
        if not isinstance(uid, str):
            return "<version>"
        before = self._versions.get(uid)
        self._versions[uid] = version
        return "<version, first seen>" if before is None else "<same version>" if before == version else "<new version>"


def differences(question: str, recorded: dict[str, Any], found: dict[str, Any]) -> list[Difference]:
    """The differences between two trees of `Side.plain`."""
    return [Difference(question, path, a, b) for path, a, b in _differ("", recorded, found)]


def timing(question: str, recorded: Answer, found: Answer) -> list[Difference]:
    """A difference if the watch did not end at about the recorded time."""
    a, b = recorded.closed_after_s, found.closed_after_s
    if a is None or b is None or abs(a - b) <= CLOSED_WITHIN_S:
        return []
    return [Difference(question, "closed_after_s", a, round(b, 2))]


def wording(question: str, recorded: Answer, found: Answer) -> list[Difference]:
    """Messages and warnings whose words differ."""
    pairs = [("warning", recorded.warning, found.warning)]
    pairs += [(path, a, b) for path, a, b in _messages("body", recorded.body, found.body)]
    for at, (a, b) in enumerate(zip(recorded.events or (), found.events or (), strict=False)):
        pairs += _messages(f"events[{at}].object", a.get("object"), b.get("object") if isinstance(b, dict) else None)
    return [Difference(question, path, a, b) for path, a, b in pairs if a and b and _worded(a) != _worded(b)]


def _worded(text: str) -> str:
    """The text without generated uids and versions."""
    return _NUMBER.sub("<number>", _UUID.sub("<uid>", text))


def _messages(path: str, recorded: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    if not (isinstance(recorded, dict) and isinstance(found, dict) and recorded.get("kind") == "Status"):
        return
    yield f"{path}.message", recorded.get("message"), found.get("message")


def _differ(path: str, recorded: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in [*recorded, *(key for key in found if key not in recorded)]:
            below = f"{path}.{key}" if path else str(key)
            yield from _differ(below, recorded.get(key, MISSING), found.get(key, MISSING))
    elif isinstance(recorded, list) and isinstance(found, list):
        yield from _differ_in_list(path, recorded, found)
    elif recorded != found or type(recorded) is not type(found):
        yield path, recorded, found


def _differ_in_list(path: str, recorded: list[Any], found: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    ours, theirs = _named(found), _named(recorded)
    if ours is None or theirs is None:
        for at in range(max(len(recorded), len(found))):
            a = recorded[at] if at < len(recorded) else MISSING
            b = found[at] if at < len(found) else MISSING
            yield from _differ(f"{path}[{at}]", a, b)
        return
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        yield from _differ(f"{path}[{name}]", theirs.get(name, MISSING), ours.get(name, MISSING))
    both = [name for name in theirs if name in ours]
    if both != [name for name in ours if name in theirs]:
        yield f"{path} (order)", both, [name for name in ours if name in theirs]


def _named(items: list[Any]) -> dict[str, Any] | None:
    """The items by name, if all have different names: a missing item is then one difference and does not shift the others."""
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return None
    named = {item["name"]: item for item in items}
    return named if len(named) == len(items) else None


def _owners(entries: Any) -> Any:
    """Managed fields without times, sorted: a real server sorts them by time."""
    if not isinstance(entries, list):
        return entries
    return sorted((_without(entry, "time") for entry in entries), key=lambda entry: json.dumps(entry, sort_keys=True))


def _without(value: Any, key: str) -> Any:
    return {name: each for name, each in value.items() if name != key} if isinstance(value, dict) else value


def _short(value: Any) -> str:
    text = value if value == MISSING else json.dumps(value)
    return text if len(text) <= 300 else f"{text[:297]}..."
