"""The lab page's generated parts. Scenario fields are shown as annotated YAML, made from the pydantic models: each field with its
default or the form of its value, and what it means."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from dds_lab import shipped
from dds_lab.conform.questions import table as differences
from dds_lab.conform.recordings import IGNORED
from dds_lab.record.allowed import LABELS, METADATA
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import Cluster
from dds_lab.scenario.parts import Parts
from dds_lab.scenario.scenario import Mix, Step
from dds_lab.scenario.trouble import Faults
from tests.lab.scheduler.test_against_recordings import DIFFERENCES as SCHEDULER
from tests.project.docs.markdown import table

_COMMENTS = 40
"""The column in which comments begin."""
_WIDTH = 128
_USUAL = (0, 100_000)
"""Bounds of a whole number that are not repeated."""


def scenario_fields() -> str:
    """The top of a scenario."""
    schema = Scenario.model_json_schema()
    return _block(line for name, field in schema["properties"].items() for line in _flat(name, field, schema))


def cluster_fields() -> str:
    return _nested("cluster", Cluster, "")


def part_fields() -> str:
    return _nested("parts", Parts, "")


def step_fields() -> str:
    return _nested("steps", Step, "- ")


def mix_fields() -> str:
    return _nested("mix", Mix, "- ")


def fault_fields() -> str:
    return _nested("faults", Faults, "")


def scenarios() -> str:
    """The scenarios that come with the package."""
    return "\n".join(f"- `{name}`: {shipped.find(name).about}" for name in shipped.names())


def scheduler_differences() -> str:
    """What the lab's scheduler does otherwise than the recorded one."""
    return table(("what", "difference"), list(SCHEDULER.items()))


def known_differences() -> str:
    """Where the API server answers otherwise than a real one."""
    return differences()


def left_out_of_runs() -> str:
    """What two runs of one scenario are not compared by."""
    return table(("left out", "why, and what is compared instead"), list(IGNORED.items()))


def recorded_metadata() -> str:
    """What is kept of the metadata of each resource by `dds lab record`."""
    common = [one for one in next(iter(METADATA.values())) if all(one in fields for fields in METADATA.values())]
    rows = [("every resource", _codes(common))]
    for resource, fields in METADATA.items():
        only = LABELS.get(resource)
        named = {"labels": f"of `labels` only {_codes(only)}"} if only else {}
        more = sorted(
            (named.get(one, f"`{one}`") for one in fields if one not in common), key=lambda one: one[0] != "`"
        )
        if more:
            rows.append((f"`{resource}`", ", ".join(more)))
    return table(("resource", "metadata that is kept"), rows)


def _codes(names: Any) -> str:
    return ", ".join(f"`{one}`" for one in names)


# -- annotated YAML

_Line = tuple[str, str]
"""A line of YAML, and its comment."""
_Form = dict[str, Any]


def _nested(name: str, model: type[BaseModel], bullet: str) -> str:
    schema = model.model_json_schema()
    return _block([(f"{name}:", ""), *_mapping(schema, schema, "  ", bullet)])


def _block(lines: Any) -> str:
    return "\n".join(["```yaml", *(line for code, comment in lines for line in _written(code, comment)), "```"])


def _written(code: str, comment: str) -> Iterator[str]:
    """The line with its comment beside it, folded below itself where it is long."""
    if not comment:
        yield code
        return
    column = max(_COMMENTS, len(code) + 2)
    first, *more = textwrap.wrap(comment, _WIDTH - column - 2, break_on_hyphens=False)
    yield f"{code:<{column}}# {first}"
    yield from (f"{'':<{column}}# {line}" for line in more)


def _mapping(form: _Form, schema: _Form, indent: str, bullet: str) -> Iterator[_Line]:
    """The fields of a form; `bullet` stands before the first one of an item of a list."""
    required = form.get("required", ())
    for name, field in form["properties"].items():
        comment = _comment(name, field, name in required, schema)
        before = f"{indent}{bullet}{name}:"
        bullet = " " * len(bullet)
        deeper = f"{indent}{bullet}  "
        match _inner(field, schema):
            case None:
                yield f"{before} {_value(field)}", comment
            case ("", inner):
                yield before, comment
                yield from _mapping(inner, schema, deeper, "")
            case ("- ", inner):
                yield before, comment
                yield from _mapping(inner, schema, deeper, "- ")
            case (_, inner):
                yield before, comment
                yield f"{deeper}<text>:", ""
                yield from _mapping(inner, schema, f"{deeper}  ", "")


def _flat(name: str, field: _Form, schema: _Form) -> Iterator[_Line]:
    """A field without what is in it, which has a part of the page of its own."""
    inner = _inner(field, schema)
    value = _value(field) if inner is None else "[]" if inner[0] else "{}"
    yield f"{name}: {value}", _comment(name, field, False, schema)


def _inner(field: _Form, schema: _Form) -> tuple[str, _Form] | None:
    """The form within a field, and how it is within: itself, as the items of a list or as the values of a table."""
    choices = _choices(field)
    if len(choices) > 1:
        return None
    (one,) = choices
    for kind, place in (("", one), ("- ", one.get("items")), ("table", one.get("additionalProperties"))):
        if isinstance(place, dict) and "$ref" in place:
            name = place["$ref"].rpartition("/")[2]
            return None if name == "Delay" else (kind, schema["$defs"][name])
    return None


def _choices(field: _Form) -> list[_Form]:
    return [one for one in field.get("anyOf", ()) if one.get("type") != "null"] or [field]


def _comment(name: str, field: _Form, required: bool, schema: _Form) -> str:
    """`required`, choices and bounds, then the field's own words; pydantic leaves them out where its form says the very same."""
    one = _choices(field)[0]
    said = field.get("description") or schema["$defs"][one["$ref"].rpartition("/")[2]]["description"]
    choices = one.get("enum") or one.get("items", {}).get("enum", ())
    explained = all(f"`{choice}`:" in said for choice in choices)
    parts = [
        "required" if required else "",
        "" if explained else ", ".join(str(choice) for choice in choices),
        _bounds(one) or _bounds(one.get("items", {})) or _bounds(one.get("additionalProperties", {})),
        "delay" if one.get("$ref", "").endswith("/Delay") and "{" not in _value(field) else "",
    ]
    told = "" if _obvious(name, said) else said.replace("`", "")
    return " ".join([*(f"{part}." for part in parts if part), told]).strip()


def _obvious(name: str, said: str) -> bool:
    """Whether a description says no more than the field's name."""
    return said.lower().removeprefix("the ").rstrip(".") == name


def _bounds(one: Any) -> str:
    if not isinstance(one, dict) or one.get("type") not in ("integer", "number"):
        return ""
    low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum")
    unlimited = high is None or high > 10**12
    return "" if (low, high) == _USUAL or unlimited else f"{low:,} to {high:,}"


def _value(field: _Form) -> str:
    """The default, or the form of what may stand there."""
    default = field.get("default")
    if isinstance(default, list) and default:
        return json.dumps(default)
    if default is None or default in ([], {}):
        return _placeholder(field)
    if isinstance(default, dict):
        return _delay(default)
    if field.get("format", "").startswith("duration"):
        return _duration(default)
    if field.get("format") == "instant":
        return "2026-11-21T00:00:00Z"
    plain = isinstance(default, str) and yaml.safe_load(default) == default
    return str(default) if plain else json.dumps(default)


def _placeholder(field: _Form) -> str:
    choices = _choices(field)
    if len(choices) > 1:
        return "<node>" if any("$ref" in one for one in choices) else "<value>"
    (one,) = choices
    if "$ref" in one:
        return "<delay>"
    match one.get("type"):
        case "array":
            return f"[{_placeholder(one.get('items', {}))}]"
        case "object":
            inside = one.get("additionalProperties")
            return f"{{<text>: {_placeholder(inside)}}}" if isinstance(inside, dict) else "<manifest>"
        case "integer" | "number":
            return "<number>"
        case "boolean":
            return "<boolean>"
        case _:
            return f"<{one.get('format', 'text')}>"


def _delay(value: dict[str, Any]) -> str:
    if value["between"] is not None:
        return f"{{between: [{', '.join(_duration(one) for one in value['between'])}]}}"
    return _duration(value["fixed"] or 0)


def _duration(seconds: Any) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"
