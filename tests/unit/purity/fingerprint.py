"""The fingerprint of the rules, computed from their sources: `python -m tests.unit.purity.fingerprint` prints it.

It is the SHA-256 over the sources named in `dds_core.fingerprint.RULES`, in that order, each as its name, a zero byte, its
text with line ends as `\\n`, and a zero byte. So it is the same on every machine and says nothing of where the code lies.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

import dds_core
from dds_core.fingerprint import PUBLISHER_RULES, RULES

CORE = Path(dds_core.__file__).parent
COVERED = {"scaler": RULES, "publisher": PUBLISHER_RULES}
"""By component, the sources that its fingerprint says it covers."""
DECIDING = {
    "scaler": ("rules", "agenda", "fold"),
    "publisher": ("publishing/rules", "publishing/agenda", "publishing/fold"),
}
"""Where deciding and folding begin; whatever they import decides too."""

NOT_RULES = ("__init__.py", "errors.py", "model.py", "events/")
"""What they import and is no rule: the public names, the errors' words, and the forms, which have versions of their own."""


def computed(component: str) -> str:
    """The fingerprint that the sources of a component have now."""
    digest = hashlib.sha256()
    for name in COVERED[component]:
        digest.update(name.encode() + b"\0")
        digest.update((CORE / name).read_text(encoding="utf-8").encode() + b"\0")
    return digest.hexdigest()


def sources(component: str) -> set[str]:
    """The sources of the core that deciding loads there, found by their imports (also those inside functions)."""
    found: set[str] = set()
    queue = [_source([module]) for module in DECIDING[component]]
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


if __name__ == "__main__":
    for one in COVERED:
        sys.stdout.write(f"{one} {computed(one)}\n")
