"""Package the chart for a registry: `python deploy/package.py registry.example/team 0.1.0 [--source URL] [--push]`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import helm_python
import yaml

CHART = Path(__file__).parent / "chart" / "dds"


def package(registry: str, version: str, source: str, destination: Path) -> str:
    """The path of the archive. Its image is that of the registry, and its home the repository `source`, if there is one."""
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        chart = shutil.copytree(CHART, Path(folder) / "dds")
        about, values = chart / "Chart.yaml", chart / "values.yaml"
        told = {"home": source, "sources": [source]} if source else {}
        about.write_text(about.read_text(encoding="utf-8") + yaml.safe_dump(told) * bool(told), encoding="utf-8")
        text = values.read_text(encoding="utf-8")
        values.write_text(text.replace("  repository: dds\n", f"  repository: {registry}/dds\n", 1), encoding="utf-8")
        return helm_python.package(chart, destination=destination, version=version, app_version=version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("registry")
    parser.add_argument("version")
    parser.add_argument("--source", default="")
    parser.add_argument("--push", action="store_true")
    given = parser.parse_args()
    made = package(given.registry, given.version, given.source, Path("dist"))
    if given.push:
        helm_python.push(made, f"oci://{given.registry}")
    sys.stdout.write(f"{made}\n")


if __name__ == "__main__":
    main()
