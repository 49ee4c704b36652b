"""The policy page's tables, made from the pydantic models of `dds_core.scaler.policy`: default, bounds, unit, description."""

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
    return table(("knob", "default", "takes", "what it does"), rows)


def _row(name: str, field: dict[str, Any], schema: dict[str, Any]) -> tuple[str, ...]:
    return f"`{name}`", _default(field), _takes(name, field, _form(field), schema), field["description"]


def _form(field: dict[str, Any]) -> dict[str, Any]:
    """The part of the schema that says what a value looks like; of an optional one the part that is not null."""
    choices = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    return choices[0] if choices else field


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if isinstance(value, dict):
        return "its own" if value else "none"
    return "none" if value is None else f"`{json.dumps(value)}`"


def _takes(name: str, field: dict[str, Any], form: dict[str, Any], schema: dict[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    match form.get("type"):
        case "integer" | "number":
            return f"{_bounds(form)}{_unit(name, field)}"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"list of {_named(form['items'], schema)}"
        case "object":
            return f"table of {_named(form['additionalProperties'], schema)}"
        case "string":
            return "name, not empty" if "minLength" in form else "name"
        case _:
            return _named(form, schema)


def _unit(name: str, field: dict[str, Any]) -> str:
    unit = "seconds" if name.endswith("_seconds") else field["unit"]
    return "" if unit == "any" else f" {unit}"


def _bounds(form: dict[str, Any]) -> str:
    if "exclusiveMinimum" in form:
        return f"above {form['exclusiveMinimum']:g}, up to {form['maximum']:g}"
    return f"{form['minimum']} to {form['maximum']}"


def _named(form: dict[str, Any], schema: dict[str, Any]) -> str:
    """The section that is meant, or a name."""
    section = schema.get("$defs", {}).get(form.get("$ref", "").rpartition("/")[2])
    return f"`{section['title']}`" if section else "names"
