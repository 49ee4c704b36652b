"""Make anew what is made from code: `python -m tests.project.deploy.generate`. Writes the chart's roles and
guard, the kustomize bases and the table of docs/deployment.md, and says which files it changed."""

from __future__ import annotations

import sys

from tests.project.deploy.chart import CHART
from tests.project.deploy.made import KUSTOMIZE, PAGE, ROOT, files, page, templates


def main() -> None:
    for name, text in templates().items():  # before the chart is rendered
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
    if not CHART.is_dir():
        raise SystemExit(f"{CHART} is not there")
    made = files() | {PAGE: page((ROOT / PAGE).read_text(encoding="utf-8"))}
    for path in sorted((ROOT / KUSTOMIZE).glob("*/*.yaml")):
        if str(path.relative_to(ROOT)) not in made:
            path.unlink()
            sys.stdout.write(f"{path.relative_to(ROOT)} was removed\n")
    for name, text in made.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name} was changed\n")


if __name__ == "__main__":
    main()
