"""A real browser for tests of pages: Debian's chromium, driven over the WebDriver protocol in plain HTTP."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_NAMES = "Tab Enter Escape End Home Left Up Right Down"
KEYS = dict(zip(_NAMES.split(), "\ue004\ue007\ue00c\ue010\ue011\ue012\ue013\ue014\ue015", strict=True))
_FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
)


def missing() -> str:
    """Which program is not there; "" when all are."""
    return next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None), "")


class Browser:
    """One window of one session."""

    def __init__(self, session: str) -> None:
        self._session = session

    def call(self, method: str, path: str, **body: Any) -> Any:
        """One command of the protocol."""
        return _ask(method, f"{self._session}{path}", body if method == "POST" else None)

    def open(self, url: str) -> None:
        self.call("POST", "/url", url=url)

    def run(self, script: str, *args: Any) -> Any:
        """What a function body gives."""
        return self.call("POST", "/execute/sync", script=script, args=list(args))

    def wait(self, script: str, *args: Any) -> Any:
        """What a function body with `done` as its last argument gives to it."""
        body = f"const done = arguments[arguments.length - 1]; {script}"
        return self.call("POST", "/execute/async", script=body, args=list(args))

    def eventually(self, script: str, *args: Any, seconds: float = 10) -> Any:
        """What an expression gives once it gives something true."""
        return _until(lambda: self.run(f"return {script}", *args), seconds, script)

    def click(self, selector: str) -> None:
        found = self.call("POST", "/element", using="css selector", value=selector)[_ELEMENT]
        self.call("POST", f"/element/{found}/click")

    def type(self, *keys: str) -> None:
        """Press keys one after the other, where the focus is: names of `KEYS`, or text."""
        actions = []
        for key in keys:
            for one in [KEYS[key]] if key in KEYS else key:
                actions += [{"type": "keyDown", "value": one}, {"type": "keyUp", "value": one}]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 4) -> None:
        """Press the mouse at a point of the window, move it, and let go."""
        (x, y), (to_x, to_y) = start, end
        moves = [
            self._move(x + (to_x - x) * n / steps, y + (to_y - y) * n / steps, 16 if n else 0) for n in range(steps + 1)
        ]
        actions = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        self._mouse(actions)

    def press(self, x: float, y: float) -> None:
        self._mouse([self._move(x, y, 0), {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}])

    def pinch(self, x: float, y: float, apart: tuple[float, float]) -> None:
        """Put two fingers on the window, so far left and right of a point, and move them that far."""
        fingers = []
        for name, side in (("one", -1), ("other", 1)):
            places = [self._move(x + side * far, y, 50) for far in apart]
            moves = [places[0], {"type": "pointerDown", "button": 0}, places[1], {"type": "pointerUp", "button": 0}]
            fingers.append({"type": "pointer", "id": name, "parameters": {"pointerType": "touch"}, "actions": moves})
        self.call("POST", "/actions", actions=fingers)

    def wheel(self, x: float, y: float, by: int) -> None:
        scroll = {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": by, "duration": 0}
        self.call("POST", "/actions", actions=[{"type": "wheel", "id": "wheel", "actions": [scroll]}])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What the browser wrote since it was last asked: `browser` for the console, `performance` for its protocol."""
        found: list[dict[str, Any]] = self.call("POST", "/se/log", type=kind)
        return found

    def devtools(self, command: str, **params: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=params)

    def size(self, width: int, height: int) -> None:
        """Of what is seen of the page."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.call("POST", "/print"))

    @staticmethod
    def _move(x: float, y: float, duration: int) -> dict[str, Any]:
        return {"type": "pointerMove", "x": int(x), "y": int(y), "duration": duration}

    def _mouse(self, actions: list[dict[str, Any]]) -> None:
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.call("POST", "/actions", actions=[mouse])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with an empty profile, closed in the end."""
    with tempfile.TemporaryDirectory(prefix="dds-browser-", ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert driver.stdout is not None
            port = next(line.split()[-1].rstrip(".") for line in driver.stdout if "successfully on port" in line)
            base = f"http://127.0.0.1:{port}"
            options = {
                "args": [*_FLAGS, f"--user-data-dir={profile}"],
                "binary": shutil.which("chromium"),
                "perfLoggingPrefs": {"enableNetwork": True},
            }
            wanted = {
                "acceptInsecureCerts": True,
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            session = _ask("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            try:
                yield Browser(f"{base}/session/{session}")
            finally:
                _ask("DELETE", f"{base}/session/{session}")
        finally:
            driver.terminate()
            driver.wait(10)
            if driver.stdout is not None:
                driver.stdout.close()


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        said = json.load(error)["value"]
        raise AssertionError(f"{said['error']}: {said['message'].splitlines()[0]}") from None


def _until(ask: Callable[[], Any], seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while not (found := ask()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return found
