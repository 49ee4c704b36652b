"""The policy page's tables, made from the pydantic models of `dds_core.scaler.policy`: unit, default, bounds, description."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from dds_core.autoscaler.policy import AutoscalePolicy, ServerGroup, ServerTemplate
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import DriverPolicy, LimitPolicy, Policy, SchedulerPolicy
from tests.project.docs.markdown import table


def policy_table() -> str:
    return _table(Policy)


def scheduler_table() -> str:
    return _table(SchedulerPolicy)


def limit_table() -> str:
    return _table(LimitPolicy)


def driver_table() -> str:
    return _table(DriverPolicy)


def publish_policy_table() -> str:
    return _table(PublishPolicy)


def autoscale_policy_table() -> str:
    return _table(AutoscalePolicy)


def group_table() -> str:
    return _table(ServerGroup)


def template_table() -> str:
    return _table(ServerTemplate)


def _table(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    rows = [_row(name, field, schema) for name, field in schema["properties"].items()]
    return table(("knob", "unit", "default", "bounds", "what it does"), rows)


def _row(name: str, field: dict[str, Any], schema: dict[str, Any]) -> tuple[str, ...]:
    form = _form(field)
    return f"`{name}`", _unit(name, field, form), _default(field), _bounds(form, schema), field["description"]


def _form(field: dict[str, Any]) -> dict[str, Any]:
    """The part of the schema that says what a value looks like; of an optional one the part that is not null."""
    choices = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    return choices[0] if choices else field


def _unit(name: str, field: dict[str, Any], form: dict[str, Any]) -> str:
    if name.endswith("_seconds"):
        return "seconds"
    match form.get("type"):
        case "integer" | "number":
            return str(field["unit"])
        case "boolean":
            return "yes or no"
        case "array":
            return "names"
        case "object":
            return "table of sections"
        case "string":
            return "word" if "enum" in form else "name"
        case _:
            return "section"


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if isinstance(value, dict):
        return "its own defaults" if value else "none"
    return "none" if value is None else f"`{json.dumps(value)}`"


def _bounds(form: dict[str, Any], schema: dict[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    if "minimum" in form and "maximum" in form:
        return f"{form['minimum']} to {form['maximum']}"
    if "exclusiveMinimum" in form:
        return f"above {form['exclusiveMinimum']:g}, up to {form['maximum']:g}"
    if "minLength" in form:
        return "not empty"
    if form.get("type") == "boolean":
        return "`true`, `false`"
    named = form.get("$ref") or form.get("additionalProperties", {}).get("$ref", "")
    section = schema.get("$defs", {}).get(named.rpartition("/")[2])
    return f"a `{section['title']}`" if section else "any"
