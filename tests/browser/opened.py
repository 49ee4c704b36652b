"""A page that is open in a browser, and what judges whether everybody can use it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser

AXE = "axe-core-4.14.1.tgz"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
READY = "window.dds?.model.revision && dds.frame === undefined"
WINDOW = (1280, 800)


class Page:
    """A page that was opened, and what is on it."""

    def __init__(self, window: Browser, file: Path | str, fragment: str = "", *, wait: bool = True) -> None:
        """`file` may be the address of a live page; one that is told nothing yet is not to be waited for."""
        self.window = window
        self.url = file if isinstance(file, str) else file.as_uri()
        window.size(*WINDOW)
        window.dark(False)
        window.open("about:blank")  # the page before says no more, such as of a server that has ended
        window.log("performance")
        window.log("browser")
        window.open(f"{self.url}{fragment}")
        if wait:
            self.ready()

    def ready(self) -> Page:
        self.window.eventually(READY)
        return self

    def __call__(self, expression: str) -> Any:
        return self.window.run(f"return {expression}")

    def rows(self) -> list[str]:
        found: list[str] = self("dds.rows.rows.map((row) => row.text)")
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")
        return found

    def seen(self) -> list[float]:
        """The instants between which the time is seen."""
        found: list[float] = self("dds.seen()")
        return found

    def place(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """A point of an element in the window."""
        box = self(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] * x, box["y"] + box["height"] * y

    def said(self) -> list[str]:
        """What the console was told."""
        return [one["message"] for one in self.window.log("browser")]

    def asked(self) -> list[str]:
        """Whatever was asked for over a network."""
        sent = [json.loads(one["message"])["message"] for one in self.window.log("performance")]
        urls = [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]


def axe() -> str:
    """axe-core of the npm registry, kept for the next time. Skips the test where it cannot be had."""
    folder = Path.home() / ".cache" / "dds-tests"
    kept = folder / AXE
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm to fetch axe-core with")
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [npm, "pack", "axe-core@4.14.1", "--silent"], cwd=folder, capture_output=True, timeout=60, check=False
        )
        if done.returncode or not kept.is_file():
            pytest.skip("axe-core cannot be fetched from the npm registry")
    packed = kept.read_bytes()
    assert b64encode(hashlib.sha512(packed).digest()).decode() == AXE_SHA512
    return _member(gzip.decompress(packed), "package/axe.min.js")


def _member(archive: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = files.extractfile(name)
        assert found is not None
        return found.read().decode()
