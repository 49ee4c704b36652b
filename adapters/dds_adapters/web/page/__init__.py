"""The page that shows a log: its assets, put together into one file that makes no network request.

The data is gzipped and in base64, so that it cannot end its HTML element. The page's content security policy allows this script
and this style only, and no request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from html import escape
from importlib.resources import files

_SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "time.js",
    "model.js",
    "axis.js",
    "address.js",
    "curves.js",
    "rows.js",
    "panel.js",
    "print.js",
    "main.js",
)
_LIVE = "live.js"
"""The script that fetches data, for the live page only. A report contains its data."""
_STYLES = ("vendor/uPlot.min.css", "page.css")
_LICENCE = "vendor/uPlot.LICENSE"


def document(title: str, data: bytes) -> str:
    """The whole page, with the first patch (`dds_core.scaler.history.page`) as JSON."""
    packed = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    return filled(title=escape(title), policy=policy(), style=style(), script=script(), data=packed)


def live(title: str) -> str:
    """The page without data, which it requests from its own server."""
    return filled(title=escape(title), policy=policy(live=True), style=style(), script=script(live=True), data="")


def filled(**parts: str) -> str:
    """The page's frame with these parts in their places."""
    before, *rest = _asset("page.html").split("{{")
    return before + "".join(parts[name] + text for name, _, text in (piece.partition("}}") for piece in rest))


def policy(*, live: bool = False) -> str:
    """The content security policy: this script and this style; for a live page also requests to its own server."""
    texts = (("script", script(live=live)), ("style", style()))
    sources = (f"{kind}-src 'sha256-{_digest(text)}'" for kind, text in texts)
    connect = "'self'" if live else "'none'"
    return f"default-src 'none'; {'; '.join(sources)}; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"


@cache
def script(*, live: bool = False) -> str:
    """All scripts for one element; modules of one scope, in order."""
    scripts = (*_SCRIPTS, _LIVE) if live else _SCRIPTS
    licence = "".join(f" * {line}\n" for line in _asset(_LICENCE).splitlines())
    return f"/*! uPlot\n{licence} */\n" + "\n".join(map(_asset, scripts))


@cache
def style() -> str:
    return "\n".join(map(_asset, _STYLES))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
