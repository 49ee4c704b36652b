"""The lab page's tables of scenario fields, made from the pydantic models: what is written, in which form, what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from dds_lab import shipped
from dds_lab.conform.questions import table as differences
from dds_lab.record.allowed import LABELS, METADATA
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import Cluster
from dds_lab.scenario.parts import Parts
from dds_lab.scenario.trouble import Faults
from dds_lab.scenario.work import Mix, Step
from tests.lab.scheduler.test_against_recordings import DIFFERENCES as SCHEDULER
from tests.project.docs.markdown import table

_TITLES = ("field", "form", "default", "what it is")


def scenario_fields() -> str:
    """The top of a scenario."""
    return _table(Scenario)


def cluster_fields() -> str:
    return _sections(Cluster)


def part_fields() -> str:
    return _sections(Parts)


def step_fields() -> str:
    return _sections(Step)


def mix_fields() -> str:
    return _sections(Mix)


def fault_fields() -> str:
    return _sections(Faults)


def scenarios() -> str:
    """The scenarios that come with the package."""
    return table(("scenario", "what it shows"), [(f"`{name}`", shipped.find(name).about) for name in shipped.names()])


def scheduler_differences() -> str:
    """What the lab's scheduler does otherwise than the recorded one."""
    return table(("what", "how, and why"), list(SCHEDULER.items()))


def known_differences() -> str:
    """Where the API server answers otherwise than a real one."""
    return differences()


def recorded_metadata() -> str:
    """What is kept of the metadata of each resource by `dds lab record`."""
    rows = []
    for resource, fields in METADATA.items():
        only = LABELS.get(resource)
        labels = f" (of labels only {', '.join(f'`{one}`' for one in only)})" if only else ""
        rows.append((f"`{resource}`", ", ".join(f"`{one}`" for one in fields) + labels))
    return table(("resource", "metadata that is kept"), rows)


def _sections(model: type[BaseModel]) -> str:
    """The model's own table, and one for each form that is used in it."""
    schema = model.model_json_schema()
    parts = [_rows(schema, schema)]
    for name, inner in _inner(schema, schema):
        parts.append(f"**{name}**: {_first(inner.get('description', ''))}\n\n{_rows(inner, schema)}")
    return "\n\n".join(parts)


def _inner(form: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The forms that are used, in the order in which they are met; what is described elsewhere is left out."""
    seen: dict[str, dict[str, Any]] = {}
    waiting = [form]
    while waiting:
        for field in waiting.pop(0).get("properties", {}).values():
            for name in _named(field):
                if name not in seen and name != "Delay":
                    seen[name] = schema["$defs"][name]
                    waiting.append(seen[name])
    yield from seen.items()


def _named(form: dict[str, Any]) -> Iterator[str]:
    if "$ref" in form:
        yield form["$ref"].rpartition("/")[2]
    for one in (*form.get("anyOf", ()), form.get("items"), form.get("additionalProperties")):
        if isinstance(one, dict):
            yield from _named(one)


def _table(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    return _rows(schema, schema)


def _rows(form: dict[str, Any], schema: dict[str, Any]) -> str:
    required = form.get("required", ())
    rows = [
        (f"`{name}`", _form(field), "must be given" if name in required else _default(field), _described(field, schema))
        for name, field in form["properties"].items()
    ]
    return table(_TITLES, rows)


def _described(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """The field's own words; pydantic leaves them out where its form says the very same."""
    words = field.get("description") or schema["$defs"][next(_named(field))]["description"]
    return str(words)


def _form(field: dict[str, Any]) -> str:
    choices = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(_form(one) for one in choices))
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "[delay](#values)" if name == "Delay" else name
    if "enum" in field or "const" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    match field.get("type"):
        case "array":
            return f"list of {_form(field.get('items', {}))}"
        case "object":
            inside = field.get("additionalProperties")
            return f"table of {_form(inside)}" if isinstance(inside, dict) else "manifest"
        case "integer" | "number":
            return _bounds(field)
        case "boolean":
            return "`true`, `false`"
        case _:
            return f"[{field['format']}](#values)" if "format" in field else "text"


def _bounds(field: dict[str, Any]) -> str:
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum")
    if low is None or high is None:
        return "number"
    return f"{low:,} to {high:,}" if high < 10**12 else "whole number"


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if value is None:
        return "–"
    if isinstance(value, dict):
        return _delay(value) if "between" in value else "its own" if value else "none"
    if isinstance(value, list):
        return "none" if not value else f"`{json.dumps(value)}`"
    if field.get("format", "").startswith("duration"):
        return f"`{_duration(value)}`"
    if field.get("format") == "instant":
        return "2026-11-21T00:00:00Z"
    return f"`{json.dumps(value)}`"


def _delay(value: dict[str, Any]) -> str:
    if value["between"] is not None:
        return f"`{{between: [{', '.join(_duration(one) for one in value['between'])}]}}`"
    return f"`{_duration(value['fixed'] or 0)}`"


def _duration(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"


def _first(text: str) -> str:
    return " ".join(text.split())
