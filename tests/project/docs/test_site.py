"""The docs build as a site, with every page in its sidebar and every anchor there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.project.docs.pages import ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    build = ("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path))
    done = subprocess.run([sys.executable, *build], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "glossary.html").exists()
