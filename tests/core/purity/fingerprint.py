"""The fingerprints of the rules, computed from their syntax: `python -m tests.core.purity.fingerprint` writes them into
`dds_core/fingerprint.py`.

Each is the SHA-256 over the syntax trees of the sources that deciding and folding load, in the order of their names. Comments,
docstrings, line breaks and positions are no part of a tree, so that they change nothing. Only what a node holds is written, not
how a release of Python prints it: 3.11 and later give the same.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import dds_core

CORE = Path(dds_core.__file__).parent
DECIDING = dict.fromkeys(("scaler", "publisher", "autoscaler"), ("deciding", "deadlines", "folds"))
"""By component, where deciding and folding begin; whatever they import decides too."""
NAMES = {
    "scaler": "FINGERPRINT",
    "publisher": "PUBLISHER_FINGERPRINT",
    "autoscaler": "AUTOSCALER_FINGERPRINT",
}

NOT_RULES = ("__init__.py", "errors.py", "timeline/")
"""What they import and is no rule: the public names, and words for people."""
TOLD = ("words", "about", "level", "around", "for_claims", "for_devices", "seen_by")
"""What a class of events says to those who tell of it, and to no rule."""
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def computed(component: str) -> str:
    """The fingerprint that the sources of a component have now."""
    digest = hashlib.sha256()
    for name in sorted(sources(component)):
        for part in syntax((CORE / name).read_text(encoding="utf-8")):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def syntax(source: str) -> Iterator[str]:
    """What a source says to the interpreter, piece by piece."""
    yield from _written(ast.parse(source))


def _written(value: object) -> Iterator[str]:
    if isinstance(value, ast.AST):
        yield type(value).__name__
        for name, held in ast.iter_fields(value):
            if isinstance(value, _BODIES) and name == "body":
                held = [one for one in held if not (_is_text(one) or _is_told(one))] or [ast.Pass()]
            if (
                held or held is False or held == 0
            ):  # what is left out and what is empty are told apart by no later release
                yield name
                yield from _written(held)
        yield "."
    elif isinstance(value, list):
        for one in value:
            yield from _written(one)
    else:
        yield repr(value)


def _is_text(node: ast.stmt) -> bool:
    """A text that stands by itself is for readers."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_told(node: ast.stmt) -> bool:
    name = getattr(node, "name", getattr(getattr(node, "target", None), "id", ""))
    return name in TOLD


def sources(component: str) -> set[str]:
    """The sources of the core that deciding loads there, found by their imports (also those inside functions)."""
    found: set[str] = set()
    queue = [_source([component, module]) for module in DECIDING[component]]
    while queue:
        name = queue.pop()
        if name not in found and not name.startswith(NOT_RULES):
            found.add(name)
            queue += imported(name)
    return found


def imported(name: str) -> list[str]:
    """The sources of the core that one source imports."""
    found = []
    for node in ast.walk(ast.parse((CORE / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dds_core":
            stem = node.module.split(".")[1:]
            candidates = [stem, *([*stem, alias.name] for alias in node.names)]
            found += [source for parts in candidates if (source := _source(parts))]
    return found


def _source(parts: list[str]) -> str:
    path = "/".join(parts)
    for name in (f"{path}.py", f"{path}/__init__.py" if path else "__init__.py"):
        if (CORE / name).is_file():
            return name
    return ""


def main() -> None:
    """Write those of now."""
    file = CORE / "fingerprint.py"
    text = file.read_text(encoding="utf-8")
    for component, name in NAMES.items():
        text = re.sub(rf'^{name} = ".*"$', f'{name} = "{computed(component)}"', text, flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
