"""What `make demo` shows: a claim served from its allocation to the return of its device, in half a minute.

    python examples/demo/run.py [FOLDER]        (by default demo.out)

It starts a simulated cluster with a manager of its hardware (`dds lab up`), and scaler and publisher beside it (`dds serve
--publish`), tells what happens while it happens, ends both, and asks the logs what it was: `dds timeline`, `dds pools`, `dds log
verify`. Nothing but the command `dds` is used, as a person would type it. Whatever comes, no process stays: Ctrl-C ends
it with 130, something that does not happen in time with 1 and a line that says what. The folder keeps the logs and what the two
programs said.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

HERE = Path(os.path.relpath(Path(__file__).resolve().parent))
DDS = os.path.relpath(Path(sys.executable).with_name("dds"))
"""The command of the environment that this runs in, as it can be typed in this folder."""
FILES = ("kubeconfig", "lab.txt", "serve.jsonl", "log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm")
SPEED = "4"
"""Seconds of the lab that pass in a second."""
LOOK = 1
"""Seconds from one look of the publisher at the fabric to the next."""
PATIENCE = 40.0
"""Seconds that anything may take; everything takes a few."""
STEERING = ("SCAN_INTERVAL", "DEVICE_NO_REMOVAL_DURATION", "DEVICE_NO_ALLOCATION_DURATION", "KUBECONFIG")
"""What else steers `dds`; a demo must not depend on the shell that it is started in."""

Line = dict[str, Any]
Chapter = tuple[str, str, str]

UNTIL_BOUND: tuple[Chapter, ...] = (
    ("dds looks at the cluster, asks the fabric what is free, and shows it as a pool", "type", "PoolPublished"),
    ("a pod asks for a GPU; no node has one, the pool has four: one is ordered", "to", "Attaching"),
    ("the fabric attaches it", "to", "Attached"),
    ("the claim gets it in place of the pool's, and the scheduler, which still waits, binds the pod", "to", "Bound"),
)
"""What is told, and the field of a line, with its value, that ends the chapter."""

UNTIL_RETURNED: tuple[Chapter, ...] = (
    ("the pod runs for a while, then it is deleted", "trigger", "released"),
    ("the device idles until its time is over", "to", "Marked"),
    ("it is fenced; nobody takes it, so it goes back to the pool", "to", "Released"),
)

MORE = (
    ("timeline", "node0001"),
    ("timeline", "nvidia-a100-40-fabric1", "--name", "demo/publisher"),
    ("replay", "--until", "40"),
    ("log", "tail", "--log"),
)
"""What else the log can be asked for, in front of its path."""

SHOWN = {"PoolPublished", "PoolWithdrawn", "FabricFailed"}
SHOWN |= {"Synced", "ClaimMoved", "DeviceMoved", "AttachOrdered", "Reserved", "HandOver", "Steered"}
SHOWN |= {"ExchangeBegun", "AllocationCleared", "DevicesGiven"}
SHOWN |= {"VictimMarked", "DetachOrdered", "Alerted", "ClaimFailed", "WriteRefused", "Rejected"}
"""Events that are told; the log holds all."""


class Failed(Exception):
    """The demo cannot go on; says why in a line."""


class Said:
    """What a program says, line by line as it comes."""

    def __init__(self, name: str, file: TextIO, program: subprocess.Popen[str]) -> None:
        self._name = name
        self._file = file
        self._program = program

    def lines(self, wanted: str) -> Iterator[str]:
        """Whole lines, for as long as somebody asks. Raises Failed when it has ended, or when `wanted` takes too long."""
        end = time.monotonic() + PATIENCE
        part = ""
        while True:
            ended = self._program.poll() is not None
            part += self._file.readline()
            if part.endswith("\n"):
                yield part.strip()
                part = ""
            elif ended:
                raise Failed(f"{self._name} ended with {self._program.returncode}; look at {self._file.name}")
            elif time.monotonic() > end:
                raise Failed(f"nothing in {PATIENCE:.0f} seconds of this: {wanted}; look at {self._file.name}")
            else:
                time.sleep(0.05)


@contextmanager
def running(told: Path, *args: str) -> Iterator[Said]:
    """`dds ARGS` as a process that writes into the file `told`, and that ends with the block. Raises Failed when it does not end
    well."""
    print(f"\n$ {typed(*args)} &", flush=True)
    name = f"dds {args[0]}"
    with told.open("w") as out, told.open(encoding="utf-8") as said:
        # A session of its own: Ctrl-C is for us, and we end them in the right order.
        program = subprocess.Popen(
            [DDS, *args],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(),
            text=True,
            start_new_session=True,
        )
        try:
            yield Said(name, said, program)
        finally:
            end(program)
    if program.returncode:
        raise Failed(f"{name} ended with {program.returncode}; look at {told}")


def end(program: subprocess.Popen[str]) -> None:
    """In order if it can, else hard."""
    program.terminate()
    try:
        program.wait(20)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def finished(*args: str) -> None:
    """`dds ARGS`, shown as it comes. Raises Failed when it does not end well."""
    print(f"\n$ {typed(*args)}", flush=True)
    ended = subprocess.run([DDS, *args], env=environment(), check=False).returncode
    if ended:
        raise Failed(f"dds {args[0]} ended with {ended}")


def environment() -> dict[str, str]:
    """This shell's, without what steers `dds`; the way to the lab leads through no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DDS_") and name not in STEERING}
    return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def typed(*args: str) -> str:
    """`dds ARGS` as a shell takes it."""
    return shlex.join([DDS, *args])


def told(said: Said, chapters: tuple[Chapter, ...], begun: float) -> None:
    """Tell each chapter until the line that ends it."""
    for words, field, value in chapters:
        print(f"\n  {words}", flush=True)
        for text in said.lines(words):
            line: Line = json.loads(text) if text.startswith("{") else {}
            if line.get("type") in SHOWN:
                print(f"  {time.monotonic() - begun:5.1f} s   {line['msg']}", flush=True)
            if line.get(field) == value:
                break


def fabric(lab: Said) -> list[str]:
    """How the fabric's manager is reached, as the lab says it before it serves."""
    words = []
    for line in lab.lines("the lab serves"):
        words.append(line)
        if line.startswith("contexts:"):
            break
    said = "\n".join(words)
    found = [
        re.search(form, said) for form in (r"manager \((\w+)\) is at (\S+)", r"credentials: (\S+)", r"tenant ([^\s,]+)")
    ]
    if not all(found):
        raise Failed("the lab does not say where its manager is; look at lab.txt")
    manager, credentials, tenant = [one for one in found if one is not None]
    settings = ["--fabric", manager[1], "--fabric-endpoint", manager[2]]
    return [*settings, "--credentials-folder", credentials[1], "--tenant-id", tenant[1]]


def play(folder: Path) -> None:
    """The whole story. Everything that it writes is in `folder`."""
    begun = time.monotonic()
    kubeconfig, log = folder / "kubeconfig", folder / "log.sqlite3"
    lab_up = ("lab", "up", str(HERE / "both.yaml"), "--speed", SPEED, "--kubeconfig", str(kubeconfig))
    serve = ["serve", "--kubeconfig", str(kubeconfig), "--log", str(log), "--migrate", "--cluster-name", "demo"]
    serve += ["--policy", str(HERE / "policy.yaml"), "--log-format", "json"]
    serve += ["--health-probe-bind-address", "0", "--metrics-bind-address", "0"]
    serve += ["--publish", "--publish-mode", "publish", "--scan-interval", str(LOOK)]
    with running(folder / "lab.txt", *lab_up) as lab:
        serve += fabric(lab)
        with running(folder / "serve.jsonl", *serve) as both:
            told(both, UNTIL_BOUND, begun)
            finished("status", str(log))
            told(both, UNTIL_RETURNED, begun)
            time.sleep(2 * LOOK)  # until the publisher has seen it in the fabric
    finished("timeline", "default/train-1", str(log))
    finished("pools", "--name", "demo/publisher", str(log))
    for name in ("demo/scaler", "demo/publisher"):
        finished("log", "verify", "--name", name, str(log))
    print(f"\n{time.monotonic() - begun:.0f} seconds. {folder} keeps the logs of scaler and publisher; ask them more:")
    for more in MORE:
        print(f"  {typed(*more, str(log))}")


def main(args: list[str]) -> int:
    if len(args) > 1 or any(one.startswith("-") for one in args):
        print("usage: run.py [FOLDER]", file=sys.stderr)
        return 1
    folder = Path(args[0] if args else "demo.out")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        play(folder)
    except (Failed, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is ended", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
