"""The page that shows a log: its assets, put together into one file that makes no network request.

The data is gzipped and in base64, so that it cannot end its HTML element. The page's content security policy allows this script
and this style only, and no request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

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


def document(title: str, data: Mapping[str, Any]) -> str:
    """The whole page, with the first patch (`dds_core.scaler.history.page`). Its summary is HTML as well, which a browser shows
    before the scripts run, or without them."""
    packed = base64.b64encode(gzip.compress(msgspec.json.encode(data), mtime=0)).decode()
    parts = {"policy": policy(), "style": style(), "script": script(), "data": packed}
    return filled(title=escape(title), span=_span(data), summary=_summary(data.get("summary", {})), **parts)


def live(title: str) -> str:
    """The page without data, which it requests from its own server."""
    parts = {"policy": policy(live=True), "style": style(), "script": script(live=True), "data": ""}
    return filled(title=escape(title), span="", summary=_summary({}), **parts)


# -- the summary as HTML: the same elements as of `summaryOf` in live.js --------------------------------------------------


def _span(data: Mapping[str, Any]) -> str:
    """The days and times (UTC) of the data."""
    if "start" not in data:
        return ""
    first, last = (datetime.fromtimestamp((data["start"] + data[one]) // 1000, UTC) for one in ("since", "now"))
    day = f"{last:%Y-%m-%d} " if last.date() != first.date() else ""
    return f"{first:%Y-%m-%d %H:%M:%S} to {day}{last:%H:%M:%S} UTC · dds {_text(data.get('dds', ''))}"


def _summary(summary: Mapping[str, Any]) -> str:
    tiles = "".join(
        f'<div class="tile{" bad" * one["bad"]}"><dt>{_text(one["name"])}</dt><dd>{_text(one["value"])}</dd>'
        f'<dd class="note">{_link(one["claim"], one["note"])}</dd></div>'
        for one in summary.get("tiles", ())
    )
    causes = "".join(
        f'<li><b>{one["share"]} %</b> <i class="chip stage-{_text(one["stage"])}"></i><b>{_text(one["stage"])}</b>'
        f" {_text(one['waited'])}, {_claims(one['claims'])}: {_text(one['words'])}"
        f" (longest {_link(one['uid'], one['longest'])})</li>"
        for one in summary.get("causes", ())
    )
    notes = "".join(f"<li>{_text(one)}</li>" for one in summary.get("notes", ()))
    title = "<h2>What the waiting was for</h2>"
    return f'<dl id="tiles">{tiles}</dl><div id="causes">{title}<ol>{causes}</ol></div><ul id="notes">{notes}</ul>'


def _link(uid: str, text: str) -> str:
    if not uid:
        return _text(text)
    return f'<button type="button" class="link" data-claim="{_text(uid)}">{_text(text)}</button>'


def _claims(number: int) -> str:
    return f"{number} claim{'' if number == 1 else 's'}"


def _text(text: str) -> str:
    """Escaped. Characters that are invisible or turn the direction of text are shown by their number, as in model.js."""
    return escape(
        re.sub("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", lambda one: f"\\u{ord(one[0]):04x}", text)
    )


# -- its parts ---------------------------------------------------------------------------------------------------------------


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
