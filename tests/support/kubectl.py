"""Running real kubectls against the lab."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dds_lab.http_frontend import Served

VARIABLE = "KUBECTLS"
"""More kubectls to test with than the one on the path, separated as in PATH."""


def installed() -> list[str]:
    """The kubectls to test with."""
    on_path = shutil.which("kubectl")
    more = os.environ.get(VARIABLE, "").split(os.pathsep)
    return list(dict.fromkeys(each for each in (on_path, *more) if each))


PROGRAMS = installed()
NONE = f"no kubectl on the path (and none in {VARIABLE})"


class Kubectl:
    """One program, one kubeconfig, a home of its own. `served`: the server, if it runs in this process."""

    def __init__(self, program: str, config: str, folder: Path, served: Served | None = None) -> None:
        self.program = program
        self.served = served
        self.folder = folder
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        self.environment = {**kept, "HOME": str(folder), "KUBECONFIG": config, "TMPDIR": str(folder)}
        version = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        self.minor = int(re.match(r"\d+", version["minor"])[0])  # type: ignore[index]

    def run(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *args],
            env=self.environment, input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def __call__(self, *args: str, stdin: str | None = None) -> str:
        """What a command prints that must end well."""
        done = self.run(*args, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}"
        return done.stdout

    def refused(self, *args: str, stdin: str | None = None) -> str:
        """What a command says that must not end well."""
        done = self.run(*args, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(args)} went well: {done.stdout}"
        return done.stderr

    def popen(self, *args: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [self.program, *args], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "-o", "json"))

    def make(self, manifest: dict[str, Any]) -> None:
        self("create", "-f", "-", stdin=json.dumps(manifest))
