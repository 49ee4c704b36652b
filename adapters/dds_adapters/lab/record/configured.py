"""What of the ConfigMap's texts may get into a recording: they are YAML written by people, and anything can stand in them.

Each text is read as the decoder reads it and written again with what is known of it. What cannot be read is replaced by
something that cannot be read either. Nothing here may pass on a key or a value that the decoder does not look at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from dds_adapters.kubernetes import yamltext
from dds_adapters.kubernetes.config import MAX_PREFIX, MODES
from dds_adapters.kubernetes.reading import Fault

_UNREADABLE = "["
_TEXTS = ("cdi-model-name", "k8s-device-name", "driver-name")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")


def known_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The ConfigMap's data with what is read of it; what is no text stays as it is (it is found wrong anyway)."""
    return {
        name: rewritten(text) if isinstance(text, str) else text
        for name, rewritten in _REWRITTEN.items()
        if (text := data.get(name)) is not None
    }


def _device_info(text: str) -> str:
    found = _parsed(text)
    if found is _BROKEN:
        return _UNREADABLE
    if not isinstance(found, list):
        return json.dumps(_bare(found))
    return f"[{', '.join(_entry(one) for one in found)}]"


def _entry(found: Any) -> str:
    if not isinstance(found, yamltext.Mapping):
        return json.dumps(_bare(found))
    parts: list[tuple[str, str]] = []
    for name in ("index", *_TEXTS, "dra-attributes", "cannot-coexist-with"):
        if name in found:
            parts.append((name, _value(name, found[name])))
            if name in found.repeated:  # the fault is that it is there twice
                parts.append(parts[-1])
    return _table(parts)


def _value(name: str, found: Any) -> str:
    if name == "dra-attributes" and isinstance(found, yamltext.Mapping):
        parts = [(key, json.dumps(_leaf(value, text=True))) for key, value in found.items()]
        return _table([*parts, *(part for part in parts if part[0] in found.repeated)])
    if name == "cannot-coexist-with" and isinstance(found, list):
        return json.dumps([_leaf(one) for one in found])
    return json.dumps(_leaf(found, text=name in _TEXTS))


def _table(parts: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in parts)}}}"


def _fabrics(text: str) -> str:
    found = _parsed(text)
    if found is _BROKEN:
        return _UNREADABLE
    return json.dumps([_leaf(one) for one in found] if isinstance(found, list) else _bare(found))


def _leaf(found: Any, *, text: bool = False) -> Any:
    return found if text and isinstance(found, str) else _bare(found)


def _bare(found: Any) -> Any:
    """An empty value of the same type; numbers and truths tell nothing and stay."""
    return type(found)() if isinstance(found, str | list) else {} if isinstance(found, dict) else found


_BROKEN = object()


def _parsed(text: str) -> Any:
    try:
        return yamltext.parse("", text)
    except Fault:
        return _BROKEN


def _prefix(text: str) -> str:
    return text if len(text) <= MAX_PREFIX and _PREFIX.fullmatch(text) else ""


def _mode(text: str) -> str:
    return text if text in ("", *MODES) else "unknown"


_REWRITTEN: Mapping[str, Callable[[str], str]] = {
    "device-info": _device_info,
    "label-prefix": _prefix,
    "fabric-id-range": _fabrics,
    "mode": _mode,
}
