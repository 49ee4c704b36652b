"""requirements-dev.lock, and what is installed here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TEXT = (Path(__file__).parents[3] / "requirements-dev.lock").read_text(encoding="utf-8")
IMAGE, DEVELOPMENT = TEXT.split("# For development alone:\n")


def locked(text: str = TEXT) -> dict[str, tuple[str, list[str]]]:
    """By name the version and the hashes. Raises ValueError for a line that has not both."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            pin, *hashes = line.split(" ")
            name, version = pin.split("==")
            if not hashes or not all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes):
                raise ValueError(f"{pin} has no hashes")
            found[canonicalize_name(name)] = (version, hashes)
    return found


def needs(name: str, extras: Iterable[str] = ()) -> set[str]:
    """What an installed distribution needs with these extras, and what that needs, by the metadata here; without itself."""
    found: set[tuple[str, str]] = set()
    left = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while left:
        one, extra = left.pop()
        if (one, extra) in found:
            continue
        found.add((one, extra))
        for text in distribution(one).requires or ():
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": extra}):
                left += [(canonicalize_name(required.name), more) for more in ("", *required.extras)]
    return {str(one) for one, _ in found} - {canonicalize_name(name)}


def licence(name: str) -> str:
    """By its own metadata; "" if that does not say."""
    told = distribution(name).metadata.json
    short = str(told.get("license") or "").strip()
    short = short if "\n" not in short and len(short) < 40 else ""
    of_kind = [one.rpartition(" :: ")[2] for one in told.get("classifier", ()) if "License ::" in one]
    return str(told.get("license_expression") or short or " AND ".join(of_kind))
