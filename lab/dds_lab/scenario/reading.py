"""Reads a scenario from a file, checks it, and writes a scenario's text. All errors of a scenario come in one line that names
file, line, column and field.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

import msgspec
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dds_core.errors import InputError
from dds_lab.scenario.checks import Problem, classes_of, problems
from dds_lab.scenario.lines import Document, Path, read, shown
from dds_lab.scenario.scenario import Scenario
from dds_lab.scenario.workload import read_workload

_TOLD = 5
_WORDS = {
    "string_type": "must be text (put it in quotes)",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "model_type": "must have fields of its own",
    "model_attributes_type": "must have fields of its own",
    "dict_type": "must be a table of names and values",
    "tuple_type": "must be a list",
}


class ScenarioError(InputError):
    """A scenario has errors."""


def read_scenario(path: str | FilePath) -> Scenario:
    """The scenario in a file. Without a name of its own it gets the file's.

    Raises ScenarioError with its first five errors, each with line, column and field; WorkloadError for the file of its pods.
    """
    try:
        text = FilePath(path).read_text(encoding="utf-8")
    except OSError as error:
        fix = "give the path of a scenario, or the name of one that 'dds lab scenarios' lists"
        raise ScenarioError(error.strerror or str(error), where=str(path), fix=fix) from None
    except UnicodeDecodeError:
        raise ScenarioError("is not UTF-8 text", where=str(path), fix="write it as YAML") from None
    name = FilePath(path).name.removesuffix(".yaml").removesuffix(".yml").lower()
    return _with_workload(parse(text, str(path), name), FilePath(path).parent)


def _with_workload(scenario: Scenario, folder: FilePath) -> Scenario:
    """Read the file of pods once, as a check, and make its path absolute."""
    if scenario.workload is None:
        return scenario
    path = folder / scenario.workload
    for _ in read_workload(path, classes_of(scenario)):
        pass
    return scenario.model_copy(update={"workload": str(path.resolve())})


def parse(text: str, label: str, name: str = "scenario") -> Scenario:
    """The scenario in a text; `label` is the text's name in messages. Raises ScenarioError and NotYaml."""
    document = read(text, label)
    if not isinstance(document.value, dict):
        raise ScenarioError("holds no fields", where=label, fix="begin with `about:` and `cluster:` (docs/lab.md)")
    written: Mapping[str, Any] = document.value if "name" in document.value else {"name": name, **document.value}
    try:
        scenario = Scenario.model_validate_json(msgspec.json.encode(written))
    except ValidationError as error:
        raise _refused(document, _forms(error, written)) from None
    found = list(problems(scenario))
    if found:
        raise _refused(document, found)
    return scenario


def written(scenario: Scenario) -> str:
    """The text of a scenario, without defaults; `parse` reads the same scenario from it."""
    return yaml.safe_dump(scenario.model_dump(mode="json", exclude_defaults=True), sort_keys=False)


def _refused(document: Document, found: list[Problem]) -> ScenarioError:
    """All problems in one line, in the order of the file."""
    ordered = sorted(found, key=lambda one: document.mark(one.path, name=one.name))
    told = [f"{document.where(one.path, name=one.name)}: {_field(one)}{one.what}" for one in ordered[:_TOLD]]
    more = [f"and {len(ordered) - _TOLD} more"] if len(ordered) > _TOLD else []
    return ScenarioError("; ".join([*told, *more]), fix="docs/lab.md tells every field")


def _field(one: Problem) -> str:
    return f"{shown(one.path)}: " if one.path else ""


def _forms(error: ValidationError, written: Any) -> list[Problem]:
    """Pydantic's errors as problems: one for each value, and none for a value if there is one for its parts."""
    found: dict[Path, Problem] = {}
    for one in error.errors(include_url=False):
        problem = _form(one, written)
        if problem.path not in found or one["type"] == "value_error":  # our validators say more
            found[problem.path] = problem
    around = {path[:end] for path in found for end in range(len(path))}
    return [problem for path, problem in found.items() if path not in around]


def _form(one: ErrorDetails, written: Any) -> Problem:
    path = _path(one["loc"], written, missing=one["type"] == "missing")
    if one["type"] == "extra_forbidden":
        known = _fields(path[:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
        hint = f": did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
        return Problem(path, f"is no field here{hint}", name=True)
    if one["type"] == "missing":
        return Problem(path, "is missing")
    what = _WORDS.get(one["type"]) or str(one["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return Problem(path, what[:1].lower() + what[1:], name=one["loc"][-1:] == ("[key]",))


def _path(loc: tuple[str | int, ...], written: Any, *, missing: bool) -> Path:
    """The path in the file: pydantic's location without the names of the alternatives that it tried."""
    path: list[str | int] = []
    for i, part in enumerate(loc):
        if _holds(written, part):
            written = written[part]
        elif not (missing and i == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _holds(written: Any, part: str | int) -> bool:
    if isinstance(written, list):
        return isinstance(part, int) and part < len(written)
    return isinstance(written, dict) and part in written


def _fields(path: Path) -> list[str]:
    """Names of the fields that are allowed at a path."""
    schema = Scenario.model_json_schema()
    forms = [schema]
    for part in path:
        forms = [inside for form in forms for one in _forms_of(form, schema) for inside in _inside(one, part)]
    return [name for form in forms for one in _forms_of(form, schema) for name in one.get("properties", ())]


def _forms_of(form: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All schemas that a value may have: follows references and expands alternatives."""
    if "$ref" in form:
        yield from _forms_of(schema["$defs"][form["$ref"].rpartition("/")[2]], schema)
    elif "anyOf" in form:
        for one in form["anyOf"]:
            yield from _forms_of(one, schema)
    else:
        yield form


def _inside(form: dict[str, Any], part: str | int) -> Iterator[dict[str, Any]]:
    if isinstance(part, int):
        if "items" in form:
            yield form["items"]
    elif part in form.get("properties", {}):
        yield form["properties"][part]
    elif isinstance(form.get("additionalProperties"), dict):
        yield form["additionalProperties"]
