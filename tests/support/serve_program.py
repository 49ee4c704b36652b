"""`dds serve` as a program beside a lab: started, ended, killed, stopped and let go on, with what it says and serves.

with Program(lab, url, folder, policy) as ours:
    ours.kill()
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel

from tests.support.commands import environment
from tests.support.live_lab import LiveLab, eventually
from tests.support.sooner import dds_beside

HERE = ("--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0")
LEASE = ("--leader-elect", "--lease-duration", "4", "--lease-renew-deadline", "2.5", "--lease-retry-period", "0.4")
"""An election that does not take long."""
NAME = "lab"
"""What the cluster is called, so that the log is `lab/scaler`."""


class Probe(NamedTuple):
    """An answer of /livez or /readyz."""

    code: int
    text: str


class Program:
    """One process of `dds serve` or `dds publish`; it is killed where a block ends before it did."""

    def __init__(
        self,
        lab: LiveLab | Path,
        log: str,
        folder: Path,
        policy: BaseModel,
        *options: str,
        before: tuple[str, ...] = (),
        command: str = "serve",
        program: Sequence[str] = (),
    ) -> None:
        """`lab` may be a kubeconfig, `log` is a URL or a path, `before` a program that starts ours, `policy` the command's,
        `program` another `dds` than the one of this tree."""
        number = len(list(folder.glob("said-*.jsonl")))
        written = folder / f"policy-{number}.json"
        written.write_text(policy.model_dump_json(), encoding="utf-8")
        self.said = folder / f"said-{number}.jsonl"
        settings = ("--log", log, "--policy", str(written), "--cluster-name", NAME, "--log-format", "json")
        where = ("--kubeconfig", str(lab if isinstance(lab, Path) else lab.kubeconfig))
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [*before, *(program or dds_beside()), command, *where, *settings, *HERE, *options],
                stderr=said,
                env=environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.kill()

    # -- what is done to it

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def stand_still(self) -> None:
        """From now on nothing runs in it; comes back when that is so."""
        os.kill(self.process.pid, signal.SIGSTOP)
        eventually(lambda: _state(self.process.pid) == "T", 5.0, 0.001)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    # -- what it says and serves

    def lines(self) -> list[dict[str, Any]]:
        """What it said until now, each line an object."""
        text = self.said.read_text(encoding="utf-8")
        return [
            json.loads(line) for line in text.splitlines(keepends=True) if line.startswith("{") and line[-1] == "\n"
        ]

    def says(self, words: str) -> bool:
        return any(words in line["msg"] for line in self.lines())

    def leads(self) -> bool:
        """Whether it said so."""
        return self.says("this process decides")

    def seen_all(self) -> bool:
        """Whether it saw the whole cluster."""
        return self.says("the whole cluster was seen")

    def probe(self, page: str = "readyz?verbose") -> Probe:
        """What a probe is answered."""
        try:
            with urllib.request.urlopen(f"{self.address('health')}/{page}", timeout=10) as answer:
                return Probe(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Probe(error.code, error.read().decode())

    def metric(self, line: str) -> float | None:
        """The value of a metric with its labels; None when it is not there."""
        with urllib.request.urlopen(f"{self.address('metrics')}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return next((float(one.split()[-1]) for one in text.splitlines() if one.startswith(f"{line} ")), None)

    def address(self, of: str) -> str:
        """Where it says that it serves health, metrics or the page."""
        start = f"{of} served on "

        def told() -> str:
            return next((one["msg"].removeprefix(start) for one in self.lines() if one["msg"].startswith(start)), "")

        return eventually(told)


def _state(pid: int) -> str:
    """A process's state as the kernel shows it, such as R, S, T."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rpartition(") ")[2][:1]
