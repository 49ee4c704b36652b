"""The lab's two halves never mix: the API server knows nothing of actors, and actors know the API by its verbs alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dds_lab

LAB = Path(dds_lab.__file__).parent
ROOT = "dds_lab"

# What a scenario says of a part: plain data.
SAID = ("scenario.cluster", "scenario.parts", "scenario.trouble", "scenario.scenario")
# What an actor may know besides its fellows.
FOR_ACTORS = {f"{ROOT}.{name}" for name in ("client", "time", "latency", *SAID)}
# What the API server may know besides its own parts: nothing of the lab.
FOR_THE_SERVER: set[str] = set()
# What the manager of the hardware may know: the hardware, and what serves it.
FOR_THE_MANAGER = {
    f"{ROOT}.{name}"
    for name in ("actors.fabric", "actors.faults", "api.requests", "http_frontend", "latency", "time", *SAID)
}
OVER_SOCKETS = "manager.frontend"
PURE = {"os", "socket", "threading", "asyncio", "subprocess", "time", "pathlib", "requests", "urllib.request"}


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """(module, dotted name) of everything that the modules below a folder import."""
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(LAB).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module} imports relatively"
                yield from ((module, f"{node.module}.{alias.name}") for alias in node.names)


def foreign(folder: str, allowed: set[str]) -> list[str]:
    mine = f"{ROOT}.{folder}"
    found = [(module, name) for module, name in imported(LAB / folder) if name.startswith(f"{ROOT}.")]
    assert found
    return [
        f"{module} imports {name}"
        for module, name in found
        if not name.startswith(f"{mine}.") and not any(name == one or name.startswith(f"{one}.") for one in allowed)
    ]


def test_the_api_server_knows_nothing_of_the_rest_of_the_lab() -> None:
    assert foreign("api", FOR_THE_SERVER) == []


def test_actors_know_the_client_and_the_time_and_each_other() -> None:
    assert foreign("actors", FOR_ACTORS) == []


def test_neither_half_reaches_outside() -> None:
    reached = [
        f"{module} imports {name}"
        for folder in ("api", "actors")
        for module, name in imported(LAB / folder)
        if any(name == one or name.startswith(f"{one}.") for one in PURE)
    ]
    assert reached == []


def test_the_manager_knows_the_hardware_and_no_api_object() -> None:
    assert foreign("manager", FOR_THE_MANAGER) == []


def test_the_manager_reaches_outside_at_its_face_alone() -> None:
    reached = [(module, name) for module, name in imported(LAB / "manager") if name.split(".")[0] in PURE]
    assert [one for one in reached if one[0] != OVER_SOCKETS] == [("manager.transport", "threading.RLock")]


def test_nothing_below_knows_the_whole() -> None:
    """The lab puts the parts together; no part may know the lab."""
    whole = {f"{ROOT}.{name}" for name in ("lab", "steps", "setup", "lab_settings", "serving", "driver", "joined")}
    upwards = [
        f"{module} imports {name}"
        for folder in ("api", "actors", "http_frontend", "conform", "manager", "record", "scenario")
        for module, name in imported(LAB / folder)
        if any(name == one or name.startswith(f"{one}.") for one in whole)
    ]
    assert upwards == []
