"""What differs between two instants of a source: claims and devices, pools and machines that came, went or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dds_commands.rows import claim_data, device_data
from dds_commands.screen import show, show_json, show_jsonl, style
from dds_commands.state import chosen_claims, chosen_devices
from dds_core.errors import InputError
from dds_core.scaler.state import Picture
from dds_core.timeline.clock import rfc3339
from dds_core.timeline.phrases import listed

_NAMES = {"claim": "claim", "device": "resource", "pool": "pool", "machine": "machine"}
_TELLING = {
    "claim": ("state", "node", "cycle", "attempt", "devices", "pods"),
    "device": ("state", "device", "node", "claims"),
    "pool": ("driver", "owner", "generation", "slices", "devices", "names", "held_names", "tainted", "stock"),
    "machine": ("nodes", "fabric", "limits"),
}


Thing = dict[str, Any]
Things = Mapping[tuple[str, str], Thing]
"""By kind and uid, what a picture holds."""


def show_differences(things: tuple[Things, Things], span: tuple[int, int], form: str) -> None:
    """Show how the second differs from the first; `span` holds their instants."""
    if form == "mermaid":
        raise InputError("differences are no path that could be drawn", fix="use --format table, json or jsonl")
    found = differences(*things)
    if form == "json":
        show_json({"from": rfc3339(span[0]), "to": rfc3339(span[1]), "differences": found})
    elif form == "jsonl":
        show_jsonl(found)
    else:
        _show(found)


def things_of(picture: Picture, chosen: Mapping[str, str | None]) -> Things:
    """The claims and devices of a scaler's picture that pass the filters."""
    claims = {("claim", row.uid): claim_data(row) for row in chosen_claims(picture, chosen["claim"], chosen["node"])}
    devices = {
        ("device", row.uid): device_data(row) for row in chosen_devices(picture, chosen["claim"], chosen["node"])
    }
    wanted = chosen["state"]
    return {key: thing for key, thing in {**claims, **devices}.items() if not wanted or thing["state"] == wanted}


def differences(before: Things, after: Things) -> list[dict[str, Any]]:
    """For each thing that is not the same: its kind, name, uid and the fields as [before, after]."""
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
            if field in ("names", "held_names"):
                old, new = _only(old, new), _only(new, old)
            show(f"  {field.ljust(8)} {_said(old)} → {_said(new)}")


def _only(these: Sequence[str] | None, those: Sequence[str] | None) -> str:
    """The devices of a pool that the other side does not have; there may be very many that both have."""
    return listed([name for name in these or () if name not in (those or ())])


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return str(value) if value not in (None, "") else "(none)"
