"""Make the generated parts of the documentation anew: `python -m tests.project.docs.generate`. Writes below docs/ and nothing
else; says which pages it changed."""

from __future__ import annotations

import sys

from tests.project.docs.pages import PARTS, ROOT, filled


def main() -> None:
    for page in PARTS:
        path = ROOT / page
        before = path.read_text(encoding="utf-8")
        after = filled(page, before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page} was changed\n")


if __name__ == "__main__":
    main()
