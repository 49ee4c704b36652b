"""What differs between two instants of a source: claims and devices that came, went or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dds_commands.rows import claim_data, device_data
from dds_commands.screen import show, show_json, show_jsonl, style
from dds_commands.state import chosen_claims, chosen_devices
from dds_core.errors import InputError
from dds_core.picture import Picture
from dds_core.timeline.clock import rfc3339

_NAMES = {"claim": "claim", "device": "resource"}
_TELLING = {
    "claim": ("state", "node", "cycle", "attempt", "devices", "pods"),
    "device": ("state", "device", "node", "claims"),
}


def show_differences(
    pictures: tuple[Picture, Picture], span: tuple[int, int], chosen: Mapping[str, str | None], form: str
) -> None:
    """Show how the second picture differs from the first; `span` holds their instants."""
    if form == "mermaid":
        raise InputError("differences are no path that could be drawn", fix="use --format table, json or jsonl")
    before, after = (_things(picture, chosen) for picture in pictures)
    found = differences(before, after)
    if form == "json":
        show_json({"from": rfc3339(span[0]), "to": rfc3339(span[1]), "differences": found})
    elif form == "jsonl":
        show_jsonl(found)
    else:
        _show(found)


Thing = dict[str, Any]


def _things(picture: Picture, chosen: Mapping[str, str | None]) -> dict[tuple[str, str], Thing]:
    claims = {("claim", row.uid): claim_data(row) for row in chosen_claims(picture, chosen["claim"], chosen["node"])}
    devices = {
        ("device", row.uid): device_data(row) for row in chosen_devices(picture, chosen["claim"], chosen["node"])
    }
    wanted = chosen["state"]
    return {key: thing for key, thing in {**claims, **devices}.items() if not wanted or thing["state"] == wanted}


def differences(
    before: Mapping[tuple[str, str], Thing], after: Mapping[tuple[str, str], Thing]
) -> list[dict[str, Any]]:
    """For each claim or device that is not the same: its kind, name, uid and the fields as [before, after]."""
    found = []
    for kind, uid in sorted(before.keys() | after.keys()):
        old, new = before.get((kind, uid)), after.get((kind, uid))
        changed = {
            field: [old.get(field) if old else None, new.get(field) if new else None]
            for field in _TELLING[kind]
            if ((old or {}).get(field) or None) != ((new or {}).get(field) or None)
        }
        if changed:
            name = (new or old or {}).get(_NAMES[kind]) or (old or {}).get(_NAMES[kind], "")
            found.append({"kind": kind, "name": name, "uid": uid, "changed": changed})
    return found


def _show(found: Sequence[dict[str, Any]]) -> None:
    dress = style()
    if not found:
        show("nothing differs")
    for one in found:
        show(dress(f"{one['kind']} {one['name']}", "name"))
        for field, (old, new) in one["changed"].items():
            show(f"  {field.ljust(8)} {_said(old)} → {_said(new)}")


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return str(value) if value not in (None, "") else "(none)"
