"""Who may import whom: the folders' table of docs/architecture.md, held against every import in the source.

The rules look at the syntax tree and not at what happens to be loaded, so that an import inside a function counts too.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE_ROOTS = {
    "dds_core": "",
    "dds_migrations": "migrations",
    "dds_adapters": "adapters",
    "dds_commands": "cli",
    "dds_lab": "lab",
    "dds_whatif": "lab",
    "dds_lab_commands": "lab",
}

# Imports point up this table only.
MAY_IMPORT_OURS = {
    "dds_core": set[str](),
    "dds_migrations": set[str](),
    "dds_adapters": {"dds_core", "dds_migrations"},
    "dds_commands": {"dds_core", "dds_migrations", "dds_adapters"},
    "dds_lab": {"dds_core", "dds_adapters"},
    "dds_whatif": {"dds_core", "dds_adapters", "dds_lab"},
    "dds_lab_commands": {"dds_core", "dds_adapters", "dds_commands", "dds_lab", "dds_whatif"},
}
# Where a package is not named here, it may import whatever its pyproject.toml declares.
MAY_IMPORT_OTHERS = {
    "dds_core": {"transitions", "pydantic", "msgspec", "cel_expr_python", "re2"},
    "dds_migrations": {"sqlalchemy", "alembic"},
}
# What only some parts of our packages may load, so that whoever imports a package does not pay for it.
ONLY_BELOW = {
    "cel_expr_python": {"dds_core.matching", "dds_lab.api.expressions"},
    "re2": {"dds_core.matching"},
    "perfetto": {"dds_adapters.export.perfetto"},
    "opentelemetry": {"dds_adapters.export.otlp"},
}
# A list of what is allowed and not of what is forbidden: who wants another module has to argue that it is pure.
PURE_STANDARD_LIBRARY = (
    "__future__ abc ast base64 binascii bisect codecs collections contextlib copy dataclasses datetime "
    "decimal difflib enum fractions functools graphlib hashlib heapq hmac ipaddress itertools json "
    "keyword math numbers operator re statistics string struct textwrap types typing unicodedata "
    "urllib.parse weakref zlib "
)
# What a component decides and how it folds that is its own; around it are the facts that others need, in modules beside these.
RULES = re.compile(r"dds_core\.\w+\.(rules|fold)\b")
PRODUCT = {"dds_adapters", "dds_commands"}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
CLOCK_CALLS = {f"{kind}.{call}" for kind in ("datetime", "date") for call in ("now", "utcnow", "today")}
# Import name → name on the package index, where they differ; or the package that brings it along as part of its own interface.
DISTRIBUTION_OF = {
    "yaml": "pyyaml",
    "cel_expr_python": "cel-expr-python",
    "re2": "google-re2",
    "pydantic_core": "pydantic",
    "urllib3": "kubernetes",
    "prometheus_client": "prometheus-client",
    "google": "protobuf",
    "opentelemetry": "opentelemetry-proto",
    "grpc": "grpcio",
}


def modules(package: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, source) of every module of one of our packages."""
    root = REPOSITORY / SOURCE_ROOTS[package]
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts), path.read_text(encoding="utf-8")


def imports(module: str, source: str) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports.

    `from x import y` gives `x.y`, because y may be a module; relative imports are made absolute.
    """
    parts = module.split(".")
    package = parts[:-1]  # of a package's own `__init__` too, whose dotted name ends in it here
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def starts_with(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


def adapter_of(dotted: str) -> str:
    """Name the adapter that a dotted name below `dds_adapters` belongs to; empty for the package itself."""
    _, _, rest = dotted.partition(".")
    first = rest.split(".")[0]
    return "" if first == "__init__" else first


def documented_siblings() -> dict[str, set[str]]:
    """Read who may import whom among the adapters from the table in docs/architecture.md."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^\| adapter \| may import \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, "docs/architecture.md has no table headed '| adapter | may import |'"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    return {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows}


def broken_rules(module: str, source: str, siblings: dict[str, set[str]]) -> list[str]:
    """List what a module imports and may not, each as one sentence."""
    package = module.split(".")[0]
    others = MAY_IMPORT_OTHERS.get(package)
    broken = []
    for name in imports(module, source):
        top = name.split(".")[0]
        if top == package:
            mine, other = adapter_of(module), adapter_of(name)
            if package == "dds_adapters" and mine and other not in {mine, *siblings.get(mine, ())}:
                broken.append(f"{module} imports its sibling {name}: docs/architecture.md does not say so")
        elif top in SOURCE_ROOTS:
            if top not in MAY_IMPORT_OURS[package]:
                broken.append(f"{module} imports {name}: imports point up the table only")
            elif package in PRODUCT and RULES.match(name):
                broken.append(f"{module} imports {name}: rules and folds are the core's own")
        elif top in sys.stdlib_module_names:
            if package == "dds_core" and not starts_with(name, set(PURE_STANDARD_LIBRARY.split())):
                broken.append(f"{module} imports {name}: dds_core does no I/O, reads no clock and starts no thread")
        elif not starts_with(module, ONLY_BELOW.get(top, {package})):
            broken.append(f"{module} imports {name}: only {' and '.join(sorted(ONLY_BELOW[top]))} may")
        elif others is not None and top not in others:
            broken.append(f"{module} imports {name}: {package} may import {', '.join(sorted(others))}")
    return broken


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (strongly connected components of more than one), each in order."""
    reached = {start: _reached(start, graph) for start in graph}
    found = {tuple(sorted(other for other in seen if start in reached[other])) for start, seen in reached.items()}
    return sorted(list(one) for one in found if one)


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += graph[one]
    return seen


def imported_modules(package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules takes names from, also inside functions. An import of a name that is
    no module counts as one of the module that holds it; one for the type checker alone counts too."""
    sources = {name.removesuffix(".__init__"): (name, source) for name, source in modules(package)}
    graph: dict[str, set[str]] = {}
    for short, (name, source) in sources.items():
        named = ((one if one in sources else one.rpartition(".")[0]) for one in imports(name, source))
        graph[short] = {one for one in named if one in sources} - {short}
    return graph


def impure_calls(module: str, source: str) -> list[str]:
    """List the calls of built-in functions and clocks that reach outside without an import."""
    broken = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in IMPURE_CALLS or ".".join(called.split(".")[-2:]) in CLOCK_CALLS:
                broken.append(f"{module}:{node.lineno} calls {called}()")
    return broken


@pytest.mark.parametrize("package", SOURCE_ROOTS)
def test_imports_point_up_the_table_only(package: str) -> None:
    siblings = documented_siblings()
    found = list(modules(package))
    assert found, f"no module of {package} was found"
    assert [rule for name, source in found for rule in broken_rules(name, source, siblings)] == []


@pytest.mark.parametrize("package", SOURCE_ROOTS)
def test_no_modules_import_each_other(package: str) -> None:
    assert circles(imported_modules(package)) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_the_components_do_not_know_each_other_and_what_is_common_knows_neither() -> None:
    """The public names alone bring them together."""
    broken = []
    for module, named in imported_modules("dds_core").items():
        room = module.split(".")[1] if "." in module else ""
        others = {"scaler", "publisher", "autoscaler"} - {room} if room else set[str]()
        broken += [f"{module} imports {one}" for one in sorted(named) if one.split(".")[1] in others]
    assert broken == []


def test_the_core_calls_nothing_that_reaches_outside() -> None:
    assert [call for name, source in modules("dds_core") for call in impure_calls(name, source)] == []


def test_every_adapter_has_a_row_in_the_docs() -> None:
    root = REPOSITORY / "adapters" / "dds_adapters"
    present = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert present - {"__init__"} <= documented_siblings().keys()


def declared(folder: str) -> set[str]:
    """The distributions that a project's dependencies and extras name."""
    project = tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    return {re.split(r"[\[><=!~ ;]", requirement, maxsplit=1)[0].lower() for requirement in required}


def test_every_import_from_elsewhere_is_declared() -> None:
    core = declared("")
    undeclared = {
        f"{module} imports {name}"
        for package, root in SOURCE_ROOTS.items()
        for module, source in modules(package)
        for name in imports(module, source)
        if (top := name.split(".")[0]) not in sys.stdlib_module_names and top not in SOURCE_ROOTS
        if DISTRIBUTION_OF.get(top, top) not in (core | declared(root) if root == "lab" else core)
    }
    assert undeclared == set()


def test_importing_the_core_loads_no_adapter_and_none_of_their_libraries() -> None:
    unwanted = [
        "sqlalchemy",
        "alembic",
        "kubernetes",
        "grpc",
        "click",
        "psycopg",
        "yaml",
        "cel_expr_python",
        "re2",
        "dds_adapters",
        "dds_migrations",
        "dds_lab",
        "dds_whatif",
        "dds_lab_commands",
    ]
    script = f"import sys, dds_core; print([name for name in {unwanted!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dds_core.scaler.state", "import os"),
        ("dds_core.scaler.state", "from time import time"),
        ("dds_core.scaler.state", "def f():\n    import sqlite3"),
        ("dds_core.scaler.state", "import sqlalchemy"),
        ("dds_core.scaler.state", "from cel_expr_python import cel"),
        ("dds_core.scaler.state", "import urllib.request"),
        ("dds_core.scaler.state", "import dds_adapters.sql"),
        ("dds_migrations.env", "import dds_core"),
        ("dds_migrations.env", "import kubernetes"),
        ("dds_adapters.sql.log", "import dds_commands"),
        ("dds_adapters.runtime.loop", "import dds_lab"),
        ("dds_commands.serve", "import dds_lab"),
        ("dds_adapters.kubernetes.write.scaler_tasks", "from dds_core.scaler.rules.detach import call_off"),
        ("dds_commands.status", "from dds_core.scaler.rules import orders"),
        ("dds_adapters.machines.cdi", "from dds_core.autoscaler.fold.decisions import MADE"),
        ("dds_commands.root", "def f():\n    from dds_lab_commands import lab"),
        ("dds_lab.lab", "import dds_commands"),
        ("dds_lab.lab", "import dds_whatif"),
        ("dds_whatif.traces", "import dds_commands"),
        ("dds_adapters.export.__init__", "from perfetto.trace_builder import proto_builder"),
        ("dds_adapters.sql.log", "from dds_adapters import kubernetes"),
        ("dds_adapters.sql.log", "from ..kubernetes import decode"),
        ("dds_adapters.sql.__init__", "from ..kubernetes import decode"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(broken_rules(module, source, {"sql": set()})) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dds_core.log.chain", "import hashlib\nfrom . import envelope\nfrom ..errors import DdsError"),
        ("dds_core.matching.cel", "def f():\n    from cel_expr_python import cel"),
        ("dds_adapters.sql.log", "from .tables import events\nimport dds_core.log\nfrom dds_migrations import check"),
        ("dds_adapters.sql.__init__", "from . import tables\nfrom .log import SqlLog"),
        ("dds_adapters.jsonl", "from dds_adapters import sql"),
        ("dds_whatif.traces.scenario", "import dds_core, dds_adapters.jsonl, dds_lab.scenario"),
        ("dds_commands.__init__", "import os, click, dds_core, dds_adapters.sql"),
        ("dds_lab_commands.lab_run", "import click, dds_commands.screen, dds_lab.lab, dds_whatif.play"),
    ],
)
def test_an_allowed_import_is_let_through(module: str, source: str) -> None:
    assert broken_rules(module, source, {"jsonl": {"sql"}}) == []


@pytest.mark.parametrize("source", ["open('x')", "print(1)", "datetime.now(UTC)", "datetime.datetime.utcnow()"])
def test_an_impure_call_is_found(source: str) -> None:
    assert len(impure_calls("dds_core.scaler.state", source)) == 1
