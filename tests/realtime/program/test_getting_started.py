"""The page that new users begin with, typed as it stands: each command works, in its order, and shows what the page says."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.project.docs.test_commands import typed
from tests.support.commands import PROGRAM, REPOSITORY, environment

PAGE = REPOSITORY / "docs" / "getting-started.md"
PATIENCE = 60.0

SHOWN = {
    "dds db upgrade": "0001",
    "dds doctor": "in mode observe nothing is written to the cluster",
    "dds status": "mode observe: dds orders no A100 40G",
    "dds timeline default/train-1": "Attached → Bound",
    "dds devices": "GPU-",
    "dds pools": "nvidia-a100-40-fabric1",
    "dds log verify": "the chain holds, and every decision is the one that the rules make",
}
"""What a command shows in the end, which a person waits for as well."""


class Terminals:
    """A shell's environment, with the lab and the scaler in terminals of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.said: dict[str, Path] = {}

    def type(self, words: list[str]) -> None:
        line = shlex.join(words)
        if words[0] == "export":
            told = dict(one.replace("$PWD", str(self.folder)).split("=", 1) for one in words[1:])
            if "CDI_ENDPOINT" in told:  # the page's is an example
                told["CDI_ENDPOINT"] = self.manager()
            self.variables |= told
        elif words[:3] == ["dds", "lab", "up"]:
            self._begin("lab", [*words, "--speed", "4"])
            self.until("lab", "Ctrl-C ends it")
        elif words[:2] == ["dds", "serve"]:
            self.end("serve")
            self._begin("serve", words)
            self.until("serve", "the whole cluster was seen")
        else:
            self.show(words, SHOWN[line])

    def manager(self) -> str:
        """Where the lab's manager is, as the lab says."""
        (found,) = re.findall(r"manager \(fm\) is at (https://\S+)", self.said["lab"].read_text())
        return str(found)

    def show(self, words: list[str], expected: str) -> None:
        """Again and again until it shows what is expected."""
        end = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                [str(PROGRAM), *words[1:]],
                capture_output=True,
                text=True,
                env=self._env(),
                cwd=self.folder,
                check=False,
            )
            if _fine(done) and expected in done.stdout:
                return
            assert time.monotonic() < end, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
            time.sleep(0.3)

    def until(self, name: str, expected: str) -> None:
        end = time.monotonic() + PATIENCE
        while expected not in self.said[name].read_text():
            assert self._running[name].poll() is None, self.said[name].read_text()
            assert time.monotonic() < end, self.said[name].read_text()
            time.sleep(0.1)

    def end(self, name: str) -> None:
        """By Ctrl-C."""
        program = self._running.pop(name, None)
        if program is not None:
            program.send_signal(signal.SIGINT)
            assert program.wait(30) == 0

    def kill(self) -> None:
        for program in self._running.values():
            program.kill()
            program.wait()

    def _begin(self, name: str, words: list[str]) -> None:
        self.said[name] = self.folder / f"{name}-{time.monotonic_ns()}.txt"
        with self.said[name].open("w") as said:
            self._running[name] = subprocess.Popen(
                [str(PROGRAM), *words[1:]], stdout=said, stderr=subprocess.STDOUT, env=self._env(), cwd=self.folder
            )

    def _env(self) -> dict[str, str]:
        free = {"DDS_HEALTH_PROBE_BIND_ADDRESS": "127.0.0.1:0", "DDS_METRICS_BIND_ADDRESS": "127.0.0.1:0"}
        return environment(self.variables | free)


def _fine(done: subprocess.CompletedProcess[str]) -> bool:
    """The lab's clock is four times as fast as ours; on a slow machine `dds doctor` comes late enough to say so."""
    errors = [line for line in done.stdout.splitlines() if line.startswith("error ")]
    return done.returncode == 0 or (bool(errors) and all("our clock is" in line for line in errors))


@contextmanager
def terminals(folder: Path) -> Iterator[Terminals]:
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    found = Terminals(folder)
    try:
        yield found
    finally:
        found.kill()


def _lines(folder: Path, part: str) -> list[list[str]]:
    """What a part of the page has people type."""
    page = folder / "part.md"
    page.write_text(PAGE.read_text(encoding="utf-8").partition(f"\n## {part}\n")[2].partition("\n## ")[0])
    return [words for words in typed(page) if words[0] in ("dds", "export")]


@pytest.mark.timeout(240)
def test_the_pool_too(tmp_path: Path) -> None:
    with terminals(tmp_path) as shell:
        for words in _lines(tmp_path, "The pool, too"):
            shell.type(words)
        shell.show(["dds", "timeline", "default/train-1"], "Attached → Bound")
        shell.end("serve")
        shell.end("lab")


@pytest.mark.timeout(240)
def test_by_hand(tmp_path: Path) -> None:
    lines = _lines(tmp_path, "By hand")
    assert {shlex.join(words) for words in lines} > SHOWN.keys() - {"dds pools"}
    with terminals(tmp_path) as shell:
        for words in lines:
            if words == ["dds", "log", "verify"]:
                shell.show(["dds", "devices"], "none now; 1 ended: --all")
                shell.end("serve")
            shell.type(words)
        shell.end("lab")
    assert not (tmp_path / "lab.kubeconfig").exists()
