"""An environment of its own with wheels that are built here; what they need is that of this environment."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.support.commands import environment


class Installed:
    """A virtual environment with the wheels of these projects."""

    def __init__(self, folder: Path, *projects: Path) -> None:
        venv.create(folder, with_pip=False)
        self._python = folder / "bin" / "python"
        self._folder = folder
        for project in projects:
            self._pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder / "wheels"), str(project))
        self.wheels = sorted((folder / "wheels").glob("*.whl"))
        self._pip("--python", str(self._python), "install", *map(str, self.wheels))
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (folder / "lib" / version / "site-packages" / "needed.pth").write_text(sysconfig.get_path("purelib"))

    def _pip(self, *args: str) -> None:
        place = args.index("install" if "install" in args else "wheel") + 1
        given = [*args[:place], "--no-index", "--no-deps", "--quiet", *args[place:]]
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *given], check=True, timeout=300)

    @property
    def program(self) -> tuple[str, ...]:
        """How its `dds` is started."""
        return (str(self._python), str(self._folder / "bin" / "dds"))

    def run(self, *args: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._python), *args],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=environment(env),
            check=False,
            timeout=300,
        )

    def dds(self, *args: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(self.program[1], *args, cwd=cwd, env=env)
